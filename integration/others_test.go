package integration

import (
	"testing"
)

// TestOtherUsers: another user reads what the modes allow, and nothing of the history, mounted and not.
func TestOtherUsers(t *testing.T) {
	w := mounted(t)
	put(t, w, "public", "for everybody\n")
	w.Sh("echo secret > private; chmod 600 private").OK()
	id := w.Task("one")
	w.Sh("echo more >> public; echo more >> private").OK()
	w.Task("two")
	other := "setpriv --reuid 65534 --regid 65534 --clear-groups "
	if out := w.Sh(other + "cat public").OK().Stdout; out != "for everybody\nmore\n" {
		t.Errorf("another user reads %q", out)
	}
	refused := []string{"cat private", "sh -c 'echo x >> public'", "sh -c 'echo x > new'", "ls .tt", "cat .tt/status", "cat .tt/log", "sh -c 'echo undo > .tt/ctl'", "sh -c 'echo prune > .tt/ctl'",
		"cat .tt/at/0/public", "cat .tt/tasks/" + itoa(id) + "/before/private", "cat .tt/tasks/" + itoa(id) + "/diff", "ls .tt/as/user", "cat .tt/as/user/public", "ls .tt/forks"}
	for _, c := range refused {
		if r := w.Sh(other + c); r.Code == 0 {
			t.Errorf("another user may: %s: %q", c, r.Stdout)
		}
	}
	if got := get(t, w, "public"); got != "for everybody\nmore\n" {
		t.Errorf("public is %q now", got)
	}
	detached(t, w)
	for _, c := range []string{"ls .tt", "ls .tt/hold", "cat .tt/log", "cat .tt/journal/00000001.seg"} {
		if r := w.Sh(other + c); r.Code == 0 {
			t.Errorf("another user may, unmounted: %s", c)
		}
	}
}
