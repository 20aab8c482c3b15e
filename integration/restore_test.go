package integration

import (
	"strings"
	"testing"
)

// TestRestoreTakesNobodysWork: a path comes back over one's own later tasks, and over somebody else's only by force, whose undo
// gives it back; by .tt/ctl and by the command, mounted and not, also of a name that looks like a command's word.
func TestRestoreTakesNobodysWork(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	for _, name := range []string{"force 1 x", "own"} {
		put(t, w, name, "first\n")
	}
	a, b := agent(t, w, "a"), agent(t, w, "b")
	a.Say("echo 'task one' > .tt/ctl; echo 'task two' > .tt/ctl; for f in 'force 1 x' own; do echo a >> \"$f\"; done")
	a.Say("echo 'task three' > .tt/ctl; echo 'restore 2 own' > .tt/ctl")
	if got := get(t, w, "own"); got != "first\n" {
		t.Errorf("a's own later task: %q", got)
	}
	b.Say("echo 'task work of b' > .tt/ctl; cat 'force 1 x'; echo b >> 'force 1 x'")
	both := w.Snapshot()
	out := a.Say("/bin/echo 'restore 2 force 1 x' > .tt/ctl; echo exit=$?; cat .tt/why .tt/conflicts")
	for _, want := range []string{"busy", "force 1 x\tb\t", "work of b", "`restore force 2 force 1 x`"} {
		if !strings.Contains(out, want) {
			t.Errorf("the refusal has no %q:\n%s", want, out)
		}
	}
	w.Same("after the refusal", both)
	if log := w.Read(".tt/log"); !strings.Contains(log, "refused op=restore agent=a") {
		t.Errorf(".tt/log:\n%s", log)
	}
	if r := w.TTFS("restore", "2", "force 1 x").Exit(3); !strings.Contains(r.Stderr, "(b, task") {
		t.Errorf("the user's restore of a's: %s", r)
	}
	w.TTFS("restore", "2", "force 1 x", "--force", "--skip").Exit(64)
	w.TTFS("restore", "2", "force 1 x", "--skip").OK()
	w.Same("after the skip", both)
	w.TTFS("restore", "--force", "2", "force 1 x").OK()
	if got := get(t, w, "force 1 x"); got != "first\n" {
		t.Errorf("forced: %q", got)
	}
	if log := w.Read(".tt/log"); !strings.Contains(log, "force agent=user op=restore") {
		t.Errorf(".tt/log:\n%s", log)
	}
	w.TTFS("undo", "--agent", "user").OK()
	w.Same("after the undo of the force", both)
	a.Say("/bin/echo 'restore force 2 force 1 x' > .tt/ctl && echo undo > .tt/ctl")
	w.Same("after a's force and its undo", both)
	a.Say("cd /")
	b.Say("cd /")
	detached(t, w)
	w.TTFS("restore", "2", "force 1 x").Exit(3)
	w.TTFS("restore", "2", "force 1 x", "--force").OK()
	if got := get(t, w, "force 1 x"); got != "first\n" {
		t.Errorf("forced without the mount: %q", got)
	}
}
