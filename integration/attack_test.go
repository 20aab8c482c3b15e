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
