package integration

import (
	"os"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
)

// TestRevertAndRestore: one task of three taken back, and paths brought back, mounted and not.
func TestRevertAndRestore(t *testing.T) {
	w := mounted(t)
	put(t, w, "f", "first\n")
	put(t, w, "g", "first\n")
	w.Task("one")
	w.Sh("echo one >> f; mkdir src; echo one > src/main").OK()
	two := w.Task("two")
	w.Sh("echo two > g; rm -r src; ln -s f link").OK()
	w.Task("three")
	w.Sh("echo three >> f").OK()
	before := w.Snapshot()
	w.TTFS("revert", itoa(two)).OK()
	for name, want := range map[string]string{"f": "first\none\nthree\n", "g": "first\n", "src/main": "one\n"} {
		if got := get(t, w, name); got != want {
			t.Errorf("after revert, %s is %q", name, got)
		}
	}
	if out := w.TTFS("log").OK().Stdout; !strings.Contains(out, "revert "+itoa(two)+": two") {
		t.Errorf("log:\n%s", out)
	}
	if list := w.Read(".tt/tasks/list.json"); !strings.Contains(list, `"files": 4`) {
		t.Errorf("no task of list.json has changed 4 paths (g, src, src/main, link):\n%s", list)
	}
	w.TTFS("undo").OK()
	w.Same("after the undo of the revert", before)
	put(t, w, "g", "changed again\n")
	r := w.TTFS("revert", itoa(two)).Exit(3)
	if !strings.Contains(r.Stderr, "g") || !strings.Contains(w.Read(".tt/conflicts"), "g\t") {
		t.Errorf("refused with %q, conflicts %q", r.Stderr, w.Read(".tt/conflicts"))
	}
	w.TTFS("restore", itoa(two-1), "src", "g").OK()
	if got := get(t, w, "src/main") + get(t, w, "g"); got != "one\nfirst\n" {
		t.Errorf("after restore: %q", got)
	}
	w.Sh("cd src && echo more >> main").OK()
	w.TTFSIn(w.Dir+"/src", "restore", itoa(two-1), "main").OK()
	if got := get(t, w, "src/main"); got != "one\n" {
		t.Errorf("restored from within src: %q", got)
	}
	w.TTFS("restore", itoa(two), "nothing").Exit(5)
	w.TTFS("restore", itoa(two), "../x").Exit(64)
	w.TTFS("restore", "99", "f").Exit(5)
	detached(t, w)
	w.TTFS("restore", itoa(two), "src").OK()
	if _, err := os.Lstat(w.Dir + "/src"); !os.IsNotExist(err) {
		t.Errorf("restore without the mount: %v", err)
	}
	w.TTFS("revert", itoa(two), "--force").OK()
}

// detached unmounts a workspace.
func detached(t *testing.T, w *rig.Workspace) {
	t.Helper()
	w.TTFSIn("/", "unmount", w.Dir).OK()
}
