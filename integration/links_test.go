package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ttfs/ttfs/integration/rig"
)

// TestLinkedCopyGoesAndComesBack: cp -al of 5,000 files, then rm -rf of one of
// the two trees; each undo brings back names, not copies.
func TestLinkedCopyGoesAndComesBack(t *testing.T) {
	t.Parallel()
	const files = 5000
	w := rig.New(t)
	for i := range files {
		dir := w.Path(fmt.Sprintf("a/%02d", i%50))
		if i < 50 {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, itoa(i)), []byte(itoa(i)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w.Mount()
	start := w.Snapshot()
	w.Sh("echo 'task link' > .tt/ctl; cp -al a b").OK()
	linked := w.Snapshot()
	if n := len(linked["b/07/7"].Group); n != 2 {
		t.Errorf("after cp -al b/07/7 is one of %d names, want 2", n)
	}
	w.Sh("echo 'task remove' > .tt/ctl; rm -rf a").OK()
	removed := w.Snapshot()
	if n := removed["b/07/7"].Nlink; n != 1 {
		t.Errorf("after rm -rf a, b/07/7 has link count %d, want 1", n)
	}
	w.Must("undo")
	w.Same("undo of rm -rf", linked)
	w.Must("undo")
	w.Same("undo of cp -al", start)
	w.Must("redo")
	w.Must("redo")
	w.Same("redo of both", removed)
	w.Must("switch 0")
	w.Unmount()
	w.Same("the plain directory", start)
}

// TestLinkFromOutside: a file that also has a name outside the workspace loses
// the one inside. Its way back must lead to the same inode, even after the
// kernel and the daemon have forgotten it.
func TestLinkFromOutside(t *testing.T) {
	t.Parallel()
	w := rig.New(t)
	w.Sh("mkdir d; for i in $(seq 2000); do echo $i >d/$i; done; echo shared >inside; echo pair >p1; ln p1 p2").OK()
	outside := filepath.Join(rig.Disk(t), "outside")
	if err := os.Link(w.Path("inside"), outside); err != nil {
		t.Fatal(err)
	}
	w.Mount()
	start := w.Snapshot()
	links := func(want int, moment string, paths ...string) {
		t.Helper()
		for _, path := range paths {
			var st unix.Stat_t
			if err := unix.Lstat(path, &st); err != nil {
				t.Errorf("%s: %v", moment, err)
			} else if int(st.Nlink) != want {
				t.Errorf("%s: %s has link count %d, want %d", moment, filepath.Base(path), st.Nlink, want)
			}
		}
	}
	links(2, "at the start", w.Path("inside"), outside, w.Path("p1"), w.Path("p2"))
	w.Sh("echo 'task remove' > .tt/ctl; rm inside p1; cat d/* >/dev/null; echo more >>p2").OK()
	links(1, "p1 removed", w.Path("p2"))
	// Only root of the machine may; where not, reading the 2,000 has to do.
	_ = os.WriteFile("/proc/sys/vm/drop_caches", []byte("2"), 0)
	w.Sh("cat d/* >/dev/null").OK()
	removed := w.Snapshot()

	w.Must("undo")
	w.Same("undo", start)
	links(2, "after undo", w.Path("inside"), outside, w.Path("p1"), w.Path("p2"))
	w.Must("redo")
	w.Same("redo", removed)
	w.Must("undo")
	w.Unmount()
	w.Same("the plain directory", start)
	in, err := os.Stat(w.Path("inside"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Stat(outside)
	if err != nil {
		t.Fatal(err)
	}
	if !os.SameFile(in, out) {
		t.Error("the two names are no longer one file")
	}
	if content, err := os.ReadFile(outside); err != nil || string(content) != "shared\n" {
		t.Errorf("the name outside reads %q, %v", content, err)
	}
}
