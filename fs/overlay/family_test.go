package overlay

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// family is a workspace in which p, its sub-agent c and c's sub-agent g have worked, each in two tasks, in each other's
// files and directories. ends are the workspace before all, after p's first task with what hangs under it, and after all.
func family(t *testing.T) (s *stand, ends []map[string]string) {
	s = newStand(t, 1)
	s.agent = tasktree.User
	for _, p := range []string{"f", "g", "h"} {
		s.must(s.create(p, "what was in "+p, 0o644))
	}
	s.must(s.mkdir("d", 0o755))
	s.must(s.create("big", strings.Repeat("0123456789abcdef", 40<<10), 0o644))
	s.old()
	s.forget(1)
	s.e.SetParent("c", "p")
	s.e.SetParent("g", "c")
	ends = append(ends, s.snapshot(true))
	for _, n := range []string{"one", "two"} {
		for _, a := range []tasktree.Agent{"p", "c", "g"} {
			_, err := s.e.BeginTask(a, string(a)+" "+n)
			s.must(err)
		}
		do := func(a tasktree.Agent, f func() error) { s.t.Helper(); s.must(s.as(a, f)) }
		do("g", func() error {
			return errors.Join(s.append("f", " g"), s.mkdirAll("d/"+n+"/deep"), s.create("d/"+n+"/deep/x", "g", 0o644))
		})
		do("p", func() error {
			return errors.Join(s.rewrite("g", "p "+n), s.rename("f", "f-"+n, 0), s.chmod("h", 0o600))
		})
		do("c", func() error {
			return errors.Join(s.append("g", " c"), s.rename("f-"+n, "f", 0), s.write("big", 100, "c "+n), s.create("c-"+n, "c", 0o644))
		})
		do("g", func() error { return errors.Join(s.append("g", " g"), s.append("h", " g "+n), s.unlink("c-"+n)) })
		do("p", func() error { return errors.Join(s.append("h", " p"), s.append("d/"+n+"/deep/x", "p")) })
		do("g", func() error { return s.append("d/"+n+"/deep/x", "g again") })
		ends = append(ends, s.snapshot(true))
	}
	return s, ends
}

// lines says where the agents of a family are.
func lines(s *stand) string {
	return fmt.Sprint(s.e.Active("p"), s.e.Active("c"), s.e.Active("g"))
}

// TestFamily: the undo of a parent's task takes along, three deep, what hangs under it, in one move and exactly; redo
// brings it back; the sub-agents' own do not touch the parent's. All of it also over a remount.
func TestFamily(t *testing.T) {
	s, ends := family(t)
	where := lines(s)
	for _, again := range []string{"at once", "after a remount"} {
		res, err := s.e.Undo("p", MoveOptions{})
		s.must(err)
		if len(res.Along) != 2 || len(s.e.Tasks()) != 7 {
			t.Errorf("%s: %+v, %d tasks", again, res, len(s.e.Tasks()))
		}
		s.check("undo of the parent's, "+again, ends[1])
		s.reopen()
		_, err = s.e.Redo("p", MoveOptions{})
		s.must(err)
		s.check("redo of the parent's, "+again, ends[2])
		if got := lines(s); got != where {
			t.Errorf("%s: the agents are at %s, were at %s", again, got, where)
		}
		_, err = s.e.Switch("p", 0, MoveOptions{})
		s.must(err)
		s.check("the parent's root, "+again, ends[0])
		_, err = s.e.Switch("p", 5, MoveOptions{})
		s.must(err)
		s.check("from the root to the end, "+again, ends[2])
		s.reopen()
	}
	if got := s.e.ParentOf("g"); got != "c" {
		t.Errorf("after the remount the parent of g is %q", got)
	}
	_, err := s.e.BeginTask("g", "third")
	s.must(err)
	if k, _ := s.e.Task(s.e.Active("g")); k.Under != s.e.Active("c") {
		t.Errorf("after the remount a task of g hangs under %d", k.Under)
	}
}

// TestFamilyOwn: what a sub-agent takes back itself leaves the parent's as it is.
func TestFamilyOwn(t *testing.T) {
	s := newStand(t, 1)
	s.e.SetParent("c", "p")
	s.e.SetParent("g", "c")
	for _, a := range []tasktree.Agent{"p", "c", "g"} {
		_, err := s.e.BeginTask(a, string(a))
		s.must(err)
		s.must(s.as(a, func() error { return s.create("of-"+string(a), "x", 0o644) }))
	}
	all := s.snapshot(true)
	_, err := s.e.Undo("c", MoveOptions{})
	s.must(err)
	if got := lines(s); got != "1 0 0" {
		t.Errorf("after the undo of c's: %s", got)
	}
	if _, err := s.e.Redo("g", MoveOptions{}); !errors.Is(err, Invalid) || !strings.Contains(err.Error(), "task 2") {
		t.Errorf("g's task came back without c's, under which it hangs: %v", err)
	}
	_, err = s.e.Undo("p", MoveOptions{})
	s.must(err)
	_, err = s.e.Redo("p", MoveOptions{})
	s.must(err)
	if got := lines(s); got != "1 0 0" {
		t.Errorf("what c took back itself came with the parent's: %s", got)
	}
	_, err = s.e.Redo("c", MoveOptions{})
	s.must(err)
	s.check("after the redo of c's", all)
	_, err = s.e.Undo("g", MoveOptions{})
	s.must(err)
	if got := lines(s); got != "1 2 0" {
		t.Errorf("after the undo of g's: %s", got)
	}
}

// TestFamilyViews: history shows a parent's task with what hangs under it, before and after it is undone.
func TestFamilyViews(t *testing.T) {
	s, _ := family(t)
	read := func(id tasktree.TaskID, path string) string {
		t.Helper()
		tree, err := s.e.At("p", id)
		s.must(err)
		b := make([]byte, 100)
		n, err := tree.ReadAt(path, b, 0)
		if errors.Is(err, unix.ENOENT) {
			return "-"
		}
		s.must(err)
		return string(b[:n])
	}
	want := map[tasktree.TaskID][2]string{
		0: {"what was in g", "-"}, 2: {"p one c g", "gpg again"}, 5: {"p two c g", "gpg again"},
	}
	check := func(when string) {
		t.Helper()
		for id, w := range want {
			if got := [2]string{read(id, "g"), read(id, "d/one/deep/x")}; got != w {
				t.Errorf("%s: at/%d has %q, want %q", when, id, got, w)
			}
		}
	}
	check("done")
	_, err := s.e.Switch("p", 0, MoveOptions{})
	s.must(err)
	check("undone")
	if got := read(7, "g"); got != "p two c g" {
		t.Errorf("the view of a sub-agent's task under an undone one has %q", got)
	}
}

// TestFamilyStrangers: who does not move along is in the way, who does is not.
func TestFamilyStrangers(t *testing.T) {
	s, ends := family(t)
	s.must(s.as("other", func() error { return s.append("g", " other") }))
	before := s.snapshot(true)
	if _, err := s.e.Undo("p", MoveOptions{}); !errors.Is(err, Conflict) {
		t.Fatalf("undo over a stranger's work: %v", err)
	}
	for _, k := range s.e.ConflictsOf("p") {
		if k.Agent != "other" || k.Path != "g" {
			t.Errorf("reported: %+v", k)
		}
	}
	s.check("after the refusal", before)
	_, err := s.e.Undo("other", MoveOptions{})
	s.must(err)
	s.check("after the stranger's undo", ends[2])
	_, err = s.e.Undo("p", MoveOptions{})
	s.must(err)
	// A task of c that goes on after the parent's, under which it does not hang, is a stranger's as well.
	_, err = s.e.BeginTask("c", "under p's first")
	s.must(err)
	_, err = s.e.Redo("p", MoveOptions{})
	s.must(err)
	s.must(s.as("p", func() error { return s.rewrite("g", "p") }))
	s.must(s.as("c", func() error { return s.append("g", " c") }))
	if _, err := s.e.Undo("p", MoveOptions{}); !errors.Is(err, Conflict) {
		t.Errorf("undo over the work of a sub-agent that stays: %v", err)
	}
}

// TestFamilyFence: a child of a sub-agent that was started in a task which went along with the parent's is fenced.
func TestFamilyFence(t *testing.T) {
	s, _ := family(t)
	late := s.e.Active("c")
	_, err := s.e.Undo("p", MoveOptions{})
	s.must(err)
	before := s.snapshot(true)
	who := s.caller()
	who.Agent, who.Entered = "c", late
	if _, _, err := s.e.Create(who, RootNode, "late", unix.O_WRONLY, 0o644); !errors.Is(err, Fenced) {
		t.Errorf("a late child of c writes: %v", err)
	}
	s.check("after the refused write", before)
	who.Entered = s.e.Active("c")
	_, h, err := s.e.Create(who, RootNode, "on-time", unix.O_WRONLY, 0o644)
	s.must(err)
	s.e.Release(h)
}

// TestFamilyDies: a death at any effect of a move of three agents leaves all of them at the one end or at the other.
func TestFamilyDies(t *testing.T) {
	s, ends := family(t)
	where := lines(s)
	stride := 1
	if underRace {
		stride = 5
	}
	for _, forward := range []bool{false, true} {
		deaths := 0
		for n := 0; ; n += stride {
			from, to, act := ends[2], ends[0], func() error { return goTo(s, 0) }
			if forward {
				from, to, act = to, from, func() error { return goTo(s, 5) }
			}
			s.agent = "p"
			s.check("before the move", from)
			s.dieAt(n)
			at, died := s.dies(func() { s.must(act()) })
			if !died {
				s.check("after the move", to)
				s.must(goTo(s, map[bool]tasktree.TaskID{false: 5, true: 0}[forward]))
				break
			}
			deaths++
			s.close()
			s.open()
			switch got := lines(s); got {
			case where:
				s.check("done, after a death at "+at, ends[2])
			case "0 0 0":
				s.check("undone, after a death at "+at, ends[0])
			default:
				t.Fatalf("after a death at %s (%d) the agents are at %s", at, n, got)
			}
			s.must(goTo(s, map[bool]tasktree.TaskID{false: 5, true: 0}[forward]))
			if !forward && lines(s) != where {
				t.Fatalf("after a death at %s (%d) and redo the agents are at %s", at, n, lines(s))
			}
		}
		if deaths < 10/stride {
			t.Errorf("only %d deaths", deaths)
		}
		if !forward {
			s.must(goTo(s, 0))
		}
	}
	s.verify()
}
