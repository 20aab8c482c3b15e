package overlay

import (
	"errors"
	"testing"

	"github.com/ttfs/ttfs/tasktree"
)

// TestRevertOfADirectory: a task that made a directory is not taken back from under what anybody has done in it since, nor
// one that removed it from over what stands in its place.
func TestRevertOfADirectory(t *testing.T) {
	for _, later := range []tasktree.Agent{"a", "b"} {
		for name, act := range map[string]func(s *stand) error{
			"a file made":        func(s *stand) error { return s.create("new/deep/x", "later", 0o644) },
			"a file changed":     func(s *stand) error { return s.rewrite("new/f", "later") },
			"a directory made":   func(s *stand) error { return s.mkdir("new/deep/y", 0o755) },
			"its mode":           func(s *stand) error { return s.chmod("new/deep", 0o700) },
			"a file put instead": func(s *stand) error { return errors.Join(s.unlink("file"), s.create("file", "later", 0o644)) },
		} {
			s := newStand(t, 1)
			s.begin("makes")
			made := s.e.Active("a")
			s.must(errors.Join(s.mkdirAll("new/deep"), s.create("new/f", "of a", 0o644), s.create("file", "of a", 0o644)))
			s.begin("next")
			s.must(s.as(later, func() error { return act(s) }))
			before := s.snapshot(true)
			if _, err := s.e.Revert("a", made, MoveOptions{}); !errors.Is(err, Conflict) {
				t.Errorf("%s, by %s: %v", name, later, err)
				continue
			}
			s.check(name+", after the refusal", before)
			_, err := s.e.Revert("a", made, MoveOptions{Force: true})
			s.must(err)
			s.undo()
			s.check(name+", after the undo of the forced", before)
		}
	}
}
