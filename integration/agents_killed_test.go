package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ttfs/ttfs/integration/treecmp"
)

// TestKillDuringMovesOfAgents kills the daemon at random instants of the moves that several agents may make: one that is refused,
// that skips, that forces, its undo, a revert, a restore, and those of a parent with what hangs under its task, three deep. At
// the next mount the move is complete or was not begun, and it is taken back exactly. TTFS_NIGHTLY=1 kills 150 times.
func TestKillDuringMovesOfAgents(t *testing.T) {
	t.Parallel()
	const seed = 31
	random := rand.New(rand.NewPCG(seed, 0))
	w := mounted(t)
	w.Sh(`for a in force skip1 skip2 refused revert p; do mkdir $a; for i in $(seq 40); do echo first > $a/$i; done; head -c 300000 /dev/zero > $a/big; done`).OK()
	run := func(agent, script string, more ...string) {
		t.Helper()
		args := append([]string{"run", "--agent", agent, "--task", "of " + agent}, more...)
		w.TTFS(append(args, "--", "sh", "-c", "cd "+w.Dir+" && "+script)...).OK()
	}
	change := `cd %s && for i in $(seq 20); do echo %[1]s >> $i; done; rm 3[0-9]; mkdir new; echo %[1]s > new/x; mv 25 new/25; chmod 700 29; printf y | dd of=big bs=1 seek=70000 conv=notrunc status=none`
	for _, a := range []string{"force", "skip1", "skip2", "refused", "revert", "p"} {
		run(a, fmt.Sprintf(change, a))
	}
	run("c", "cd p && for i in $(seq 10 25); do test -e $i && echo c >> $i; done; mv new newer", "--parent", "p")
	run("g", "cd p && echo g >> newer/x && rm 1 2 3 && mkdir 1 && echo g > 1/deep && chmod 711 newer", "--parent", "c")
	run("stranger", "for a in force skip1 skip2 refused; do echo stranger >> $a/5; echo stranger > $a/new/y; rm $a/7; done")
	run("revert", "echo later > revert/other")

	type op struct{ agent, do, back string }
	ops := []op{
		{"refused", "undo agent=refused", ""},
		{"skip1", "undo agent=skip1 skip", "redo agent=skip1"},
		{"skip2", "undo agent=skip2 skip", "redo agent=skip2"},
		{"force", "undo agent=force force", "undo agent=force"},
		{"force", "redo agent=force", "undo agent=force"}, // of the force that was undone
		{"p", "undo agent=p", "redo agent=p"},
		{"revert", "revert " + itoa(taskOf(t, w.Read(".tt/agents/revert/list"), 0)) + " agent=revert", "undo agent=revert"},
		{"user", "restore force 0 revert/new", "undo"},
	}
	start := w.Snapshot()
	ends := make([]treecmp.Tree, len(ops))
	active := func(agent string) string { return w.Read(".tt/agents/" + agent + "/active") }
	for i, o := range ops {
		if o.back == "" {
			if _, err := w.Ctl(o.do); err == nil {
				t.Fatalf("%s is not refused", o.do)
			}
			continue
		}
		if strings.HasSuffix(o.do, "skip") {
			continue // what was skipped once is not in the way again: it is killed first
		}
		w.Must(o.do)
		ends[i] = w.Snapshot()
		if d := w.Differs(start); d == "" {
			t.Fatalf("%s changes nothing", o.do)
		}
		w.Must(o.back)
		w.Same("after "+o.do+" and "+o.back, start)
	}
	rounds := 3 * len(ops)
	if os.Getenv("TTFS_NIGHTLY") != "" {
		rounds = 150
	}
	limit := 4 * time.Millisecond
	begun := 0
	for round := range rounds {
		i := round % len(ops)
		o := ops[i]
		before := active(o.agent)
		cmd := w.Command(t.Context(), "/", "sh", "-c", `echo "$1" >"$2"`, "sh", o.do, w.Path(".tt/ctl"))
		began := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		spin(time.Duration(random.Int64N(int64(limit))))
		w.Kill()
		err := cmd.Wait()
		if took := time.Since(began); err == nil && took > limit {
			limit = took
		} else if err != nil {
			limit += limit / 3
		}
		w.Bury()
		w.Mount()
		what := fmt.Sprintf("round %d (seed %d), killed in %q", round, seed, o.do)
		moved := active(o.agent) != before
		if err == nil && o.back != "" && !moved {
			t.Fatalf("%s: it was acknowledged, and is not there", what)
		}
		if !moved {
			w.Same(what+", not begun", start)
			continue
		}
		begun++
		if o.back == "" {
			t.Fatalf("%s: what is refused has moved the agent", what)
		}
		if ends[i] != nil {
			w.Same(what+", done", ends[i])
		} else {
			ends[i] = w.Snapshot()
			for name, want := range map[string]string{"5": "first\n" + o.agent + "\nstranger\n", "6": "first\n", "new/y": "stranger\n", "35": "first\n"} {
				if got := get(t, w, o.agent+"/"+name); got != want {
					t.Errorf("%s: %s is %q, want %q", what, name, got, want)
				}
			}
		}
		w.Must(o.back)
		w.Same(what+", and taken back", start)
	}
	t.Logf("%d kills, after %d of them the move was complete", rounds, begun)
	w.Unmount()
	w.TTFS("fsck").OK()
}

// taskOf is the number of the task on a line of a list.
func taskOf(t *testing.T, list string, line int) (id int) {
	t.Helper()
	all := strings.Split(list, "\n")
	if _, err := fmt.Sscan(strings.TrimLeft(all[line], " →↯"), &id); err != nil {
		t.Fatalf("the list has no task on line %d:\n%s", line, list)
	}
	return id
}

// TestHeldOpenByAnother: what one agent writes through a file that it holds open bars another one's undo, whatever that one
// did to the file in between; a file that was only open is nobody's.
func TestHeldOpenByAnother(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	put(t, w, "old", "from the user\n")
	a, b := agent(t, w, "a"), agent(t, w, "b")
	a.Say("echo 'task of a' > .tt/ctl; exec 3> made 4>> old 5<> old; echo a1 >&3")
	b.Say("echo 'task of b' > .tt/ctl; cat made old; echo b >> made; echo b >> old")
	before := w.Snapshot()
	if out := b.Say("echo undo > .tt/ctl && cat made"); out != "a1" {
		t.Fatalf("b's undo over what a only holds open: %s", out)
	}
	b.Say("echo redo > .tt/ctl")
	w.Same("b's undo and redo", before)
	a.Say("echo a2 >&3") // where its own offset is: over b's
	if out := b.Say("echo undo > .tt/ctl; cat .tt/conflicts"); !strings.Contains(out, "made\ta\t") || strings.Contains(out, "old\ta\t") {
		t.Errorf("b's undo over what a wrote since: %s", out)
	}
	a.Say("exec 3>&- 4>&- 5>&-; echo 'task next of a' > .tt/ctl; echo g > g")
	if out := b.Say("echo undo > .tt/ctl; cat .tt/conflicts"); !strings.Contains(out, "made\ta\t") {
		t.Errorf("b's undo when a has closed the file: %s", out)
	}
	b.Say("echo more >> old")
	if out := a.Say("echo undo > .tt/ctl && echo ok; cat .tt/why"); !strings.HasPrefix(out, "ok") {
		t.Errorf("a's undo of a task that did not touch what was open: %s", out)
	}
	if got := get(t, w, "old"); got != "from the user\nb\nmore\n" {
		t.Errorf("old is %q", got)
	}
}
