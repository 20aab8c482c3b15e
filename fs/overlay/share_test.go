package overlay

import (
	"testing"

	"github.com/ttfs/ttfs/tasktree"
)

// TestShareIsTakenUpAgain: a task that comes back to a file after another agent's, in one life of the engine and after a
// remount, has touched it first where it did, and last after the other.
func TestShareIsTakenUpAgain(t *testing.T) {
	for _, remount := range []bool{false, true} {
		s := newStand(t, 1)
		s.must(s.create("f", "one", 0o644))
		s.begin("measured")
		task := s.e.Active(s.agent)
		s.must(s.rewrite("f", "two"))
		id, err := s.walk("f")
		s.must(err)
		of := func(task tasktree.TaskID) share {
			n, err := s.e.pin(id)
			s.must(err)
			defer s.e.unpin(n)
			oid, err := s.e.oidOf(n)
			s.must(err)
			v, found, err := s.e.j.Get(thing{obj: oid}.key(task))
			s.must(err)
			if !found {
				t.Fatalf("task %d has no share", task)
			}
			sh, err := decodeShare(v)
			s.must(err)
			return sh
		}
		before := of(task)
		s.must(s.as("other", func() error { return s.rewrite("f", "three") }))
		other := of(s.e.Active("other"))
		if remount {
			s.reopen()
			id, err = s.walk("f")
			s.must(err)
		}
		s.must(s.rewrite("f", "four"))
		if got := of(task); got.first != before.first || got.first >= other.first || got.last <= other.last {
			t.Errorf("remount %v: the share was %+v, is %+v, the other's is %+v", remount, before, got, other)
		}
		if got := s.e.touches(task); got != 1 && !remount {
			t.Errorf("%d things are touched", got)
		}
	}
}
