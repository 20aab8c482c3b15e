package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
)

// agent is a shell in the workspace that is registered as one.
func agent(t *testing.T, w *rig.Workspace, name string) *rig.Shell {
	t.Helper()
	sh := w.Shell(w.Dir)
	if out := sh.Say("echo 'agent " + name + "' > .tt/ctl && echo registered"); !strings.Contains(out, "registered") {
		t.Fatalf("agent %s: %s", name, out)
	}
	return sh
}

func put(t *testing.T, w *rig.Workspace, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.Dir, name), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, w *rig.Workspace, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(w.Dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestGuardRefusesStale: what real tools do to a file that another agent changed after their agent read it.
func TestGuardRefusesStale(t *testing.T) {
	w := mounted(t)
	put(t, w, "f", "from the user\n")
	put(t, w, "other", "other\n")
	a, b := agent(t, w, "a"), agent(t, w, "b")
	for i, command := range []string{
		"echo mine > f",
		"cp other f",
		"mv other f",
		"rm -f f",
		"truncate -s 1 f",
		"dd if=/dev/zero of=f bs=1 count=1 conv=notrunc",
		`python3 -c 'open("f", "w").write("mine")'`,
	} {
		theirs := fmt.Sprintf("what b wrote, %d\n", i)
		a.Say("cat f other")
		b.Say("printf '" + strings.ReplaceAll(theirs, "\n", `\n`) + "' > f")
		before := w.Snapshot()
		out := a.Say(command + "; echo exit=$?")
		if strings.Contains(out, "exit=0") {
			t.Errorf("%s was not refused: %s", command, out)
		}
		if got := get(t, w, "f"); got != theirs {
			t.Errorf("%s: refused, but f is %q", command, got)
		}
		w.Same("after "+command+" was refused", before)
		if why := a.Say("cat .tt/why"); !strings.Contains(why, "f") || !strings.Contains(why, "b") {
			t.Errorf("%s: .tt/why says %q", command, why)
		}
		if stale := a.Say("cat .tt/stale"); !strings.Contains(stale, "f\tb") {
			t.Errorf("%s: .tt/stale says %q", command, stale)
		}
	}
	if got := w.TTFS("stale", "--agent", "a").OK().Stdout; got != "f\tb\n" {
		t.Errorf("ttfs stale says %q", got)
	}
	if got := w.TTFS("stale", "--agent", "a", "--json").OK().Stdout; !strings.Contains(got, `"writers": [`) || !strings.Contains(got, `"f"`) {
		t.Errorf("ttfs stale --json says %q", got)
	}
	if got := w.TTFS("stale", "--agent", "nobody"); got.Code != 5 {
		t.Errorf("of an agent that is not there: %s", got)
	}
	if got := b.Say("cat .tt/agents/b/writes; echo undo > .tt/ctl; cat .tt/agents/b/writes; echo redo > .tt/ctl"); got != "modified f" {
		t.Errorf("b's writes, then none after its undo: %q", got)
	}
	if out := a.Say("cat f; echo read again > f; echo exit=$?"); !strings.Contains(out, "exit=0") {
		t.Errorf("after reading it again: %s", out)
	}
	if stale := a.Say("cat .tt/stale"); strings.Contains(stale, "f\t") {
		t.Errorf("after reading it again, .tt/stale says %q", stale)
	}
	if log := w.Read(".tt/log"); strings.Count(log, " refused ") < 7 {
		t.Errorf("the log has too few refusals:\n%s", log)
	}
}

// TestGuardRefusesPartial: a file of which only the beginning was read.
func TestGuardRefusesPartial(t *testing.T) {
	w := mounted(t)
	put(t, w, "big", strings.Repeat("0123456789abcdef", 64<<10))
	a := agent(t, w, "a")
	a.Say("head -c 1000 big | wc -c")
	if out := a.Say("echo short > big; echo exit=$?"); strings.Contains(out, "exit=0") {
		t.Fatalf("not refused: %s", out)
	}
	if out := a.Say("echo more >> big; echo exit=$?"); !strings.Contains(out, "exit=0") {
		t.Fatalf("appending was refused: %s", out)
	}
	if out := a.Say("cat big | wc -c; echo short > big; echo exit=$?"); !strings.Contains(out, "exit=0") {
		t.Fatalf("after reading all: %s", out)
	}
}

// TestGuardNearestKnows: a program that reads what it changes knows it, though its agent does not.
func TestGuardNearestKnows(t *testing.T) {
	w := mounted(t)
	put(t, w, "f", "one\n")
	a, b := agent(t, w, "a"), agent(t, w, "b")
	a.Say("cat f")
	b.Say("echo two > f")
	if out := a.Say("truncate -s 1 f; echo exit=$?"); strings.Contains(out, "exit=0") {
		t.Errorf("truncate has not read it: %s", out)
	}
	if out := a.Say("sed -i s/two/three/ f; echo exit=$?"); !strings.Contains(out, "exit=0") {
		t.Errorf("sed has: %s", out)
	}
	if got := get(t, w, "f"); got != "three\n" {
		t.Errorf("f is %q", got)
	}
}

// TestGuardLetsPass: the user, ignored files, git's own, a lock holder, and everybody once it is off.
func TestGuardLetsPass(t *testing.T) {
	w := mounted(t)
	put(t, w, "f", "1\n")
	put(t, w, ".gitignore", "build/\n")
	w.Sh("mkdir build && echo 1 > build/out && git init -q . && echo x > x.log").OK()
	a, b := agent(t, w, "a"), agent(t, w, "b")
	pass := func(what, command string) {
		t.Helper()
		if out := a.Say(command + "; echo exit=$?"); !strings.Contains(out, "exit=0") {
			t.Errorf("%s: %s", what, out)
		}
	}
	a.Say("cat f build/out .git/config x.log")
	b.Say("echo 2 > f; echo 2 > build/out; echo >> .git/config; echo 2 > x.log")
	pass("an ignored file", "echo 3 > build/out")
	pass("git's own", "echo '[x]' >> .git/config && git config x.y z")
	pass("a log", "echo 3 > x.log")
	locked := func(lock string) string {
		return `python3 -c '
import fcntl, os
fd = os.open("f", os.O_WRONLY)
` + lock + `
os.pwrite(fd, b"x", 0)
'`
	}
	if out := a.Say(locked("") + "; echo exit=$?"); strings.Contains(out, "exit=0") {
		t.Errorf("without a lock it was not refused: %s", out)
	}
	pass("a holder of flock", locked("fcntl.flock(fd, fcntl.LOCK_EX)"))
	a.Say("cat f")
	b.Say("echo 2 > f")
	pass("a holder of a lock of fcntl", locked("fcntl.lockf(fd, fcntl.LOCK_EX)"))
	w.Sh("cat f; echo of the user > f").OK()
	if out := a.Say("echo 'guard off' > .tt/ctl; echo exit=$?"); strings.Contains(out, "exit=0") {
		t.Errorf("an agent switched the guard off: %s", out)
	}
	w.Must("guard off")
	if s := w.Status()["guard"]; s != "off" {
		t.Errorf("guard=%s", s)
	}
	pass("with the guard off", "echo 3 > f")
	w.Must("guard on")
}

// increments is how often each of the agents counts, in how many rounds; with TTFS_NIGHTLY=1 a million times in all.
func increments(agents int) (rounds, each int) {
	if os.Getenv("TTFS_NIGHTLY") == "1" {
		return 100, 1_000_000 / 100 / agents
	}
	return 1, 40
}

// TestNoLostUpdate: agents that count in one file by reading, adding and writing it anew, and try again when refused.
func TestNoLostUpdate(t *testing.T) {
	const agents = 4
	rounds, each := increments(agents)
	w := mounted(t)
	put(t, w, "counter", "0")
	program := `
import errno, os, sys, time
with open(".tt/ctl", "w") as c: c.write("agent " + sys.argv[1])
done = 0
while done < int(sys.argv[2]):
    try:
        with open("counter") as f: n = int(f.read() or "x")
        fd = os.open("counter", os.O_WRONLY | os.O_TRUNC)
    except ValueError:
        continue
    except OSError as e:
        if e.errno not in (errno.ESTALE, errno.EBUSY): raise
        continue
    os.write(fd, str(n + 1).encode())
    os.close(fd)
    done += 1
`
	for round := 1; round <= rounds; round++ {
		var results []chan *rig.Result
		for i := range agents {
			c := make(chan *rig.Result, 1)
			results = append(results, c)
			go func() { c <- w.Python(program, fmt.Sprintf("c%d", i), fmt.Sprint(each)) }()
		}
		for _, c := range results {
			(<-c).OK()
		}
		if got, want := get(t, w, "counter"), fmt.Sprint(agents*each*round); got != want {
			t.Fatalf("round %d: the counter is %s after %s increments", round, got, want)
		}
	}
}

// mounted is a new workspace, mounted.
func mounted(t *testing.T) *rig.Workspace {
	t.Helper()
	w := rig.New(t)
	w.Mount()
	return w
}
