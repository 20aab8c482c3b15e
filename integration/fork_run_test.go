package integration

import (
	"os"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
)

// inFork runs a script in a fork of the workspace.
func inFork(t *testing.T, w *rig.Workspace, agent, script string) *rig.Result {
	t.Helper()
	return w.TTFS("run", "--isolation", "fork", "--agent", agent, "--", "sh", "-e", "-c", script)
}

// project is a workspace with a repository: one file committed, one changed since, one untracked, one ignored.
func project(t *testing.T) *rig.Workspace {
	t.Helper()
	w := mounted(t)
	w.Sh(`mkdir src; printf '1\n2\n3\n' >src/f; echo '*.o' >.gitignore; git init -q; git add -A; git commit -qm one
echo dirty >>src/f; echo untracked >new; echo object >src/x.o; ln -s src/f link; mkdir empty; chmod 640 new`).OK()
	return w
}

// TestForkIsSeenInPlace: a command sees a fork at the workspace's own path, whatever is not committed included; what it
// does is its agent's and stays in the fork; the workspace does not see it, and what happens there the fork does not.
func TestForkIsSeenInPlace(t *testing.T) {
	w := project(t)
	tree := w.Snapshot()
	r := inFork(t, w, "c", `
pwd; cat src/f new src/x.o link; git status --short; cat .tt/status
echo fork >>src/f; rm new; mkdir made; echo made >made/f; mv src/x.o made/; chmod 600 .gitignore
cd src; pwd; ls; cat ../made/f; cd ..
(setsid sh -c 'echo child >child'); cat child
cat .tt/tasks/list; ls .tt/forks; cat .tt/agents/c/pids | head -1`).OK()
	for _, want := range []string{w.Dir + "\n", "1\n2\n3\ndirty\nuntracked\nobject\n", " M src/f\n?? empty", "agent=c\n", "fork=c\n", w.Dir + "/src\nf\nmade\nchild\n"} {
		if !strings.Contains(strings.ReplaceAll(r.Stdout, "?? link", "?? empty"), want) {
			t.Errorf("it did not say %q:\n%s", want, r)
		}
	}
	for _, want := range []string{"c changed 8 paths", "merge with: ttfs merge c", "discard with: ttfs discard c", "src/f"} {
		if !strings.Contains(r.Stderr, want) {
			t.Errorf("it was not told %q:\n%s", want, r.Stderr)
		}
	}
	w.Same("after the fork's work", tree)
	w.Sh(`echo main >>src/f; echo main >new; cat .tt/forks/c/tree/src/f; test ! -e .tt/forks/c/tree/new; cat .tt/forks/c/parent
grep -q '^+fork$' .tt/forks/c/diff; ! grep -q '^+main$' .tt/forks/c/diff; test "$(cat .tt/agents/c/isolation)" = fork`).OK()
	// It goes on in its fork, from a directory below, and there are undo and redo in it.
	again := w.Run(w.Path("src"), os.Getenv(rig.EnvBinary), "run", "--agent", "c", "--", "sh", "-e", "-c",
		"pwd; cat f; echo undo >../.tt/ctl; echo undo >../.tt/ctl; cat f; echo redo >../.tt/ctl; cat f").OK()
	if want := w.Dir + "/src\n1\n2\n3\ndirty\nfork\n1\n2\n3\ndirty\n1\n2\n3\ndirty\nfork\n"; again.Stdout != want {
		t.Errorf("again: %s", again)
	}
	forks := w.TTFS("forks").OK()
	if !strings.Contains(forks.Stdout, "c  of user  8 paths changed") {
		t.Errorf("forks: %s", forks)
	}
	w.TTFS("discard", "c").OK()
	w.Sh("test ! -e .tt/forks/c; tail -2 src/f | tr '\\n' ' '").OK()
	w.TTFS("discard", "c").Exit(5)
}

// TestForkKeepsOut: the fork's agent changes nothing of the workspace by any other way, nor does anybody of another line
// go into the fork.
func TestForkKeepsOut(t *testing.T) {
	w := project(t)
	w.Must("fork c")
	tree := w.Snapshot()
	outside := w.Shell(w.Dir)
	outside.Say("exec 9<.")
	root := itoa(os.Getpid())
	inFork(t, w, "c", `! (echo x >/proc/`+root+`/root`+w.Dir+`/new) 2>err; grep -qi 'read-only' err
! echo undo >/proc/`+root+`/root`+w.Dir+`/.tt/ctl; echo ok >in-fork`).OK()
	w.Same("after it tried", tree)
	if got := w.Read(".tt/forks/c/tree/in-fork"); got != "ok\n" {
		t.Errorf("in the fork: %q", got)
	}
	stranger := agent(t, w, "stranger")
	if out := stranger.Say("ls .tt/forks/c/tree; echo 'discard c' >.tt/ctl; echo exit=$?; echo 'fork c' >.tt/ctl; cat .tt/why"); !strings.Contains(out, "not permitted") || strings.Contains(out, "exit=0") {
		t.Errorf("a stranger: %s", out)
	}
	w.Sh("cat .tt/forks/c/tree/in-fork").OK()
	// By /proc it gets in all the same, but not to be the fork's agent.
	inside := w.Shell(w.Path(".tt/forks/c/tree"))
	pid := strings.TrimSpace(inside.Say("echo $$"))
	stranger.Say("cd /proc/" + pid + "/cwd && echo theirs >by-stranger; cat .tt/status >" + w.Path("status"))
	if got := w.Read("status") + w.Read(".tt/forks/c/tree/.tt/blame/by-stranger"); !strings.Contains(got, "agent=stranger\n") || !strings.Contains(got, "stranger") {
		t.Errorf("a stranger in the fork: %s", got)
	}
	w.TTFS("discard", "c").Exit(3) // the shell's directory is in it
	w.TTFS("fork", "c").Exit(1)
	w.TTFS("fork", "d", "--at", "99").Exit(5)
	w.TTFS("fork", "user").Exit(1)
	w.TTFS("run", "--isolation", "fork", "--agent", "e", "--parent", "nobody", "--", "true").Exit(5)
	w.Sh("test \"$(ls .tt/forks)\" = c").OK()
}

// TestForkInUse: a fork in which a process lives is not discarded unless it is forced, the workspace not unmounted; a process
// in the background counts as well.
func TestForkInUse(t *testing.T) {
	w := project(t)
	inFork(t, w, "c", "sleep 600 >/dev/null 2>&1 & echo $! >pid")
	r := w.TTFS("discard", "c").Exit(3)
	if pid := strings.TrimSpace(w.Read(".tt/forks/c/tree/pid")); !strings.Contains(r.Stderr, pid) || !strings.Contains(w.TTFS("forks").OK().Stdout, "pids "+pid) {
		t.Errorf("discard does not name process %s: %s", pid, r)
	}
	if r := w.TTFSIn("/", "unmount", w.Dir).Exit(1); !strings.Contains(r.Stderr, "in the fork c") {
		t.Errorf("unmount: %s", r)
	}
	w.Sh("kill $(cat .tt/forks/c/tree/pid)").OK()
	rig.Eventually(t, "the process to be gone", func() bool { return w.TTFS("discard", "c").Code == 0 })
	inFork(t, w, "d", "sleep 600 >/dev/null 2>&1 & echo $! >pid")
	pid := strings.TrimSpace(w.Read(".tt/forks/d/tree/pid"))
	w.TTFS("discard", "d", "--force").OK()
	w.Sh("test ! -e .tt/forks/d; ! ls /proc/" + pid + "/cwd/ 2>/dev/null; kill " + pid).OK()
	w.Unmount()
}

// TestForkOfAFork: forks nest, each at the workspace's path, and outlive those that made them.
func TestForkOfAFork(t *testing.T) {
	w := project(t)
	r := w.TTFS("run", "--isolation", "fork", "--agent", "c", "--", "sh", "-e", "-c", `echo c >>src/f
"$0" run --isolation fork --agent d -- sh -ec 'cat src/f .tt/status; echo d >>src/f; pwd'
echo ---; cat src/f; echo ---; cat .tt/forks/d/tree/src/f; echo later >>src/f; cat .tt/forks/d/parent`, os.Getenv(rig.EnvBinary)).OK()
	for _, want := range []string{"agent=d\n", "fork=c/d\n", w.Dir + "\n---\n1\n2\n3\ndirty\nc\n---\n1\n2\n3\ndirty\nc\nd\nc\n"} {
		if !strings.Contains(r.Stdout, want) {
			t.Errorf("it did not say %q:\n%s", want, r)
		}
	}
	w.TTFS("discard", "c").Exit(3) // it has a fork
	w.Must("end c")
	const nested = ".tt/forks/c/tree/.tt/forks/d/tree/src/f"
	check := func(when string) {
		t.Helper()
		if got := w.Read(nested); got != "1\n2\n3\ndirty\nc\nd\n" {
			t.Errorf("%s: %q", when, got)
		}
		if got := w.Read(".tt/forks/c/tree/src/f"); got != "1\n2\n3\ndirty\nc\nlater\n" {
			t.Errorf("%s: c's: %q", when, got)
		}
	}
	check("parent gone")
	w.Unmount()
	w.Mount()
	check("after a remount")
	w.Kill()
	w.Bury()
	w.Mount()
	check("after a death")
	w.Sh("echo undo >.tt/forks/c/tree/.tt/forks/d/tree/.tt/ctl; ! grep -q d$ " + nested + " && grep -q c " + nested).OK()
	w.TTFS("discard", "c", "--force").OK()
	w.Sh("test ! -e .tt/forks/c; cat src/f").OK()
}
