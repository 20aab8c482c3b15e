package identity

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ttfs/ttfs/tasktree"
)

// ends lets a minute pass and says who must end then.
func ends(t *testing.T, f *fakeProc, r *Resolver, when string, want ...tasktree.Agent) {
	t.Helper()
	f.pass(time.Minute)
	if got := r.EndIdle(nil); !slices.Equal(got, want) {
		t.Fatalf("%s: %q ended, want %q", when, got, want)
	}
	r.Sweep()
}

func TestEndIdle(t *testing.T) {
	f, r := family(t)
	if err := r.Register(10, "main", ""); err != nil {
		t.Fatal(err)
	}
	r.Activated("main", 3)
	f.put(entry{pid: 20, ppid: 1, session: 20, start: 300, comm: "claude"})
	f.put(entry{pid: 21, ppid: 20, session: 20, start: 301, comm: "sh"})
	f.put(entry{pid: 30, ppid: 1, session: 30, start: 400, comm: "sh", env: []string{"TTFS_AGENT=bot"}})
	is(t, r, 11, "main", false)
	is(t, r, 21, "claude-20", false)
	is(t, r, 30, "bot", true)
	for range 3 {
		ends(t, f, r, "all live")
	}
	f.kill(10)
	f.kill(20)
	for range 3 {
		ends(t, f, r, "a child of each lives")
	}
	is(t, r, 11, "main", false)
	for pid := 11; pid < 40; pid++ {
		f.kill(pid)
	}
	ends(t, f, r, "at the first look after the last process")
	ends(t, f, r, "a minute later", "claude-20", "main")
	if got := r.Agents(); len(got) != 0 {
		t.Errorf("registered still: %q", got)
	}
	for range 8 {
		ends(t, f, r, "commands may be processes of their own")
	}
	f.put(entry{pid: 31, ppid: 1, session: 31, start: 500_000, comm: "sh", env: []string{"TTFS_AGENT=bot"}})
	is(t, r, 31, "bot", true)
	f.kill(31)
	for range 10 {
		ends(t, f, r, "its time begins anew")
	}
	ends(t, f, r, "ten minutes after its last process was missed", "bot")
	ends(t, f, r, "nobody ends twice")
	if len(r.lives)+len(r.active) != 0 {
		t.Errorf("left: %v %v", r.lives, r.active)
	}
	f.put(entry{pid: 10, ppid: 1, session: 10, start: 900_000, comm: "sh"})
	if err := r.Register(10, "main", ""); err != nil {
		t.Errorf("the name cannot be used again: %v", err)
	}
	is(t, r, 10, "main", true)
}

// TestEndIdleLooksForTheUnseen: a descendant that never touched the workspace is its agent's last process, and stays its
// agent's when it does, though all that stood between have died.
func TestEndIdleLooksForTheUnseen(t *testing.T) {
	f, r := family(t)
	if err := r.Register(10, "main", ""); err != nil {
		t.Fatal(err)
	}
	f.put(entry{pid: 50, ppid: 10, session: 10, start: 700, comm: "x"})
	f.put(entry{pid: 51, ppid: 1, session: 10, start: 701, comm: "orphan"}) // its parent has died already
	for _, pid := range []int{10, 11, 12, 13, 14} {
		f.kill(pid)
	}
	for range 3 {
		ends(t, f, r, "two descendants live")
	}
	f.kill(50)
	f.put(entry{pid: 51, ppid: 1, session: 51, start: 701, comm: "orphan"}) // setsid
	for range 3 {
		ends(t, f, r, "one lives")
	}
	is(t, r, 51, "main", false)
	f.put(entry{pid: 51, ppid: 1, session: 51, start: 701, comm: "orphan", state: "Z"})
	ends(t, f, r, "a zombie is no process")
	ends(t, f, r, "a minute later", "main")
}

// TestEndIdleAndNesting: a process of a sub-agent is its parent's when the sub-agent ends.
func TestEndIdleAndNesting(t *testing.T) {
	f, r := family(t)
	for _, a := range []tasktree.Agent{"main", "sub"} {
		if err := r.Register(10, a, ""); err != nil {
			t.Fatal(err)
		}
	}
	is(t, r, 10, "sub", true)
	for range 3 {
		ends(t, f, r, "the process acts as sub, and is main's below that")
	}
	r.End("sub")
	is(t, r, 10, "main", true)
	for pid := 10; pid < 20; pid++ {
		f.kill(pid)
	}
	f.pass(time.Minute)
	if got := r.EndIdle(func(a tasktree.Agent) bool { return a == "main" }); len(got) != 0 {
		t.Errorf("%q ended", got)
	}
	f.pass(time.Hour)
	if got := r.EndIdle(func(a tasktree.Agent) bool { return a == "main" }); len(got) != 0 {
		t.Errorf("ended though it is to be kept: %q", got)
	}
	ends(t, f, r, "kept no longer")
	ends(t, f, r, "a minute later", "main")
}

// TestEndIdleWithoutProc: who cannot look ends nobody.
func TestEndIdleWithoutProc(t *testing.T) {
	f, r := family(t)
	if err := r.Register(10, "main", ""); err != nil {
		t.Fatal(err)
	}
	r.proc.dir = fmt.Sprint(f.dir, "/none")
	for range 3 {
		ends(t, f, r, "without /proc")
	}
}
