package overlay

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// displaced is a workspace in which b has worked on top of a's two tasks.
func displaced(t *testing.T) *stand {
	s := newStand(t, 1)
	s.agent = tasktree.User
	for _, p := range []string{"f", "g", "plain"} {
		s.must(s.create(p, "what was in "+p, 0o644))
	}
	s.must(s.create("big", strings.Repeat("0123456789abcdef", 40<<10), 0o644))
	s.must(s.mkdir("d", 0o755))
	s.agent = "a"
	s.begin("one")
	s.must(errors.Join(s.append("f", " a"), s.rewrite("plain", "a one"), s.write("big", 70_000, "a one")))
	s.begin("two")
	s.must(errors.Join(s.append("f", " a"), s.unlink("g"), s.create("d/new", "a", 0o644), s.write("big", 200_000, "a two"), s.rewrite("plain", "a two")))
	s.must(s.as("b", func() error {
		return errors.Join(s.append("f", " b"), s.append("d/new", " b"), s.create("g", "b", 0o600), s.write("big", 200_100, "b"), s.truncate("big", 300_000))
	}))
	return s
}

// TestForce: a forced move is a task of its own; taking it back is exact, for what it displaced and for all beside it; the
// tasks that it went over are as they were; it says so in the log.
func TestForce(t *testing.T) {
	var log []string
	s := displaced(t)
	s.set = func(o *Options) { o.Events = func(line string) { log = append(log, line) } }
	s.reopen()
	both, at, n := s.snapshot(true), s.e.Active("a"), len(s.e.Tasks())
	for _, to := range []tasktree.TaskID{at - 1, 0} {
		log = nil
		res, err := s.e.Switch("a", to, MoveOptions{Force: true, By: tasktree.User})
		s.must(err)
		n++
		k, _ := s.e.Task(res.To)
		if len(s.e.Tasks()) != n || k.Agent != "a" || k.Parent != at || !k.Forced || k.Back != to {
			t.Errorf("to %d: %+v", to, k)
		}
		line := fmt.Sprintf(" force agent=a op=switch from=%d to=%d paths=", at, to)
		if told := strings.Join(log, "\n"); strings.Count(told, " force ") != 1 || !strings.Contains(told, line) || !strings.Contains(told, fmt.Sprintf("task=%d by=user", res.To)) {
			t.Errorf("the log has no line %q:\n%s", line, told)
		}
		for p, want := range map[string]string{"f": "what was in f a", "g": "what was in g", "plain": "a one"} {
			if to == 0 {
				want = "what was in " + p
			}
			if got := s.content(p); got != want {
				t.Errorf("to %d: %s is %q, want %q", to, p, got, want)
			}
		}
		if _, err := s.walk("d/new"); err != unix.ENOENT {
			t.Errorf("d/new: %v", err)
		}
		forced := s.snapshot(true)
		s.reopen()
		if res, err = s.e.Undo("a", MoveOptions{}); err != nil || res.To != at {
			t.Fatalf("undo of the force: %+v, %v", res, err)
		}
		s.check("after the undo of the force", both)
		_, err = s.e.Redo("a", MoveOptions{})
		s.must(err)
		s.check("after its redo", forced)
		_, err = s.e.Undo("a", MoveOptions{})
		s.must(err)
		if _, err := s.e.Undo("a", MoveOptions{}); !errors.Is(err, Conflict) {
			t.Errorf("after all that b is in the way no more: %v", err)
		}
	}
	s.check("after all", both)
	s.verify()
}

// TestForceFence: a late child of a task that a forced move took back is fenced, as if it were undone.
func TestForceFence(t *testing.T) {
	s := displaced(t)
	who := s.caller()
	who.Entered = s.e.Active("a")
	_, err := s.e.Undo("a", MoveOptions{Force: true})
	s.must(err)
	if _, _, err := s.e.Create(who, RootNode, "late", unix.O_WRONLY, 0o644); !errors.Is(err, Fenced) {
		t.Errorf("a late child: %v", err)
	}
	s.reopen()
	if _, _, err := s.e.Create(who, RootNode, "late", unix.O_WRONLY, 0o644); !errors.Is(err, Fenced) {
		t.Errorf("a late child after a remount: %v", err)
	}
	s.undo()
	_, h, err := s.e.Create(who, RootNode, "late", unix.O_WRONLY, 0o644)
	s.must(err)
	s.e.Release(h)
}

// TestForceDies: a death at any effect of a forced move leaves it done, or not begun and without its task.
func TestForceDies(t *testing.T) {
	points := 0
	for n := 0; ; n++ {
		s := displaced(t)
		both, at, tasks := s.snapshot(true), s.e.Active("a"), len(s.e.Tasks())
		s.dieAt(n)
		where, died := s.dies(func() { s.must(goTo(s, 0)) })
		if !died {
			break
		}
		points++
		s.close()
		s.open()
		switch now := s.e.Active("a"); {
		case now == at:
			if len(s.e.Tasks()) != tasks {
				t.Fatalf("a death at %s (%d) leaves a task that was never done", where, n)
			}
		default:
			if got := s.content("f"); got != "what was in f" {
				t.Fatalf("a death at %s (%d) leaves %q", where, n, got)
			}
			s.undo()
		}
		s.check("the way back after a death at "+where, both)
	}
	if points < 8 {
		t.Fatalf("only %d points", points)
	}
}

// TestForceFails: a forced move that cannot be carried out changes nothing and leaves no task.
func TestForceFails(t *testing.T) {
	for n := 0; ; n++ {
		s := displaced(t)
		both, tasks, left := s.snapshot(true), len(s.e.Tasks()), n
		failed := false
		s.point = func(string) error {
			if left--; left >= 0 || failed {
				return nil
			}
			failed = true
			return unix.EIO
		}
		err := goTo(s, 0)
		s.point = nil
		if !failed {
			s.must(err)
			break
		}
		if err == nil {
			continue // where it failed, nothing depends on it
		}
		s.check(fmt.Sprintf("after a failure at point %d", n), both)
		s.reopen()
		s.check(fmt.Sprintf("and a new start (%d)", n), both)
		if got := len(s.e.Tasks()); got != tasks {
			t.Fatalf("point %d: %d tasks, there were %d", n, got, tasks)
		}
	}
}

// TestMadeAndShared: what a task does to a file that it made itself counts, once somebody else has worked in it.
func TestMadeAndShared(t *testing.T) {
	s := newStand(t, 1)
	s.begin("a's")
	s.must(s.create("x", "a", 0o644))
	s.must(s.as("b", func() error { return s.append("x", " b") }))
	s.must(s.append("x", " a"))
	before := s.snapshot(true)
	if _, err := s.e.Undo("b", MoveOptions{}); !errors.Is(err, Conflict) {
		t.Fatalf("b's undo would take a's words: %v", err)
	}
	s.check("after the refusal", before)
	if _, err := s.e.Undo("a", MoveOptions{}); !errors.Is(err, Conflict) {
		t.Fatalf("a's undo would take b's words: %v", err)
	}
}
