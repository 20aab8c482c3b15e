package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
	"golang.org/x/sys/unix"
)

// TestNestedMount: of a filesystem that is mounted below the workspace nothing is recorded, and nothing is reached.
func TestNestedMount(t *testing.T) {
	w := rig.New(t)
	inner := filepath.Join(w.Dir, "inner")
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", inner, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = unix.Unmount(w.Dir, unix.MNT_DETACH) // it covers the way to the inner one
		_ = unix.Unmount(inner, unix.MNT_DETACH)
	})
	if err := os.WriteFile(filepath.Join(inner, "x"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.Mount()
	w.Task("one")
	if r := w.Sh("echo 1 > inner/x").Exit(2); !strings.Contains(r.Stderr, "inner") {
		t.Errorf("it said %q", r.Stderr)
	}
	w.Sh("! ls inner; ! rmdir inner; ls -a >/dev/null; echo 1 > beside").OK()
	w.Must("undo")
	if _, err := os.Lstat(filepath.Join(w.Dir, "beside")); !os.IsNotExist(err) {
		t.Errorf("undo left what was beside it: %v", err)
	}
	w.TTFSIn("/", "unmount", w.Dir).OK()
}

// TestSmallDisk: on a small disk the space that is kept for the journal is small as well, and a full one can be emptied.
func TestSmallDisk(t *testing.T) {
	w := rig.New(t)
	small := filepath.Join(w.Dir, "small")
	if err := os.Mkdir(small, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", small, "tmpfs", 0, "size=60m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(small, unix.MNT_DETACH) })
	w.TTFSIn("/", "mount", small).OK()
	r := w.Run(small, "sh", "-c", "head -c 30000000 /dev/zero > big && rm big && echo gone").OK()
	if !strings.Contains(r.Stdout, "gone") {
		t.Error(r)
	}
	w.TTFSIn("/", "unmount", small).OK()
}
