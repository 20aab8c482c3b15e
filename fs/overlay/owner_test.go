package overlay

import (
	"errors"
	"testing"
)

// TestOwners has tasks under way whose owner tells of a conflict, or of none, or does not tell: what a move says is the same as
// after a remount, when nobody knows who owns what.
func TestOwners(t *testing.T) {
	type by struct{ one, other *stand }
	for name, c := range map[string]struct {
		do       func(b by) error
		conflict bool
	}{
		"nobody else":           {func(b by) error { return b.one.rewrite("f", "1") }, false},
		"the other came later":  {func(b by) error { return errors.Join(b.one.rewrite("f", "1"), b.other.rewrite("f", "2")) }, true},
		"the other came before": {func(b by) error { return errors.Join(b.other.rewrite("f", "2"), b.one.rewrite("f", "1")) }, false},
		"the other came between": {func(b by) error {
			return errors.Join(b.one.rewrite("f", "1"), b.other.rewrite("f", "2"), b.one.rewrite("f", "3"))
		}, true},
		"a file that the other wrote before, renamed": {func(b by) error {
			return errors.Join(b.other.rewrite("f", "2"), b.one.rename("f", "g", 0))
		}, false},
		"a file that the other wrote, renamed twice": {func(b by) error {
			return errors.Join(b.one.rename("f", "g", 0), b.other.rewrite("g", "2"), b.one.rename("g", "h", 0))
		}, false},
		"a renamed file that the other wrote": {func(b by) error { return errors.Join(b.one.rename("f", "g", 0), b.other.rewrite("g", "2")) }, true},
		"a made file that the other wrote":    {func(b by) error { return errors.Join(b.one.create("n", "1", 0o644), b.other.rewrite("n", "2")) }, true},
		"a made file in the place of the other's": {func(b by) error {
			return errors.Join(b.other.rewrite("f", "2"), b.one.create("n", "1", 0o644), b.one.rename("n", "f", 0))
		}, false},
		"the other's file in the place of a made one": {func(b by) error {
			return errors.Join(b.one.create("n", "1", 0o644), b.other.create("m", "2", 0o644), b.other.rename("m", "n", 0))
		}, true},
	} {
		for _, remounted := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				s := newStand(t, 1)
				s.must(s.create("f", "0", 0o644))
				b := by{s.beside("one"), s.beside("other")}
				for _, w := range []*stand{b.one, b.other} {
					_, err := s.e.BeginTask(w.agent, "work")
					s.must(err)
				}
				s.must(c.do(b))
				if remounted {
					s.reopen()
				}
				if known := s.e.owners.known(); (known == 0) != remounted {
					t.Fatalf("remounted %v: of %d things an owner is known", remounted, known)
				}
				_, err := s.e.Undo("one", MoveOptions{})
				if errors.Is(err, Conflict) != c.conflict || err != nil && !c.conflict {
					t.Fatalf("remounted %v: %v, want a conflict: %v", remounted, err, c.conflict)
				}
				if all := s.e.ConflictsOf("one"); c.conflict && (len(all) == 0 || all[0].Agent != "other") {
					t.Errorf("remounted %v: the report is %+v", remounted, all)
				}
			})
		}
	}
}

// TestOwnersAreForgotten: what a task owned is out of the table when the agent has gone on, and what others own is not.
func TestOwnersAreForgotten(t *testing.T) {
	s := newStand(t, 1)
	s.must(s.create("f", "0", 0o644))
	one, other := s.beside("one"), s.beside("other")
	for i := range 3 {
		s.must(one.rewrite("f", "1"))
		s.must(other.create("g", "2", 0o644))
		before := s.e.owners.known()
		for _, w := range []*stand{one, other} {
			_, err := s.e.BeginTask(w.agent, "next")
			s.must(err)
		}
		if after := s.e.owners.known(); before == 0 || after > 2 { // of the root, which s owns
			t.Fatalf("round %d: of %d things an owner was known, and of %d when their tasks had ended", i, before, after)
		}
		s.must(other.unlink("g"))
	}
}

// known is how many things have an owner.
func (o *ownerTable) known() (n int) {
	for i := range o.shards {
		s := &o.shards[i]
		s.mu.Lock()
		n += len(s.of)
		s.mu.Unlock()
	}
	return n
}
