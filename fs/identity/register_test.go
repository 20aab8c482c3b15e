package identity

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ttfs/ttfs/tasktree"
)

func TestValidName(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "user": true, "claude-123": true, "A.b_c-9": true, strings.Repeat("x", 64): true, "-": true,
		"": false, ".": false, "..": false, ".a": false, strings.Repeat("x", 65): false, "a/b": false, "a b": false,
		"ä": false, "a\n": false, "a\x00": false, "a=b": false,
	} {
		if got := ValidName(tasktree.Agent(name)); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

// family is a machine on which 10 is a harness with the shell 11 and its child 12, and 20 a stranger.
func family(t *testing.T) (*fakeProc, *Resolver) {
	f := newFake(t)
	f.put(init1)
	f.put(entry{pid: 10, ppid: 1, session: 10, start: 100, comm: "harness", env: []string{"TTFS_AGENT=env"}})
	f.put(entry{pid: 11, ppid: 10, session: 10, start: 110, comm: "sh"})
	f.put(entry{pid: 12, ppid: 11, session: 10, start: 120, comm: "sed"})
	f.put(entry{pid: 20, ppid: 1, session: 20, start: 130, comm: "vi"})
	f.put(entry{pid: 13, tgid: 12, ppid: 11, session: 10, start: 140, comm: "thread"})
	return f, f.resolver(Options{})
}

func is(t *testing.T, r *Resolver, tid uint32, want tasktree.Agent, root bool) {
	t.Helper()
	if who := r.Resolve(tid); who.Agent != want || who.Root != root {
		t.Errorf("%d is %+v, want %q, root %v", tid, who, want, root)
	}
}

func TestRegister(t *testing.T) {
	_, r := family(t)
	is(t, r, 12, User, true) // seen before it is registered
	if err := r.Register(10, "main", ""); err != nil {
		t.Fatal(err)
	}
	is(t, r, 10, "main", true) // before its environment
	is(t, r, 12, "main", false)
	is(t, r, 13, "main", false)
	is(t, r, 20, User, true)
	if err := r.Register(11, "sub", ""); err != nil {
		t.Fatal(err)
	}
	is(t, r, 11, "sub", true)
	is(t, r, 12, "sub", false)
	is(t, r, 10, "main", true)
	if p := r.Parent("sub"); p != "main" || !r.Descends("sub", "main") || r.Descends("main", "sub") || r.Descends("main", "main") {
		t.Errorf("parent of sub is %q", p)
	}
	if err := r.Register(13, "subsub", "sub"); err != nil { // by a thread's id
		t.Fatal(err)
	}
	is(t, r, 12, "subsub", true)
	if !r.Descends("subsub", "main") || r.Parent("subsub") != "sub" {
		t.Error("subsub is not below main")
	}
	if got := r.Agents(); !slices.Equal(got, []tasktree.Agent{"main", "sub", "subsub"}) {
		t.Error(got)
	}
	r.End("sub")
	is(t, r, 11, "main", false)
	is(t, r, 12, "subsub", true)
	if got := r.Agents(); !slices.Equal(got, []tasktree.Agent{"main", "subsub"}) {
		t.Error(got)
	}
	r.End("main")
	r.End("nobody")
	is(t, r, 10, "env", true)
	is(t, r, 11, User, true)
}

// A harness that becomes a sub-agent for a while is itself again when that ends.
func TestRegisterNested(t *testing.T) {
	_, r := family(t)
	for _, a := range []tasktree.Agent{"main", "sub", "sub", "sub"} {
		if err := r.Register(10, a, ""); err != nil {
			t.Fatal(err)
		}
	}
	is(t, r, 10, "sub", true)
	r.End("sub")
	is(t, r, 10, "main", true)
	r.End("main")
	is(t, r, 10, "env", true)
}

func TestRegisterRefused(t *testing.T) {
	for _, c := range []struct {
		name      string
		pid       int
		a, parent tasktree.Agent
		want      error
	}{
		{"the same name", 10, "main", "", nil},
		{"the same name, by a descendant", 12, "sub", "", nil},
		{"a new sub-agent", 12, "new", "", nil},
		{"a new sub-agent of a sub-agent", 10, "new", "sub", nil},
		{"an existing sub-agent", 10, "sub", "", nil},
		{"its existing parent", 10, "sub", "main", nil},
		{"a stranger, a new agent", 20, "new", "", nil},
		{"a stranger, a new agent of a parent", 20, "new", "main", nil},
		{"a stranger, the same name", 20, "other", "", nil},
		{"the user as parent", 20, "new", "user", nil},
		{"another agent", 10, "other", "", NotYours},
		{"its parent", 11, "main", "", NotYours},
		{"a foreign parent", 10, "new", "other", NotYours},
		{"another parent", 10, "sub", "other", NotYours},
		{"another parent, by a stranger", 20, "sub", "other", NotYours},
		{"itself as parent", 10, "main", "main", Invalid},
		{"a descendant as parent", 20, "main", "sub", Invalid},
		{"user", 20, "user", "", Invalid},
		{"no name", 20, "", "", Invalid},
		{"a dot", 20, ".x", "", Invalid},
		{"a bad parent", 20, "x", "a/b", Invalid},
		{"no process", 4711, "x", "", NoProcess},
		{"pid 0", 0, "x", "", NoProcess},
		{"pid -1", -1, "x", "", NoProcess},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, r := family(t)
			f.put(entry{pid: 30, ppid: 1, session: 30, start: 150, comm: "other"})
			for pid, a := range map[int]tasktree.Agent{10: "main", 30: "other"} {
				if err := r.Register(pid, a, ""); err != nil {
					t.Fatal(err)
				}
			}
			if err := r.Register(11, "sub", ""); err != nil {
				t.Fatal(err)
			}
			before := map[uint32]Who{}
			for _, tid := range []uint32{10, 11, 12, 20, 30} {
				before[tid] = r.Resolve(tid)
			}
			err := r.Register(c.pid, c.a, c.parent)
			if !errors.Is(err, c.want) {
				t.Fatalf("%v, want %v", err, c.want)
			}
			var e *Error
			if c.want == nil {
				return
			}
			if !errors.As(err, &e) || e.Op == "" || !strings.Contains(err.Error(), string(e.Kind)) {
				t.Errorf("%#v", err)
			}
			for tid, who := range before {
				if now := r.Resolve(tid); now != who {
					t.Errorf("a refused one changed %+v to %+v", who, now)
				}
			}
		})
	}
}

func TestRegisterFor(t *testing.T) {
	f, r := family(t)
	f.put(entry{pid: 30, ppid: 1, session: 30, start: 150, comm: "other"})
	if err := r.RegisterFor(20, 10, "main", ""); err != nil { // the user may
		t.Fatal(err)
	}
	if err := r.RegisterFor(10, 11, "sub", ""); err != nil {
		t.Fatal(err)
	}
	if err := r.RegisterFor(10, 12, "subsub", ""); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		caller uint32
		pid    int
		want   Kind
	}{
		{10, 30, NotYours}, {11, 10, NotYours}, {10, 4711, NoProcess}, {4711, 10, NoProcess}, {0, 10, NoProcess},
	} {
		if err := r.RegisterFor(c.caller, c.pid, "new", ""); !errors.Is(err, c.want) {
			t.Errorf("%d for %d: %v", c.caller, c.pid, err)
		}
	}
	is(t, r, 30, User, true)
}

// setsid, double fork, death of parents: what was seen once stays whose it was.
func TestDescent(t *testing.T) {
	f, r := family(t)
	if err := r.Register(10, "main", ""); err != nil {
		t.Fatal(err)
	}
	is(t, r, 12, "main", false)
	f.kill(11)
	f.put(entry{pid: 12, ppid: 1, session: 12, start: 120, comm: "sed"})
	f.pass(time.Minute)
	r.Sweep()
	is(t, r, 12, "main", false)
	f.kill(10)
	f.pass(time.Minute)
	r.Sweep()
	is(t, r, 12, "main", false)
	f.put(entry{pid: 14, ppid: 12, session: 12, start: 500, comm: "ls"})
	is(t, r, 14, "main", false)
	f.kill(12)
	f.put(entry{pid: 14, ppid: 1, session: 12, start: 500, comm: "ls"})
	f.pass(24 * time.Hour)
	r.Sweep()
	is(t, r, 14, "main", false)
	if got := r.PIDs("main"); !slices.Equal(got, []int{14}) {
		t.Error(got)
	}
}

// An orphan that nobody has seen before its parents died is found by the leader of its session.
func TestOrphanBySession(t *testing.T) {
	f, r := family(t)
	if err := r.Register(10, "main", ""); err != nil {
		t.Fatal(err)
	}
	f.kill(10)
	f.kill(11)
	f.put(entry{pid: 15, ppid: 1, session: 10, start: 600, comm: "server"})
	f.put(entry{pid: 16, ppid: 15, session: 10, start: 601, comm: "worker"})
	is(t, r, 16, "main", false)
	is(t, r, 15, "main", false)
	f.put(entry{pid: 17, ppid: 1, session: 999, start: 600, comm: "server"})
	is(t, r, 17, User, true)
	// One whose leader's number was seen, but on a younger process, has nothing to do with that one.
	f.put(entry{pid: 18, ppid: 1, session: 20, start: 90, comm: "old"})
	if err := r.Register(20, "vi", ""); err != nil {
		t.Fatal(err)
	}
	is(t, r, 18, User, true)
}

// An orphan taken up by a registered subreaper belongs to the nearer agent where its session tells.
func TestOrphanBelowReaper(t *testing.T) {
	f, r := family(t)
	f.put(entry{pid: 11, ppid: 10, session: 11, start: 110, comm: "sub"})
	if err := r.Register(10, "main", ""); err != nil {
		t.Fatal(err)
	}
	if err := r.Register(11, "sub", ""); err != nil {
		t.Fatal(err)
	}
	f.kill(11)
	f.put(entry{pid: 15, ppid: 10, session: 11, start: 600, comm: "server"})
	is(t, r, 15, "sub", false)
}

// A parent that dies between the two reads of stat leaves the one who takes its child up.
func TestParentVanished(t *testing.T) {
	f, r := family(t)
	f.put(entry{pid: 16, ppid: 4000, session: 10, start: 700, comm: "x"})
	if err := r.Register(10, "main", ""); err != nil {
		t.Fatal(err)
	}
	is(t, r, 16, "main", false)
	// Its number is somebody younger's by now.
	f.put(entry{pid: 4001, ppid: 1, session: 1, start: 900, comm: "codex"})
	f.put(entry{pid: 17, ppid: 4001, session: 17, start: 701, comm: "x"})
	is(t, r, 17, User, true)
}

func TestSweep(t *testing.T) {
	f, r := family(t)
	if err := r.Register(10, "main", ""); err != nil {
		t.Fatal(err)
	}
	if err := r.Register(11, "sub", ""); err != nil {
		t.Fatal(err)
	}
	r.Activated("sub", 3)
	for pid := 100; pid < 200; pid++ {
		f.put(entry{pid: pid, ppid: 11, session: 10, start: 1000, comm: "x"})
		is(t, r, uint32(pid), "sub", false)
		f.kill(pid)
	}
	r.Sweep()
	if n := len(r.procs); n != 3 { // 1, 10, 11: the rest was not seen or is dead
		t.Errorf("%d processes are remembered", n)
	}
	if n := len(r.tids); n != 0 {
		t.Errorf("%d threads are remembered", n)
	}
	f.put(entry{pid: 11, ppid: 10, session: 10, start: 110, comm: "sh", state: "Z"})
	r.Sweep()
	if got := r.PIDs("sub"); len(got) != 0 {
		t.Errorf("a zombie counts: %v", got)
	}
	if n := len(r.procs); n != 3 {
		t.Errorf("a dead root is forgotten at once: %d", n)
	}
	for pid := range 30 {
		f.kill(pid)
	}
	f.pass(2 * time.Hour)
	r.Sweep() // finds them dead
	f.pass(2 * time.Hour)
	r.Sweep()
	if len(r.procs)+len(r.latest)+len(r.tids)+len(r.agents)+len(r.active) != 0 {
		t.Errorf("left: %v %v %v %v %v", r.procs, r.latest, r.tids, r.agents, r.active)
	}
}

// Many processes start a sweep by themselves.
func TestSweepByItself(t *testing.T) {
	f, r := family(t)
	r.sweepAt = 20
	for pid := 100; pid < 200; pid++ {
		f.put(entry{pid: pid, ppid: 11, session: 10, start: 1000, comm: "x"})
		r.Resolve(uint32(pid))
		f.kill(pid)
	}
	deadline := time.Now().Add(60 * time.Second)
	for {
		r.mu.RLock()
		n := len(r.procs)
		r.mu.RUnlock()
		if n < 100 && !r.background.Load() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d processes are remembered", n)
		}
		f.put(entry{pid: 99, ppid: 11, session: 10, start: 1000, comm: "x"})
		f.pass(2 * time.Second)
		r.Resolve(99)
	}
}

func TestEnteredTask(t *testing.T) {
	f, r := family(t)
	if err := r.Register(10, "main", ""); err != nil {
		t.Fatal(err)
	}
	enter := func(tid uint32, now, want tasktree.TaskID) {
		t.Helper()
		if got := r.EnteredTask(tid, now); got != want {
			t.Errorf("%d entered %d, want %d", tid, got, want)
		}
	}
	enter(10, 1, 1)
	enter(10, 2, 2) // the root is never tied
	enter(12, 2, 2)
	enter(12, 3, 2)
	enter(13, 3, 2) // a thread of it
	if who := r.Resolve(12); who.RegisteredIn != 2 {
		t.Errorf("%+v", who)
	}
	enter(20, 5, 5) // the user neither
	enter(20, 6, 6)
	enter(4711, 7, 7)
	// Another agent, another timeline.
	if err := r.Register(11, "sub", ""); err != nil {
		t.Fatal(err)
	}
	enter(12, 9, 9)
	r.End("sub")
	enter(12, 8, 8)

	// Seen late: the task in which it started counts.
	f.pass(time.Second)
	r.Activated("main", 20)
	started := f.ticks() + 10
	f.pass(time.Second)
	r.Activated("main", 19) // an undo
	r.Activated("main", 18) // within the same tick: the later counts
	f.put(entry{pid: 21, ppid: 10, session: 10, start: started, comm: "slow"})
	f.put(entry{pid: 22, ppid: 10, session: 10, start: f.ticks(), comm: "quick"})
	enter(21, 18, 20)
	enter(22, 18, 18)
	enter(11, 18, 18) // older than all that is known
	for i := range 3 * maxActivations {
		f.pass(time.Second)
		r.Activated("main", tasktree.TaskID(100+i))
	}
	if n := len(r.active["main"]); n != maxActivations {
		t.Errorf("%d activations are kept", n)
	}
}
