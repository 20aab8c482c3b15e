package overlay

import (
	"testing"

	"github.com/ttfs/ttfs/tasktree"
)

// TestForkGuard: the guard works within a fork, on what was raised and what was not, and what git ignores in the lower is
// not guarded.
func TestForkGuard(t *testing.T) {
	s := newStand(t, 1)
	s.set = func(o *Options) { o.Guard = true }
	s.reopen()
	s.must(s.create("f", "content", 0o600))
	s.must(s.create("tmp", "content", 0o600))
	s.must(s.create(".gitignore", "tmp\n", 0o600))
	f := s.fork("one")
	as := func(a tasktree.Agent) *stand { f.agent = a; return f }
	for _, path := range []string{"f", "tmp"} {
		for _, a := range []tasktree.Agent{"x", "y"} {
			h, err := as(a).openFile(path, 0)
			s.must(err)
			f.read(h)
			f.release(h)
		}
		s.must(as("x").rewrite(path, "by x"))
	}
	s.must(as("y").rewrite("f", "by y"), Stale)
	s.must(as("y").rewrite("tmp", "by y"))
	// The parent's change is of another tree.
	s.must(s.rewrite("f", "by the parent"))
	s.must(as("x").rewrite("f", "by x again"))
}
