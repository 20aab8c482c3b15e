package overlay

import (
	"errors"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// content of a file, as a program reads it.
func (s *stand) content(path string) string {
	s.t.Helper()
	var got string
	s.must(s.with(path, unix.O_RDONLY, func(h *Handle) error { got = s.read(h); return nil }))
	return got
}

// three is a workspace after three tasks, of which the second is taken back alone.
func three(t *testing.T) (s *stand, two tasktree.TaskID) {
	s = newStand(t, 1)
	s.must(s.mkdir("d", 0o755))
	for _, p := range []string{"f", "g", "d/x", "d/y", "gone"} {
		s.must(s.create(p, "first "+p, 0o644))
	}
	s.must(s.create("big", strings.Repeat("0123456789abcdef", 40<<10), 0o644))
	s.begin("one")
	s.must(s.append("f", ", one"))
	s.begin("two")
	two = s.e.Active("a")
	s.must(errors.Join(s.rewrite("g", "two"), s.unlink("gone"), s.rename("d/x", "d/moved", 0), s.mkdir("new", 0o755),
		s.create("new/n", "two", 0o644), s.write("big", 100, "two"), s.rewrite("d/y", "two")))
	s.begin("three")
	s.must(s.append("f", ", three"))
	return s, two
}

func TestRevert(t *testing.T) {
	s, two := three(t)
	before, changed := s.snapshot(true), s.stat("d").Mtime
	res, err := s.e.Revert("a", two, MoveOptions{})
	s.must(err)
	if got := s.stat("d").Mtime; got != changed {
		t.Errorf("the time of a directory that later tasks may have changed went back: %v, was %v", got, changed)
	}
	for p, want := range map[string]string{"f": "first f, one, three", "g": "first g", "gone": "first gone", "d/x": "first d/x", "d/y": "first d/y"} {
		if got := s.content(p); got != want {
			t.Errorf("%s is %q, want %q", p, got, want)
		}
	}
	if got := s.content("big"); got != strings.Repeat("0123456789abcdef", 40<<10) {
		t.Error("big is not as it was")
	}
	if _, err := s.walk("new"); err != unix.ENOENT {
		t.Errorf("new: %v", err)
	}
	if k, _ := s.e.Task(res.To); k.Title != "revert 3: two" || s.e.Active("a") != res.To || s.e.StatusOf(two) != tasktree.Past {
		t.Errorf("task %+v, active %d", k, s.e.Active("a"))
	}
	after := s.snapshot(true)
	s.reopen()
	s.undo()
	s.check("after the undo of the revert", before)
	s.redo()
	s.check("after its redo", after)
	_, err = s.e.Switch("a", 0, MoveOptions{})
	s.must(err)
	_, err = s.e.Switch("a", res.To, MoveOptions{})
	s.must(err)
	s.check("after a switch to 0 and back", after)
}

func TestRevertIsRefused(t *testing.T) {
	s, two := three(t)
	s.must(s.append("g", ", three"))
	before := s.snapshot(true)
	if _, err := s.e.Revert("a", two, MoveOptions{}); !errors.Is(err, Conflict) || !strings.Contains(err.Error(), "g (a, task 4)") {
		t.Fatalf("got %v", err)
	}
	if got := s.e.ConflictsOf("a"); len(got) != 1 || got[0].Path != "g" {
		t.Fatalf("report %v", got)
	}
	s.check("after the refusal", before)
	if n := len(s.e.Tasks()); n != 4 {
		t.Fatalf("a refused revert made a task: %d", n)
	}
	_, err := s.e.Revert("a", two, MoveOptions{Skip: true})
	s.must(err)
	if got := s.content("g"); got != "two, three" {
		t.Errorf("skip: g is %q", got)
	}
	if got := s.content("d/y"); got != "first d/y" {
		t.Errorf("skip: d/y is %q", got)
	}
	s.undo()
	s.check("after the undo", before)
	_, err = s.e.Revert("a", two, MoveOptions{Force: true})
	s.must(err)
	if got := s.content("g"); got != "first g" {
		t.Errorf("force: g is %q", got)
	}
	s.undo()
	s.check("after the undo of the forced", before)
	for id, want := range map[tasktree.TaskID]error{99: NoTask} {
		if _, err := s.e.Revert("a", id, MoveOptions{}); !errors.Is(err, want) {
			t.Errorf("revert %d: %v", id, err)
		}
	}
	_, err = s.e.Switch("a", 2, MoveOptions{})
	s.must(err)
	if _, err := s.e.Revert("a", two, MoveOptions{}); !errors.Is(err, Invalid) {
		t.Errorf("revert of an undone task: %v", err)
	}
}

func TestRestore(t *testing.T) {
	for _, c := range []struct {
		id   tasktree.TaskID
		path string
		want map[string]string // "-": not there
		err  error
	}{
		{2, "g", map[string]string{"g": "first g", "f": "first f, one, three", "d/y": "two"}, nil},
		{2, "gone", map[string]string{"gone": "first gone", "g": "two"}, nil},
		{2, "f", map[string]string{"f": "first f, one"}, nil},
		{2, "d", map[string]string{"d/x": "first d/x", "d/y": "first d/y", "d/moved": "-", "g": "two"}, nil},
		{2, "new", map[string]string{"new": "-", "g": "two"}, nil},
		{2, "big", map[string]string{"big": strings.Repeat("0123456789abcdef", 40<<10)}, nil},
		{2, "nothing", nil, NoPath},
		{2, "../x", nil, Invalid},
		{2, ".tt/format", nil, Invalid},
		{99, "f", nil, NoTask},
	} {
		s, _ := three(t)
		before := s.snapshot(true)
		_, err := s.e.Restore("a", c.id, []string{c.path}, MoveOptions{})
		if !errors.Is(err, c.err) {
			t.Errorf("restore %d %s: %v, want %v", c.id, c.path, err, c.err)
			continue
		}
		if err != nil {
			s.check("after the refusal", before)
			continue
		}
		for p, want := range c.want {
			if want == "-" {
				if _, err := s.walk(p); err != unix.ENOENT {
					t.Errorf("restore %d %s: %s: %v", c.id, c.path, p, err)
				}
			} else if got := s.content(p); got != want {
				t.Errorf("restore %d %s: %s is %.60q, want %.60q", c.id, c.path, p, got, want)
			}
		}
		after := s.snapshot(true)
		s.undo()
		s.check("after the undo of restore "+c.path, before)
		s.redo()
		s.check("after its redo", after)
	}
}

// TestRemakeFails: a revert that cannot be carried out changes nothing, and leaves no task.
func TestRemakeFails(t *testing.T) {
	for _, at := range []string{"prepare", "park", "settle", "end"} {
		s, two := three(t)
		before, tasks := s.snapshot(true), len(s.e.Tasks())
		failed := false
		s.point = func(name string) error {
			if name != at || failed {
				return nil
			}
			failed = true
			return unix.EIO
		}
		_, err := s.e.Revert("a", two, MoveOptions{})
		s.point = nil
		if err == nil || !failed {
			t.Fatalf("%s: %v", at, err)
		}
		for _, when := range []string{"at once", "after a new start"} {
			s.check(at+", "+when, before)
			if n := len(s.e.Tasks()); n != tasks {
				t.Errorf("%s, %s: %d tasks, there were %d", at, when, n, tasks)
			}
			s.reopen()
		}
		_, err = s.e.Revert("a", two, MoveOptions{})
		s.must(err)
		s.undo()
		s.check(at+", reverted and undone", before)
	}
}

// TestRemakeDies: a death at any effect of revert, restore or an undo that skips leaves the workspace as before it or as
// after it, and the way back from there is exact.
func TestRemakeDies(t *testing.T) {
	for name, act := range map[string]func(s *stand, two tasktree.TaskID) error{
		"revert": func(s *stand, two tasktree.TaskID) error {
			_, err := s.e.Revert("a", two, MoveOptions{})
			return err
		},
		"restore": func(s *stand, two tasktree.TaskID) error {
			_, err := s.e.Restore("a", two-1, []string{"d"}, MoveOptions{})
			return err
		},
		"skip": func(s *stand, two tasktree.TaskID) error {
			_, err := s.e.Switch("a", two-1, MoveOptions{Skip: true})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			points := 0
			for n := 0; ; n++ {
				s, two := three(t)
				if name == "skip" {
					s.must(s.as("b", func() error { return s.append("g", ", b") }))
				}
				before, at := s.snapshot(false), s.e.Active("a")
				s.dieAt(n)
				_, died := s.dies(func() { s.must(act(s, two)) })
				s.point = nil
				if !died {
					break
				}
				points++
				s.crash()
				if s.e.Active("a") == at {
					if got := s.snapshot(false); differ(got, before) != "" {
						t.Fatalf("point %d: the task is the old one, the tree is not: %s", n, differ(got, before))
					}
				}
				s.must(goTo(s, at))
				if got := differ(s.snapshot(false), before); name != "skip" && got != "" {
					t.Fatalf("point %d: the way back: %s", n, got)
				}
				if got := s.content("g"); name == "skip" && got != "two, b" {
					t.Fatalf("point %d: what was skipped is %q", n, got)
				}
			}
			if points < 5 {
				t.Fatalf("only %d points", points)
			}
			t.Logf("%d points", points)
		})
	}
}

// goTo goes to a task.
func goTo(s *stand, to tasktree.TaskID) error {
	_, err := s.e.Switch(s.agent, to, MoveOptions{Force: true})
	return err
}
