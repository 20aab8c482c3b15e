package integration

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
)

// TestAgentsInAFork: in a fork there are tasks, sub-agents with tasks of their own, the guard, the fence for late children,
// read-only agents and views, as in the workspace.
func TestAgentsInAFork(t *testing.T) {
	w := project(t)
	binary := os.Getenv(rig.EnvBinary)
	inFork(t, w, "c", `echo "task whole" >.tt/ctl; cat src/f >/dev/null
`+binary+` run --agent d -- sh -ec 'cat .tt/status; cat src/f >/dev/null; echo d >src/f; cat .tt/agents/d/parent' >out
grep -q agent=d out; grep -q '^c$' out
if echo mine >src/f; then exit 7; fi
grep -q ' d ' .tt/why; cat .tt/stale | grep -q 'src/f.*d'
cat src/f >/dev/null; echo mine >src/f
`+binary+` run --isolation ro --agent e -- sh -c '! echo x >src/f'
echo v >.tt/as/v/fresh; cat .tt/agents/v/parent | grep -q '^c$'; grep -q 'created fresh' .tt/tasks/$(cat .tt/agents/v/active)/files
`).OK()
	if got := w.Read(".tt/forks/c/tree/src/f"); got != "mine\n" {
		t.Errorf("in the fork: %q", got)
	}
	tt := ".tt/forks/c/tree/.tt/"
	if got := w.Read(tt+"agents/e/isolation") + w.Read(tt+"agents/d/isolation"); got != "ro\nnone\n" {
		t.Errorf("isolation in the fork: %q", got)
	}
	log := w.Read(".tt/log")
	for _, want := range []string{"fork agent=c fork=c", "task agent=d task=3 title=", "in=c\n", "agent agent=d parent=c", "agent=e decision=isolated in=c\n"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log has no %q:\n%s", want, log)
		}
	}
	w.Sh("echo undo >.tt/forks/c/tree/.tt/as/v/.tt/ctl; test ! -e .tt/forks/c/tree/fresh").OK()
}

// TestForkFencesLateChildren: a child that was started in a task of the fork which has been undone writes no more.
func TestForkFencesLateChildren(t *testing.T) {
	w := project(t)
	inFork(t, w, "c", `mkfifo go done
echo "task one" >.tt/ctl
(echo begun >begun; read x <go; if echo late >late; then echo wrote >done; else echo refused >done; fi) 2>/dev/null &
until test -s begun; do :; done
echo undo >.tt/ctl
test ! -e begun
echo x >go; read said <done; test "$said" = refused; test ! -e late
echo two >two`).OK()
}

// TestForkOfThePast: a fork of the end of a task is the tree as it was then.
func TestForkOfThePast(t *testing.T) {
	w := project(t)
	w.Task("one")
	w.Sh("echo one >src/f; rm new").OK()
	id := w.Active()
	w.Task("two")
	w.Sh("echo two >src/f; echo again >new; mv link moved").OK()
	if out := w.TTFS("fork", "past", "--at", itoa(id)).OK(); out.Stdout != w.Path(".tt/forks/past/tree")+"\n" {
		t.Error(out)
	}
	w.Must("fork before at=" + itoa(id-1))
	w.Must("fork start at=0")
	for name, want := range map[string]string{"past": "one\nlink src .tt", "before": "1\n2\n3\ndirty\nempty link new src .tt", "start": " .tt"} {
		got := w.Sh("cd .tt/forks/" + name + "/tree; cat src/f 2>/dev/null || true; echo $(ls) .tt").OK().Stdout
		if want = strings.ReplaceAll(want, "link src .tt", "empty link src .tt"); strings.TrimSpace(got) != strings.TrimSpace(strings.ReplaceAll(want, "empty empty", "empty")) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	r := w.TTFS("forks", "--json").OK()
	if !strings.Contains(r.Stdout, `"at": `+itoa(id)) {
		t.Errorf("forks: %s", r)
	}
	w.Sh("cat src/f new moved >/dev/null; test \"$(cat src/f)\" = two").OK()
}

// TestRunMountsForAFork: run mounts the workspace for its command, and the fork is there when somebody mounts again.
func TestRunMountsForAFork(t *testing.T) {
	w := rig.New(t)
	w.Sh("echo f >f; mkdir d").OK()
	r := w.Run(w.Path("d"), os.Getenv(rig.EnvBinary), "run", "-w", w.Dir, "--isolation", "fork", "--agent", "c", "--", "sh", "-c", "pwd; echo fork >../f")
	if r.OK(); r.Stdout != w.Path("d")+"\n" || !strings.Contains(r.Stderr, "ttfs mount "+w.Dir+" && ttfs merge c") {
		t.Error(r)
	}
	if w.Mounted() {
		t.Fatal("it is still mounted")
	}
	if b, err := os.ReadFile(filepath.Join(w.Dir, "f")); err != nil || string(b) != "f\n" {
		t.Errorf("the workspace: %q, %v", b, err)
	}
	w.Mount()
	if got := w.Read(".tt/forks/c/tree/f"); got != "fork\n" {
		t.Errorf("the fork: %q", got)
	}
	w.Sh(`cd .tt/forks/c/tree; "$1" log | grep -q fork; "$1" undo; cat f; "$1" -w "$2" redo; cat f`, os.Getenv(rig.EnvBinary), w.Path(".tt/forks/c/tree")).OK()
}

// TestForkWatchers: who watches a fork hears of moves in it, and who watches the workspace does not.
func TestForkWatchers(t *testing.T) {
	w := project(t)
	w.Must("fork c")
	fork := w.Fork("c")
	fork.Task("one")
	fork.Sh("echo changed >src/f; echo made >src/made").OK()
	in, other := watch(t, fork, "src"), watch(t, w, "src")
	heard := func(what ...string) func() bool {
		return func() bool {
			in.read()
			return !slices.ContainsFunc(what, func(s string) bool { return !slices.Contains(in.told, s) })
		}
	}
	fork.Must("undo")
	rig.Eventually(t, "the undo to be seen", heard("src: made delete", "src: f modify"))
	fork.Must("redo")
	rig.Eventually(t, "the redo to be seen", heard("src: made create"))
	if other.read(); len(other.told) != 0 {
		t.Errorf("the workspace's watcher heard %q", other.told)
	}
}
