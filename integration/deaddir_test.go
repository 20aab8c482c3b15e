package integration

import (
	"os"
	"testing"
)

// TestDirectoryComesBack: a directory that was removed while a file of it was open, and somebody worked in it, is there again after
// an undo: it lists, and things can be made in it. So is one over which another was renamed.
func TestDirectoryComesBack(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	w.Sh("mkdir d e; echo in > d/in; echo x > e/x").OK()
	before := w.Snapshot()
	id := w.Task("remove")
	held, err := os.Open(w.Path("d/in"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	sh := w.Shell(w.Path("e"))
	w.Sh("rm -r d; rm e/x; mkdir other; mv -T other e").OK()
	for range 2 {
		w.TTFS("undo").OK()
		w.Same("undo", before)
		w.Sh("echo new > d/new; echo new > e/new; rm d/new e/new").OK()
		w.TTFS("undo").OK() // of what began by itself
		w.TTFS("switch", itoa(id)).OK()
		if _, err := os.Lstat(w.Path("d")); !os.IsNotExist(err) {
			t.Fatalf("after redo: %v", err)
		}
	}
	w.TTFS("undo").OK()
	w.Same("at the end", before)
	if got := sh.Say("cd " + w.Path("e") + " && ls"); got != "x" {
		t.Errorf("who worked in it finds %q", got)
	}
}
