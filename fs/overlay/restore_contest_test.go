package overlay

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// TestRestoreTakesNobodysWork: what a does in a later task, then what b does; a's restore of the path as it was before is refused,
// names b and the path, and changes nothing. Of a's own later work it is not.
func TestRestoreTakesNobodysWork(t *testing.T) {
	for _, c := range []struct {
		name    string
		a, b    func(s *stand) error
		restore string
		path    string // in the report; "": none
	}{
		{"its own", func(s *stand) error { return s.rewrite("f", "a") }, func(s *stand) error { return nil }, "f", ""},
		{"changed", func(s *stand) error { return s.rewrite("f", "a") }, func(s *stand) error { return s.append("f", "b") }, "f", "f"},
		{"another file", func(s *stand) error { return s.rewrite("f", "a") }, func(s *stand) error { return s.rewrite("g", "b") }, "f", ""},
		{"another file of a directory", func(s *stand) error { return s.rewrite("d/f", "a") }, func(s *stand) error { return s.rewrite("d/g", "b") }, "d", ""},
		{"made beside", func(s *stand) error { return s.rewrite("d/f", "a") }, func(s *stand) error { return s.create("d/h", "b", 0o644) }, "d", ""},
		{"a file of a directory", func(s *stand) error { return s.rewrite("d/f", "a") }, func(s *stand) error { return s.append("d/f", "b") }, "d", "d/f"},
		{"replaced", func(s *stand) error { return s.rewrite("f", "a") }, func(s *stand) error {
			return errors.Join(s.create("tmp", "b", 0o644), s.rename("tmp", "f", 0))
		}, "f", "f"},
		{"removed", func(s *stand) error { return s.rewrite("f", "a") }, func(s *stand) error { return s.unlink("f") }, "f", "f"},
		{"made again", func(s *stand) error { return s.unlink("f") }, func(s *stand) error { return s.create("f", "b", 0o644) }, "f", "f"},
		{"in a new directory", func(s *stand) error { return s.mkdir("n", 0o755) }, func(s *stand) error { return s.create("n/x", "b", 0o644) }, "n", "n"},
		{"deep in a new directory", func(s *stand) error {
			return errors.Join(s.mkdirAll("n/m"), s.create("n/m/x", "a", 0o644))
		}, func(s *stand) error { return s.append("n/m/x", "b") }, "n/m/x", "n/m/x"},
		{"a directory in the place of another", func(s *stand) error { return errors.Join(s.removeAll("d"), s.mkdir("d", 0o755)) },
			func(s *stand) error { return s.create("d/x", "b", 0o644) }, "d", "d"},
		{"mode", func(s *stand) error { return s.chmod("f", 0o600) }, func(s *stand) error { return s.chmod("f", 0o640) }, "f", "f"},
		{"nothing of its own", func(s *stand) error { return s.rewrite("g", "a") }, func(s *stand) error { return s.append("d/f", "b") }, "d/f", "d/f"},
		{"a log", func(s *stand) error { return s.append("x.log", "a") }, func(s *stand) error { return s.append("x.log", "b") }, "x.log", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStand(t, 1)
			s.agent = tasktree.User
			s.must(errors.Join(s.create("f", "f", 0o644), s.create("g", "g", 0o644), s.mkdir("d", 0o755),
				s.create("d/f", "f", 0o644), s.create("d/g", "g", 0o644), s.create("x.log", "log", 0o644)))
			s.agent = "a"
			s.begin("first")
			first := s.e.Active("a")
			s.begin("second")
			_, err := s.e.BeginTask("b", "work of b")
			s.must(err)
			then := s.snapshot(false)
			s.must(c.a(s))
			s.must(s.as("b", func() error { return c.b(s) }))
			both, tasks := s.snapshot(true), len(s.e.Tasks())
			_, err = s.e.Restore("a", first, []string{c.restore}, MoveOptions{})
			if c.path == "" {
				s.must(err)
				s.undo()
				s.check("undo of the restore", both)
				return
			}
			how := fmt.Sprintf("`restore force %d %s`", first, c.restore)
			overtaken := c.name == "replaced" || c.name == "removed" || c.name == "nothing of its own" // there is nothing of a's to take back
			if overtaken {
				how = "not over that"
			}
			if !errors.Is(err, Conflict) || !strings.Contains(err.Error(), "b, task") || !strings.Contains(err.Error(), how) {
				t.Fatalf("restore: %v", err)
			}
			s.check("after the refusal", both)
			if n := len(s.e.Tasks()); n != tasks {
				t.Errorf("%d tasks, were %d", n, tasks)
			}
			if got := s.e.ConflictsOf("a"); len(got) != 1 || got[0].Path != c.path || got[0].Agent != "b" || got[0].Title != "work of b" {
				t.Fatalf("report: %+v", got)
			}
			s.reopen()
			if _, err := s.e.Restore("a", first, []string{c.restore}, MoveOptions{}); !errors.Is(err, Conflict) {
				t.Fatalf("after a remount: %v", err)
			}
			if overtaken {
				if _, err := s.e.Restore("a", first, []string{c.restore}, MoveOptions{Force: true}); !errors.Is(err, Conflict) {
					t.Errorf("forced: %v", err)
				}
				s.check("after the refused force", both)
				return
			}
			_, err = s.e.Restore("a", first, []string{c.restore}, MoveOptions{Skip: true})
			s.must(err)
			s.check("skip", both)
			s.undo()
			s.check("undo of the skip", both)
			_, err = s.e.Restore("a", first, []string{c.restore}, MoveOptions{Force: true})
			s.must(err)
			if len(s.e.ConflictsOf("a")) != 0 {
				t.Error("the report is still there")
			}
			now := s.snapshot(false)
			for p := range then {
				if strings.HasPrefix(p, c.restore) && now[p] != then[p] {
					t.Errorf("force: %s is %s, was %s", p, now[p], then[p])
				}
			}
			s.undo()
			s.check("undo of the force", both)
			s.verify()
		})
	}
}

// TestRestoreOfAnothers: a path as an agent's task left it is restored by the user, by an agent above it and by the agent
// itself over that agent's later tasks; by a stranger over its own work alone.
func TestRestoreOfAnothers(t *testing.T) {
	for who, refused := range map[tasktree.Agent]bool{tasktree.User: false, "a": false, "head": false, "kid": true, "b": true} {
		for _, own := range []bool{false, true} {
			s := newStand(t, 1)
			s.e.SetParent("kid", "a")
			s.e.SetParent("a", "head")
			s.agent = tasktree.User
			s.must(s.create("f", "f", 0o644))
			s.agent = "a"
			s.begin("first")
			first := s.e.Active("a")
			s.must(s.rewrite("f", "first"))
			s.begin("second")
			s.must(s.rewrite("f", "second"))
			if own {
				s.must(s.as(who, func() error { return s.rewrite("f", "own") }))
			}
			before := s.snapshot(true)
			_, err := s.e.Restore(who, first, []string{"f"}, MoveOptions{})
			if errors.Is(err, Conflict) != refused {
				t.Errorf("%s, own %v: %v", who, own, err)
				continue
			}
			if refused {
				s.check("after the refusal", before)
				if got := s.e.ConflictsOf(who); len(got) != 1 || got[0].Agent != "a" {
					t.Errorf("%s: %v", who, got)
				}
				continue
			}
			s.must(err)
			if got := s.content("f"); got != "first" {
				t.Errorf("%s, own %v: f is %q", who, own, got)
			}
			if k, _ := s.e.Task(s.e.Active(who)); k.Title != "restore 2 f" {
				t.Errorf("%s: %+v", who, k)
			}
			_, err = s.e.Undo(who, MoveOptions{})
			s.must(err)
			s.check("undo of the restore", before)
		}
	}
}

// TestRestoreRefusedByUnseen: what another writes unseen through a file that it has open is in the way of a restore as well.
func TestRestoreRefusedByUnseen(t *testing.T) {
	s := passed(t, false)
	s.agent = "a"
	s.begin("next")
	s.must(s.append("old", ", a"))
	h := s.openAs("b", "old", unix.O_TRUNC|unix.O_WRONLY)
	s.put(h, 0, "b's own")
	before := s.snapshot(true)
	if _, err := s.e.Restore("a", 0, []string{"old"}, MoveOptions{}); !errors.Is(err, Conflict) {
		t.Fatalf("restore: %v", err)
	}
	s.check("after the refusal", before)
	s.release(h)
}
