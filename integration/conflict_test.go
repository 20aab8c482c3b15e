package integration

import (
	"strings"
	"testing"
)

// TestUndoTakesNobodysWork: two agents in one tree; the undo of one is refused where the other has worked since.
func TestUndoTakesNobodysWork(t *testing.T) {
	w := mounted(t)
	put(t, w, "shared", "from the user\n")
	put(t, w, "only-a", "from the user\n")
	a, b := agent(t, w, "a"), agent(t, w, "b")
	a.Say("echo 'task work of a' > .tt/ctl; echo a >> shared; echo a > only-a; mkdir dir; echo a > dir/a")
	b.Say("echo 'task work of b' > .tt/ctl; cat shared dir/a; echo b >> shared; echo b > dir/b")
	both := w.Snapshot()
	if out := a.Say("echo undo > .tt/ctl; echo exit=$?"); strings.Contains(out, "exit=0") {
		t.Fatalf("a's undo was not refused: %s", out)
	}
	w.Same("after the refused undo", both)
	report := a.Say("cat .tt/conflicts")
	for _, want := range []string{"shared\tb\t", "dir\tb\t", "work of b"} {
		if !strings.Contains(report, want) {
			t.Errorf(".tt/conflicts has no %q:\n%s", want, report)
		}
	}
	if why := a.Say("cat .tt/why"); !strings.Contains(why, "shared") || !strings.Contains(why, "skip") {
		t.Errorf(".tt/why: %s", why)
	}
	if r := w.TTFS("undo", "--agent", "a").Exit(3); !strings.Contains(r.Stderr, "shared") {
		t.Errorf("ttfs undo: %s", r.Stderr)
	}
	w.TTFS("undo", "--agent", "a", "--skip").OK()
	if got := get(t, w, "only-a"); got != "from the user\n" {
		t.Errorf("only-a: %q", got)
	}
	if got := get(t, w, "shared"); got != "from the user\na\nb\n" {
		t.Errorf("shared: %q", got)
	}
	if got := get(t, w, "dir/b"); got != "b\n" {
		t.Errorf("dir/b: %q", got)
	}
	w.TTFS("redo", "--agent", "a").OK()
	w.Same("after skip and redo", both)
	w.TTFS("undo", "--agent", "b").OK()
	if got := get(t, w, "shared"); got != "from the user\na\n" {
		t.Errorf("after b's undo: %q", got)
	}
}
