package overlay

import "testing"

// TestUndoOverGitIndex: an undo goes over what `git status` alone has made, to what somebody did; not over anything else, and
// not over what another agent has changed.
func TestUndoOverGitIndex(t *testing.T) {
	status := func(s *stand, index string) {
		s.must(s.create(".git/index.lock", index, 0o644))
		s.must(s.rename(".git/index.lock", ".git/index", 0))
	}
	start := func(t *testing.T) (s *stand, one, two map[string]string) {
		t.Parallel()
		s = newStand(t, 1)
		s.begin("zero")
		s.must(s.mkdir(".git", 0o755))
		s.must(s.create(".git/index", "of zero", 0o644))
		s.must(s.create("f", "zero", 0o644))
		s.begin("one")
		s.must(s.rewrite("f", "one"))
		one = s.seen()
		s.begin("two")
		s.must(s.rewrite("f", "two"))
		two = s.seen()
		s.undo()
		s.redo() // it is sealed: what comes now is a task by itself
		status(s, "of two")
		return s, one, two
	}
	t.Run("alone", func(t *testing.T) {
		s, one, two := start(t)
		s.undo()
		s.same(s.seen(), one, "undone")
		s.redo()
		s.same(s.seen(), two, "redone")
	})
	t.Run("twice", func(t *testing.T) {
		s, one, _ := start(t)
		auto := s.e.Active(s.agent)
		s.must(second(s.e.Switch(s.agent, auto-1, MoveOptions{})))
		s.must(second(s.e.Switch(s.agent, auto, MoveOptions{})))
		status(s, "again")
		if s.e.Active(s.agent) == auto {
			t.Fatal("there is no second task")
		}
		s.undo()
		s.same(s.seen(), one, "undone")
	})
	t.Run("with something else", func(t *testing.T) {
		s, _, two := start(t)
		s.must(s.create("g", "g", 0o600))
		s.undo()
		s.same(s.seen(), two, "undone")
	})
	t.Run("another agent", func(t *testing.T) {
		s, one, _ := start(t)
		s.agent = "b"
		s.must(s.create("g", "b's", 0o644))
		one["g"] = s.seen()["g"]
		s.agent = "a"
		s.undo()
		s.same(s.seen(), one, "undone beside it")
		s.redo()
		status(s, "of two, again")
		s.agent = "b"
		s.must(s.rewrite("f", "b's"))
		s.agent = "a"
		is, at := s.tree(), s.e.Active("a")
		s.must(second(s.e.Undo("a", MoveOptions{})), Conflict)
		s.names = map[dentry]NodeID{}
		s.same(s.tree(), is, "refused")
		if s.e.Active("a") != at {
			t.Error("another task is active")
		}
	})
}
