package overlay

import (
	"errors"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// TestConflicts: what a does, then what b does; a's undo is refused, names b and the path, and changes nothing.
func TestConflicts(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b func(s *stand) error
		path string // "": no conflict
	}{
		{"same file", func(s *stand) error { return s.rewrite("f", "a") }, func(s *stand) error { return s.rewrite("f", "b") }, "f"},
		{"same file, appended", func(s *stand) error { return s.append("f", "a") }, func(s *stand) error { return s.append("f", "b") }, "f"},
		{"in place", func(s *stand) error { return s.write("f", 0, "a") }, func(s *stand) error { return s.write("f", 1, "b") }, "f"},
		{"other files", func(s *stand) error { return s.rewrite("f", "a") }, func(s *stand) error { return s.rewrite("g", "b") }, ""},
		{"files made beside", func(s *stand) error { return s.create("x", "a", 0o644) }, func(s *stand) error { return s.create("y", "b", 0o644) }, ""},
		{"a file that a made", func(s *stand) error { return s.create("x", "a", 0o644) }, func(s *stand) error { return s.rewrite("x", "b") }, "x"},
		{"replaced", func(s *stand) error { return s.rewrite("f", "a") }, func(s *stand) error {
			return errors.Join(s.create("tmp1", "b", 0o644), s.rename("tmp1", "f", 0))
		}, "f"},
		{"removed", func(s *stand) error { return s.rewrite("f", "a") }, func(s *stand) error { return s.unlink("f") }, "f"},
		{"made again", func(s *stand) error { return s.unlink("f") }, func(s *stand) error { return s.create("f", "b", 0o644) }, "f"},
		{"below a directory that a made", func(s *stand) error { return s.mkdir("d2", 0o755) }, func(s *stand) error { return s.create("d2/x", "b", 0o644) }, "d2"},
		{"deep below", func(s *stand) error { return s.mkdirAll("d2/e/f") }, func(s *stand) error { return s.create("d2/e/f/x", "b", 0o644) }, "d2"},
		{"a file below", func(s *stand) error {
			return errors.Join(s.mkdir("d2", 0o755), s.create("d2/x", "a", 0o644))
		}, func(s *stand) error { return s.append("d2/x", "b") }, "d2"},
		{"mode", func(s *stand) error { return s.chmod("f", 0o600) }, func(s *stand) error { return s.chmod("f", 0o640) }, "f"},
		{"moved by b", func(s *stand) error { return s.create("x", "a", 0o644) }, func(s *stand) error { return s.rename("x", "y", 0) }, "x"},
		{"a log", func(s *stand) error { return s.append("x.log", "a") }, func(s *stand) error { return s.append("x.log", "b") }, ""},
		{"git's index", func(s *stand) error { return s.rewrite(".git/index", "a") }, func(s *stand) error { return s.rewrite(".git/index", "b") }, ""},
		{"b before a", func(s *stand) error { return s.rewrite("h", "a") }, func(s *stand) error { return nil }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStand(t, 1)
			s.agent = tasktree.User
			for _, p := range []string{"f", "g", "h", "x.log"} {
				s.must(s.create(p, "what was in "+p, 0o644))
			}
			s.must(s.mkdir(".git", 0o755))
			s.must(s.create(".git/index", "index", 0o644))
			s.must(s.as("b", func() error { return s.rewrite("h", "b was first") }))
			for _, a := range []tasktree.Agent{"b", "a"} {
				if _, err := s.e.BeginTask(a, "work of "+string(a)); err != nil {
					t.Fatal(err)
				}
			}
			start := s.snapshot(true)
			s.must(s.as("a", func() error { return c.a(s) }))
			s.must(s.as("b", func() error { return c.b(s) }))
			both := s.snapshot(true)
			_, err := s.e.Undo("a", MoveOptions{})
			if c.path == "" {
				s.must(err)
				if got := s.e.ConflictsOf("a"); len(got) != 0 {
					t.Errorf("reported: %v", got)
				}
				return
			}
			if !errors.Is(err, Conflict) || !strings.Contains(err.Error(), "b, task") {
				t.Fatalf("undo: %v", err)
			}
			s.check("after the refusal", both)
			report := s.e.ConflictsOf("a")
			if len(report) == 0 || report[0].Path != c.path || report[0].Agent != "b" || report[0].Title != "work of b" {
				t.Fatalf("report: %+v", report)
			}
			s.reopen()
			if _, err := s.e.Undo("a", MoveOptions{}); !errors.Is(err, Conflict) {
				t.Fatalf("undo after a remount: %v", err)
			}
			at := s.e.Active("a")
			res, err := s.e.Undo("a", MoveOptions{Force: true})
			if err != nil {
				t.Fatalf("force: %v", err)
			}
			if k, _ := s.e.Task(res.To); k.Parent != at || k.Agent != "a" || s.e.Active("a") != res.To {
				t.Errorf("the forced move is %+v", k)
			}
			forced := s.snapshot(true)
			s.reopen()
			if _, err := s.e.Undo("a", MoveOptions{}); err != nil || s.e.Active("a") != at {
				t.Fatalf("undo of what was forced: %v", err)
			}
			s.check("after force and its undo", both)
			if _, err := s.e.Redo("a", MoveOptions{}); err != nil {
				t.Fatalf("redo of what was forced: %v", err)
			}
			s.check("after force, undo and redo", forced)
			if _, err := s.e.Undo("a", MoveOptions{}); err != nil {
				t.Fatalf("second undo of what was forced: %v", err)
			}
			if _, err := s.e.Undo("b", MoveOptions{Force: true}); err != nil {
				t.Fatalf("b's undo: %v", err)
			}
			if _, err := s.e.Undo("a", MoveOptions{}); err != nil {
				t.Fatalf("a's undo after b's: %v", err)
			}
			s.check("after both are undone", start)
		})
	}
}

// TestSkip: all but the contested paths move, there and back.
func TestSkip(t *testing.T) {
	s := newStand(t, 1)
	s.agent = tasktree.User
	for _, p := range []string{"f", "g", "keep"} {
		s.must(s.create(p, "what was in "+p, 0o644))
	}
	if _, err := s.e.BeginTask("a", "one"); err != nil {
		t.Fatal(err)
	}
	s.must(s.as("a", func() error {
		return errors.Join(s.rewrite("f", "a"), s.rewrite("g", "a"), s.create("new", "a", 0o644), s.rewrite("keep", strings.Repeat("a", 300<<10)))
	}))
	s.must(s.as("b", func() error { return errors.Join(s.append("f", " and b"), s.append("new", " and b")) }))
	both := s.snapshot(true)
	if _, err := s.e.Undo("a", MoveOptions{Skip: true}); err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]string{"f": "a and b", "g": "what was in g", "new": "a and b", "keep": "what was in keep"} {
		s.must(s.with(p, unix.O_RDONLY, func(h *Handle) error {
			if got := s.read(h); got != want {
				t.Errorf("%s is %.40q, want %q", p, got, want)
			}
			return nil
		}))
	}
	if _, err := s.e.Redo("a", MoveOptions{}); err != nil {
		t.Fatal(err)
	}
	s.check("after redo", both)
}
