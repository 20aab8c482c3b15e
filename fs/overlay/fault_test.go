package overlay

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// catcher makes of a fatal failure of a step an error.
type catcher struct{ testing.TB }

type caught struct{ err error }

// Fatal is called by must.
func (c catcher) Fatal(args ...any) {
	err, _ := args[0].(error)
	panic(caught{err})
}

// Helper marks nothing.
func (c catcher) Helper() {}

// fails does f and gives the first error that it met.
func (s *stand) fails(f func(s *stand)) (err error) {
	t := s.t
	defer func() {
		s.t, s.point = t, nil
		if r := recover(); r != nil {
			c, ok := r.(caught)
			if !ok {
				panic(r)
			}
			err = c.err
		}
	}()
	s.t = catcher{t}
	f(s)
	return nil
}

// faultAt makes the n-th point from now on fail, and with on every one after it; hit says whether it came to that.
func (s *stand) faultAt(n int, on bool, with error) (hit *bool) {
	hit = new(bool)
	s.point = func(string) error {
		n--
		if n == -1 || on && n < 0 {
			*hit = true
			return with
		}
		return nil
	}
	return hit
}

var faults = []struct {
	errno error
	kind  Kind
}{{unix.ENOSPC, NoSpace}, {unix.EIO, IO}, {unix.EMFILE, NoFiles}}

// TestFaultInOperation fails every point of every operation. The operation is refused, nothing has changed, and the same
// operation is then done, taken back and done again as ever.
func TestFaultInOperation(t *testing.T) {
	t.Parallel()
	s := newStand(t, 1)
	start(s)
	before := s.snapshot(true)
	points := 0
	for _, op := range single {
		t.Run(strings.ReplaceAll(op.name, " ", "_"), func(t *testing.T) {
			s.t = t
			for _, fault := range faults {
				n := 0
				for ; ; n++ {
					s.begin(op.name)
					hit := s.faultAt(n, false, fault.errno)
					err := s.fails(op.do)
					if !*hit {
						s.must(err)
						break
					}
					if !errors.Is(err, fault.errno) {
						t.Fatalf("point %d fails with %v, the operation with %v", n, fault.errno, err)
					}
					if now := s.snapshot(true); differ(now, before) != "" {
						t.Fatalf("%v at point %d:%s", fault.errno, n, differ(now, before))
					}
					op.do(s)
					after := s.snapshot(true)
					s.undo()
					s.check("undo", before)
					s.redo()
					s.check("redo", after)
					s.undo()
				}
				if n == 0 {
					t.Fatal("there is no point to fail")
				}
				points += n
				s.undo()
				s.check("last undo", before)
			}
		})
		s.t = t
		if t.Failed() {
			return // the workspace is not fit for more
		}
	}
	s.verify()
	t.Logf("%d points failed in %d operations", points, len(single))
}

// TestRefusedRecord says of a record that cannot be kept that it was the store, and lets it pass where that is wanted.
func TestRefusedRecord(t *testing.T) {
	for _, fault := range faults {
		s := newStand(t, 1)
		start(s)
		before := s.snapshot(true)
		s.begin("task")
		s.faultAt(0, false, fault.errno)
		err := s.fails(func(s *stand) { s.must(s.unlink("f")) })
		var own *Error
		if !errors.As(err, &own) || !errors.Is(err, fault.kind) {
			t.Errorf("%v: %v", fault.errno, err)
		}
		s.check("refused", before)
		s.close()
		s.set = func(o *Options) { o.Pass = true }
		s.open()
		s.faultAt(0, false, fault.errno)
		s.must(s.fails(func(s *stand) { s.must(s.unlink("f")) }))
		if k, _ := s.e.Task(s.e.Active("a")); !k.Incomplete {
			t.Error("a task that passed is not marked incomplete")
		}
		s.reopen()
		if k, _ := s.e.Task(s.e.Active("a")); !k.Incomplete {
			t.Error("the mark of an incomplete task is forgotten")
		}
	}
}

// moves readies a stand with chapters and gives the state at each end.
func moves(t *testing.T) (s *stand, ends []map[string]string, switchTo func(end int) error) {
	s = newStand(t, 1)
	start(s)
	ends = append(ends, s.snapshot(true))
	for _, f := range chapters {
		s.begin("chapter")
		f(s)
		ends = append(ends, s.snapshot(true))
	}
	first := int(s.e.Active("a")) - len(chapters)
	return s, ends, func(end int) error {
		id := first + end
		if end == 0 {
			id = 0
		}
		_, err := s.e.Switch("a", taskID(id), MoveOptions{})
		return err
	}
}

// TestFaultInMove fails every point of a move. The workspace is as before, and the move is then made.
func TestFaultInMove(t *testing.T) {
	t.Parallel()
	s, ends, switchTo := moves(t)
	points := 0
	for _, way := range [][2]int{{3, 2}, {2, 3}, {1, 0}, {0, 1}, {2, 0}, {0, 2}, {3, 0}, {0, 3}} {
		from, to := way[0], way[1]
		n := 0
		for ; ; n++ {
			s.must(switchTo(from))
			told := len(s.told)
			at := s.e.Active("a")
			hit := s.faultAt(n, false, unix.EIO)
			err := switchTo(to)
			s.point = nil
			if !*hit {
				s.must(err)
				break
			}
			if !errors.Is(err, unix.EIO) {
				t.Fatalf("from %d to %d: point %d fails, the move with %v", from, to, n, err)
			}
			s.check(fmt.Sprintf("from %d to %d, failed at point %d", from, to, n), ends[from])
			if now := s.e.Active("a"); now != at {
				t.Fatalf("a failed move goes from %d to %d", at, now)
			}
			if len(s.told) != told {
				t.Error("the kernel was told of a move that failed")
			}
		}
		s.check("after the move", ends[to])
		if n < 5 {
			t.Errorf("from %d to %d: only %d points to fail", from, to, n)
		}
		points += n
	}
	s.verify()
	t.Logf("%d points failed in moves", points)
}

// TestFaultsInMove fails every point from one on: the move can be neither made nor taken back. Moves are refused from
// then on, and the next start ends it.
func TestFaultsInMove(t *testing.T) {
	t.Parallel()
	s, ends, switchTo := moves(t)
	for _, way := range [][2]int{{3, 1}, {1, 3}} {
		from, to := way[0], way[1]
		for n := 0; ; n += 3 {
			s.must(switchTo(from))
			hit := s.faultAt(n, true, unix.EIO)
			err := switchTo(to)
			s.point = nil
			if !*hit {
				s.must(err)
				break
			}
			if err == nil {
				t.Fatalf("from %d to %d: the move goes on after faults at %d", from, to, n)
			}
			s.reopen()
			now := s.snapshot(true)
			if differ(now, ends[from]) != "" && differ(now, ends[to]) != "" {
				t.Fatalf("from %d to %d, failed from point %d on, then started again: neither the one nor the other end:%s", from, to, n, differ(now, ends[from]))
			}
			s.must(switchTo(to))
			s.check("the other end", ends[to])
		}
	}
}

// TestNotifier tells of every entry and inode that a move changes, once, and of nothing when nothing is done.
func TestNotifier(t *testing.T) {
	t.Parallel()
	s := newStand(t, 1)
	start(s)
	s.begin("task")
	s.must(s.write("d/f", 0, "W"))
	s.must(s.create("d/new", "new", 0o644))
	s.must(s.unlink("g"))
	s.must(s.rename("f", "d/f2", 0))
	f, err := s.walk("d/f")
	s.must(err)
	s.told = nil
	if _, err := s.e.Undo("a", MoveOptions{DryRun: true}); err != nil || len(s.told) != 0 {
		t.Fatalf("a dry run tells %v, %v", s.told, err)
	}
	s.undo()
	if len(s.told) != 1 {
		t.Fatalf("the move was told %d times", len(s.told))
	}
	var got []string
	for _, ent := range s.told[0].Entries {
		got = append(got, fmt.Sprintf("%s %v %v", ent.Path, ent.Had, ent.Has))
	}
	slices.Sort(got)
	want := []string{"d/f2 true false", "d/new true false", "f false true", "g false true"}
	if !slices.Equal(got, want) {
		t.Errorf("told %q, should be %q", got, want)
	}
	if !slices.Contains(s.told[0].Nodes, f) {
		t.Errorf("not told that d/f, node %d, changed: %v", f, s.told[0].Nodes)
	}
}

// TestFence keeps a process that was first seen in a task which has been undone from writing.
func TestFence(t *testing.T) {
	s := newStand(t, 1)
	start(s)
	s.begin("one")
	one := s.e.Active("a")
	s.must(s.create("x", "x", 0o644))
	s.begin("two")
	two := s.e.Active("a")
	s.must(s.create("y", "y", 0o644))
	s.undo()
	before := s.snapshot(true)
	for name, do := range map[string]func(c Caller) error{
		"create": func(c Caller) error { _, _, err := s.e.Create(c, RootNode, "z", unix.O_RDWR, 0o644); return err },
		"mkdir":  func(c Caller) error { _, err := s.e.Mkdir(c, RootNode, "z", 0o755); return err },
		"unlink": func(c Caller) error { return s.e.Unlink(c, RootNode, "x") },
		"rename": func(c Caller) error { return s.e.Rename(c, RootNode, "x", RootNode, "z", 0) },
		"chmod": func(c Caller) error {
			mode := uint32(0o600)
			_, err := s.e.SetAttributes(c, RootNode, nil, SetAttr{Mode: &mode})
			return err
		},
	} {
		c := s.caller()
		c.Entered = two
		if err := do(c); !errors.Is(err, Fenced) {
			t.Errorf("%s by a process of an undone task: %v", name, err)
		}
		s.check(name, before)
	}
	c := s.caller()
	c.Entered = one
	if _, err := s.e.Mkdir(c, RootNode, "z", 0o755); err != nil {
		t.Errorf("a process of a past task: %v", err)
	}
	c.Agent, c.Entered = "b", two
	if _, err := s.e.Mkdir(c, RootNode, "zz", 0o755); err != nil {
		t.Errorf("a process that has another agent by now: %v", err)
	}
}

// TestClosed refuses everything by an engine that was closed.
func TestClosed(t *testing.T) {
	s := newStand(t, 1)
	start(s)
	before := s.snapshot(true)
	e := s.e
	s.close()
	for name, err := range map[string]error{
		"lookup": func() error { _, err := e.Lookup(RootNode, "f"); return err }(),
		"mkdir":  func() error { _, err := e.Mkdir(s.caller(), RootNode, "z", 0o755); return err }(),
		"unlink": e.Unlink(s.caller(), RootNode, "f"),
		"rename": e.Rename(s.caller(), RootNode, "f", RootNode, "z", 0),
		"begin":  func() error { _, err := e.BeginTask("a", "t"); return err }(),
		"undo":   func() error { _, err := e.Undo("a", MoveOptions{}); return err }(),
		"files":  func() error { _, err := e.Preview("a", 0); return err }(),
	} {
		if !errors.Is(err, Closed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.must(e.Close())
	s.check("closed", before)
}

// TestReadOnly changes nothing and shows history.
func TestReadOnly(t *testing.T) {
	s := newStand(t, 1)
	start(s)
	s.begin("task")
	s.must(s.unlink("f"))
	after := s.snapshot(true)
	s.close()
	s.set = func(o *Options) { o.ReadOnly = true }
	s.open()
	id := s.e.Active("a")
	for name, err := range map[string]error{
		"mkdir": s.mkdir("z", 0o755),
		"write": s.write("g", 0, "W"),
		"begin": func() error { _, err := s.e.BeginTask("a", "t"); return err }(),
		"undo":  func() error { _, err := s.e.Undo("a", MoveOptions{}); return err }(),
	} {
		if !errors.Is(err, ReadOnly) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.check("read-only", after)
	files, err := s.e.Files(id)
	s.must(err)
	if len(files) != 1 || files[0] != (FileChange{"deleted", "f"}) {
		t.Errorf("files: %v", files)
	}
	tree, err := s.e.Before(id)
	s.must(err)
	b := make([]byte, 100)
	n, err := tree.ReadAt("f", b, 0)
	if err != nil || string(b[:n]) != "first\n" {
		t.Errorf("before: %q, %v", b[:n], err)
	}
}
