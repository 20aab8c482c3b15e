package rig

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Image is a workspace in the directory ws of a filesystem image, which is mounted by a loop device for the length of the
// test. The directory is made when it is not there. Inodes keep their numbers and birth times in an image, by which a
// store knows its files again; in an archive they would not.
func Image(t testing.TB, image string) *Workspace {
	t.Helper()
	if os.Getenv(EnvDiskKind) != "ext4" {
		t.Skip("this machine allows no loop devices")
	}
	top := Disk(t)
	dir := filepath.Join(top, "image")
	w := &Workspace{t: t, Dir: filepath.Join(dir, "ws"), home: filepath.Join(top, "home")}
	for _, d := range []string{dir, w.home} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("mount", "-o", "loop", image, dir).CombinedOutput(); err != nil {
		t.Fatalf("mount the image: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount the image: %v", err)
			_ = unix.Unmount(dir, unix.MNT_DETACH)
		}
	})
	if err := os.Mkdir(w.Dir, 0o755); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	t.Cleanup(w.end)
	return w
}

// NewImage makes an image with an empty ext4 in it, with a name in dir. It takes room only as it is filled.
func NewImage(t testing.TB, path string, sizeBytes int64, features string) {
	t.Helper()
	makeImage(t, path, sizeBytes, "mkfs.ext4", features+" -q -F -m 0 -E lazy_itable_init=1,lazy_journal_init=1")
}

// Sharing are the filesystems on which files can share blocks.
var Sharing = []string{"xfs", "btrfs"}

// NewSharing makes an image with one of those in it.
func NewSharing(t testing.TB, path, kind string) {
	t.Helper()
	const sizeBytes = 512 << 20 // xfs is not made smaller than 300 MiB
	makeImage(t, path, sizeBytes, "mkfs."+kind, map[string]string{"xfs": "-q -m reflink=1", "btrfs": "-q"}[kind])
}

func makeImage(t testing.TB, path string, sizeBytes int64, mkfs, args string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, sizeBytes); err != nil {
		t.Fatal(err)
	}
	at, err := exec.LookPath(mkfs)
	if err != nil {
		at = "/usr/sbin/" + mkfs
	}
	if out, err := exec.Command(at, append(strings.Fields(args), path)...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", mkfs, err, out)
	}
}
