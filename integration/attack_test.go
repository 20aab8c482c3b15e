package integration

import (
	"strings"
	"testing"
)

// forbidden are what an agent tries on what is not its own: of boss, of the user, of the daemon. Each fails, and changes nothing. DAEMON is
// the daemon's process, PEER one of the user's.
var forbidden = []string{
	// By a command.
	"say 'undo agent=boss'", "say 'undo agent=boss force'", "say 'redo agent=boss'", "say 'switch 0 agent=boss'", "say 'revert 1 agent=boss'", "say 'undo agent=user force'",
	"say 'end boss'", "say 'end user'", "say 'guard off'", "say 'agent boss'", "say 'agent user'", "say 'agent x pid=1'", "say \"agent x pid=$DAEMON\"", "say \"agent x pid=$PEER\"",
	"say 'agent z parent=boss'", "say 'prune keep=1s'", "say 'prune max=1'", "say fsck",
	"say 'merge bossfork'", "say 'merge bossfork force=theirs'", "say 'discard bossfork'", "say 'discard bossfork force'", "say 'fork bossfork'",
	// By another's view.
	"echo x >.tt/as/boss/f", "cat .tt/as/boss/f", "echo undo >.tt/as/boss/.tt/ctl", "ls .tt/as/boss/.tt", "echo x >.tt/as/user/f", "echo 'guard off' >.tt/as/user/.tt/ctl",
	"echo x >.tt/forks/bossfork/tree/f", "echo undo >.tt/forks/bossfork/tree/.tt/ctl", "echo x >.tt/forks/bossfork/tree/.tt/as/boss/f", "rm -r .tt/forks/bossfork/tree/d",
	// By names below .tt and the root.
	"ln f .tt/x", "ln .tt/README readme", "ln -s / .tt/l", "mv f .tt/f", "mv .tt tt", "mv d .tt/at", "mkdir .tt/x", "rmdir .tt", "rm .tt/ctl", "rm -r .tt/at/1/d", "mknod .tt/dev c 1 3",
	"echo x >.tt/at/1/f", "echo x >.tt/tasks/1/before/f", "echo x >.tt/tasks/1/title", "chmod 777 .tt", "chown 65534 .tt/ctl", "setfattr -n user.x -v y .tt/log", "truncate -s 0 .tt/log",
	"mv ../$(basename \"$PWD\") ../away", "rmdir \"$PWD\"", "echo x >.tt/as/../../f/y",
	"cat .tt/at/18446744073709551615/f", "cat '.tt/tasks/1\n/title'", "cat .tt/as/../boss/f",
}

// TestForbidden: an agent gets at nothing of another agent, of the user, or of what keeps the history, by commands, by views or by names.
func TestForbidden(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	w.Sh("echo f >f; mkdir d; echo g >d/g").OK()
	boss := agent(t, w, "boss")
	boss.Say("echo 'task of boss' >.tt/ctl; echo boss >f; echo more >d/more; echo 'fork bossfork' >.tt/ctl; echo in >.tt/forks/bossfork/tree/f")
	peer := w.Shell(w.Dir)
	pid := strings.TrimSpace(peer.Say("echo $$"))
	before := w.Snapshot()
	history := func() string {
		return w.Read(".tt/agents/boss/list") + w.Read(".tt/agents/boss/active") + w.Read(".tt/agents/user/list") + w.Read(".tt/forks/bossfork/diff") + w.TTFS("forks").OK().Stdout
	}
	was := history()
	script := "say() { printf '%s' \"$1\" >.tt/ctl; }\nDAEMON=" + itoa(w.Daemon()) + " PEER=" + pid + "\n"
	for i, try := range forbidden {
		script += "if (" + try + ") >/dev/null 2>&1; then echo " + itoa(i) + "; fi\n"
	}
	out := w.TTFS("run", "--agent", "mallory", "--", "sh", "-c", script)
	for line := range strings.Lines(out.Stdout) {
		for i, try := range forbidden {
			if strings.TrimSpace(line) == itoa(i) {
				t.Errorf("an agent may: %s", try)
			}
		}
	}
	w.Same("after all of it", before)
	if got := history(); got != was {
		t.Errorf("the history was\n%s\nis\n%s", was, got)
	}
	if got := w.Status()["guard"]; got != "on" {
		t.Errorf("the guard is %s", got)
	}
	if !w.Mounted() {
		t.Error("it is not mounted any more")
	}
	boss.Say("echo undo >.tt/ctl")
	if got := w.Read("f"); got != "f\n" {
		t.Errorf("boss goes back, and f is %q", got)
	}
}

// TestNoWayOut: directories become symbolic links that lead out of the workspace, and directories again, while the daemon restores, goes back and
// shows the past by their names; and links lie in hold under its own names. Nothing outside is changed or shown, and hold loses nothing that is not its own.
func TestNoWayOut(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	w.Sh("mkdir ../outside race race/a; echo outside >../outside/secret; mkdir ../outside/d; echo inside >race/a/secret; chmod 600 ../outside/secret").OK()
	w.Unmount()
	w.Sh("cd .tt/hold; ln -s ../../../outside o00ff; ln -s ../../../outside goff; mkdir gofe; ln -s ../../../../outside gofe/l; echo theirs >notours").OK()
	w.Mount()
	outside := w.Sh("cd ../outside; ls -lR; cat secret").OK().Stdout
	one := w.Task("one")
	w.Sh("echo more >>race/a/secret").OK()
	before := w.Snapshot()
	w.Task("two")
	w.Python(`
import os, sys, threading
over = False
def flip():
    while not over:
        for do in (lambda: os.rename("race/a", "race/b"), lambda: os.symlink("../../outside", "race/a"), lambda: os.unlink("race/a"), lambda: os.rename("race/b", "race/a")):
            try: do()
            except OSError: pass
flips = threading.Thread(target=flip)
flips.start()
try:
    ctl = os.open(".tt/ctl", os.O_RDWR)
    for i in range(12):
        for command in ("restore %s race/a/secret" % sys.argv[1], "undo", "redo", "task %d" % i, "restore %s race" % sys.argv[1], "undo force"):
            try: os.write(ctl, command.encode())
            except OSError: pass
        try: shown = open(".tt/at/%s/race/a/secret" % sys.argv[1]).read()
        except OSError: shown = "inside"
        assert "inside" in shown, shown
finally:
    over = True
    flips.join()
`, itoa(one)).OK()
	if got := w.Sh("cd ../outside; ls -lR; cat secret").OK().Stdout; got != outside {
		t.Errorf("outside there was\n%s\nand is\n%s", outside, got)
	}
	w.Must("switch " + itoa(one) + " force")
	w.Same("back at task one", before)
	if _, err := w.Ctl("prune keep=1s"); err != nil {
		t.Error(err)
	}
	w.Unmount()
	if got := w.Sh("cd ../outside; ls -lR; cat secret; cat ../ws/.tt/hold/notours").OK().Stdout; got != outside+"theirs\n" {
		t.Errorf("after a prune there is\n%s", got)
	}
}
