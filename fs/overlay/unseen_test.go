package overlay

import (
	"errors"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// put writes as the kernel does: by itself where the file is passed through, else by asking.
func (s *stand) put(h *Handle, off int64, what string) {
	s.t.Helper()
	if h.Mode() == Passthrough {
		_, err := unix.Pwrite(h.FD(), []byte(what), off)
		s.must(err)
		return
	}
	s.must(s.writeAt(h, off, what))
}

// openAs opens a file for an agent, or makes it.
func (s *stand) openAs(a tasktree.Agent, path string, flags uint32) (h *Handle) {
	s.t.Helper()
	s.must(s.as(a, func() (err error) {
		if flags&unix.O_CREAT != 0 {
			h, err = s.createOpen(path, flags&unix.O_ACCMODE, 0o644)
		} else {
			h, err = s.openFile(path, flags)
		}
		return err
	}))
	return h
}

// passed is a workspace with passthrough, in which a and b have each begun a task; related: b is a's sub-agent.
func passed(t *testing.T, related bool) *stand {
	s := newStand(t, 1)
	s.e.SetPassthrough(true)
	s.agent = tasktree.User
	s.must(errors.Join(s.create("old", "what was here before", 0o644), s.create("g", "g", 0o644)))
	s.old()
	s.forget(1)
	if related {
		s.e.SetParent("b", "a")
	}
	for _, a := range []tasktree.Agent{"a", "b"} {
		_, err := s.e.BeginTask(a, "of "+string(a))
		s.must(err)
	}
	return s
}

// bars says whether a's undo is refused for what other has done.
func (s *stand) bars(a, other tasktree.Agent) bool {
	s.t.Helper()
	before := s.snapshot(true)
	_, err := s.e.Undo(a, MoveOptions{})
	if err == nil {
		return false
	}
	if !errors.Is(err, Conflict) {
		s.t.Fatalf("undo of %s: %v", a, err)
	}
	s.check("after the refusal", before)
	for _, c := range s.e.ConflictsOf(a) {
		if c.Agent != other {
			s.t.Errorf("%s is barred by %+v", a, c)
		}
	}
	return true
}

// ways are how a comes to a file that it writes to unseen.
var ways = map[string]struct {
	path  string
	flags uint32
}{
	"a file that it made":     {"new", unix.O_CREAT | unix.O_WRONLY},
	"one that it emptied":     {"old", unix.O_TRUNC | unix.O_WRONLY},
	"one that is kept whole":  {"old", unix.O_RDWR},
	"made, to read and write": {"new", unix.O_CREAT | unix.O_RDWR},
}

// TestUnseenBesideOthers: what an agent writes through a file that is passed through is its own, whoever has touched the file
// since it was opened: b's undo gives exactly what was there when b touched it first, unless a has written since; then
// it is refused, at once, after a's close and after a death. Nothing is lost.
func TestUnseenBesideOthers(t *testing.T) {
	t.Parallel()
	for name, w := range ways {
		for _, related := range []bool{false, true} {
			for _, when := range []string{"open", "closed", "after a remount"} {
				t.Run(strings.Join([]string{name, map[bool]string{true: "family", false: "strangers"}[related], when}, ", "), func(t *testing.T) {
					t.Parallel()
					s := passed(t, related)
					start := s.snapshot(true)
					h := s.openAs("a", w.path, w.flags)
					if h.Mode() != Passthrough {
						t.Fatalf("mode %d", h.Mode())
					}
					s.put(h, 0, "aaaaaaaaaa")
					then := s.snapshot(true)
					bs := func() { s.t.Helper(); s.must(s.as("b", func() error { return s.write(w.path, 2, "bb") })) }
					bs()
					both := s.snapshot(true)
					if s.bars("b", "a") {
						t.Fatal("b's undo is refused for what a did before b")
					}
					s.check("b's undo", then)
					_, err := s.e.Redo("b", MoveOptions{})
					s.must(err)
					s.check("b's redo", both)

					s.put(h, 4, "AAAAAAAAAAAA") // also past the end
					switch when {
					case "closed":
						s.release(h)
					case "after a remount":
						s.release(h)
						s.crash()
					}
					if !s.bars("b", "a") {
						t.Error("b's undo takes what a wrote after b")
					}
					if !related && !s.bars("a", "b") {
						t.Error("a's undo takes what b wrote")
					}
					if when == "open" {
						bs() // in a task of its own, since b's was left
						s.put(h, 0, "more")
						bs()
						if !s.bars("b", "a") {
							t.Error("b's undo takes what a wrote between b's writes")
						}
						s.release(h)
					}
					// All of it can be taken back and done again, exactly.
					end := s.snapshot(true)
					for range 2 {
						_, err = s.e.Undo("b", MoveOptions{Force: true})
						s.must(err)
						_, err = s.e.Undo("b", MoveOptions{})
						s.must(err)
						s.check("force and its undo", end)
					}
					if related {
						_, err = s.e.Undo("a", MoveOptions{})
						s.must(err)
						s.check("undo of both", start)
						_, err = s.e.Redo("a", MoveOptions{})
						s.must(err)
						s.check("redo of both", end)
					}
					s.verify()
				})
			}
		}
	}
}

// TestUnseenByTwo: of two agents that have one file open for writing, the second is seen; so each one's undo knows of the
// other.
func TestUnseenByTwo(t *testing.T) {
	t.Parallel()
	for _, flags := range []uint32{unix.O_WRONLY, unix.O_RDWR, unix.O_WRONLY | unix.O_TRUNC} {
		s := passed(t, false)
		a := s.openAs("a", "old", unix.O_RDWR)
		b := s.openAs("b", "old", flags)
		if a.Mode() != Passthrough || b.Mode() != Direct || !b.Backed() {
			t.Errorf("%x: a is served in mode %d, b in mode %d", flags, a.Mode(), b.Mode())
		}
		s.put(b, 0, "b")
		s.release(b)
		if s.bars("b", "a") {
			t.Errorf("%x: a, which wrote nothing since, bars b", flags)
		}
		_, err := s.e.Redo("b", MoveOptions{})
		s.must(err)
		s.put(a, 1, "a")
		s.release(a)
		if !s.bars("b", "a") || !s.bars("a", "b") {
			t.Errorf("%x: each wrote after the other", flags)
		}
	}
}

// TestUnseenBetweenMoves: what is written after a move is a task, also when nothing but another move comes after it.
func TestUnseenBetweenMoves(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]func(s *stand) error{
		"undo":    func(s *stand) error { _, err := s.e.Undo("a", MoveOptions{}); return err },
		"switch":  func(s *stand) error { _, err := s.e.Switch("a", 0, MoveOptions{}); return err },
		"restore": func(s *stand) error { _, err := s.e.Restore("a", 0, []string{"g"}, MoveOptions{}); return err },
		"redo":    func(s *stand) error { _, err := s.e.Redo("a", MoveOptions{}); return err },
	} {
		s := passed(t, false)
		s.agent = "a"
		h := s.openAs("a", "old", unix.O_RDWR)
		s.put(h, 0, "first")
		s.must(s.rewrite("g", "of a"))
		first := s.e.Active("a")
		s.undo()
		was := s.snapshot(true)
		s.put(h, 0, "second")
		is := s.snapshot(true)
		err := next(s)
		if name == "redo" { // it is another branch
			s.must(err, NothingToDo)
			s.check("refused redo", is)
		} else {
			s.must(err)
		}
		if name == "restore" {
			s.undo()
		}
		if name == "undo" || name == "switch" {
			s.check(name, was)
			s.redo()
		}
		if at := s.e.Active("a"); at == first || at == 0 {
			t.Errorf("%s: what was written is of task %d", name, at)
		}
		s.check(name+", and back", is)
		s.undo()
		s.check(name+", undo of what was written", was)
		s.release(h)
	}
}

// TestUnseenBeforeAnOpen: what the maker of a file wrote before another opened it is older than all that this one does.
func TestUnseenBeforeAnOpen(t *testing.T) {
	t.Parallel()
	s := passed(t, false)
	a := s.openAs("a", "new", unix.O_CREAT|unix.O_WRONLY)
	s.put(a, 0, "a's")
	then := s.snapshot(true)
	b := s.openAs("b", "new", unix.O_RDWR)
	s.put(b, 1, "b")
	s.release(b)
	if s.bars("b", "a") {
		t.Error("a, which wrote before b opened the file, bars b")
	}
	s.check("b's undo", then)
	s.release(a)
}

// TestUnwrittenIsNotTouched: a file that is open for writing when a task begins, and is closed in it without a write, as
// the close of a program that has ended comes late, is not the task's: it is in nobody's way, blame does not name the
// task, and its undo leaves the file alone.
func TestUnwrittenIsNotTouched(t *testing.T) {
	t.Parallel()
	for _, closes := range []string{"in the task", "in the next", "after another's write"} {
		t.Run(closes, func(t *testing.T) {
			t.Parallel()
			s := passed(t, false)
			h := s.openAs("a", "old", unix.O_RDWR)
			s.put(h, 0, "written")
			two := s.openAs("a", "old", unix.O_RDWR)
			s.agent = "a"
			s.begin("next")
			next := s.e.Active("a")
			s.must(s.rewrite("g", "of next"))
			s.release(two)
			if n := len(s.filesOf(next)); n != 1 {
				t.Errorf("the task changed %d files while one is open", n)
			}
			write := func() { s.must(s.as("b", func() error { return s.write("old", 0, "b's") })) }
			if closes == "after another's write" {
				write()
			}
			if closes == "in the next" {
				s.begin("after")
			}
			s.release(h)
			if closes != "after another's write" {
				write()
			}
			line, err := s.e.Blame("old")
			s.must(err)
			for _, v := range line {
				if v.Title == "next" || v.Title == "after" {
					t.Errorf("blame: %s", told(line))
				}
			}
			is := s.content("old")
			if closes == "in the next" {
				s.undo()
			}
			if s.bars("a", "b") {
				t.Fatal("b is in the way of a task that never touched the file")
			}
			if got := s.content("old"); got != is || s.content("g") != "g" {
				t.Errorf("undo of the task: %q, was %q; g is %q", got, is, s.content("g"))
			}
			s.redo()
			if got := s.content("old"); got != is || s.content("g") != "of next" {
				t.Errorf("redo of the task: %q, was %q; g is %q", got, is, s.content("g"))
			}
			s.verify()
		})
	}
}

// TestUnwrittenWhileOpen: an agent's undo leaves what it has open and has not written to in the task, whoever wrote it.
func TestUnwrittenWhileOpen(t *testing.T) {
	t.Parallel()
	s := passed(t, false)
	h := s.openAs("a", "old", unix.O_RDWR)
	s.agent = "a"
	s.begin("next")
	s.must(s.rewrite("g", "of next"))
	s.must(s.as("b", func() error { return s.write("old", 0, "b's") }))
	is := s.content("old")
	if s.bars("a", "b") {
		t.Fatal("b is in the way of a task that has the file open only")
	}
	if got := s.content("old"); got != is || s.content("g") != "g" {
		t.Errorf("old is %q, was %q; g is %q", got, is, s.content("g"))
	}
	s.redo()
	before := s.snapshot(true)
	s.put(h, 0, "a's")
	s.release(h)
	s.undo()
	s.check("undo of what was written after all", before)
}

// TestArmedBesideOthers: a file that an agent has open across its undo, and that another writes to then, is the other's. What
// the agent itself writes there after that is a task of its own, which the other's work bars.
func TestArmedBesideOthers(t *testing.T) {
	t.Parallel()
	s := passed(t, false)
	h := s.openAs("a", "old", unix.O_RDWR)
	s.put(h, 0, "first")
	s.agent = "a"
	s.undo()
	s.must(s.as("b", func() error { return s.write("old", 2, "b") }))
	with := s.snapshot(true)
	tasks := len(s.e.Tasks())
	two := s.openAs("a", "old", unix.O_RDONLY)
	s.release(two)
	s.put(h, 6, "a again")
	s.release(h)
	if n := len(s.e.Tasks()); n != tasks+1 {
		t.Fatalf("%d tasks, were %d: what was written after the undo is a task", n, tasks)
	}
	if !s.bars("a", "b") {
		t.Errorf("a's undo takes what b wrote: %q", s.content("old"))
	}
	_ = with

	s = passed(t, false)
	h = s.openAs("a", "old", unix.O_RDWR)
	s.put(h, 0, "first")
	s.agent = "a"
	s.undo()
	s.must(s.as("b", func() error { return s.write("old", 2, "b") }))
	tasks = len(s.e.Tasks())
	s.release(h)
	if n := len(s.e.Tasks()); n != tasks {
		t.Errorf("%d tasks, were %d: what b wrote became a task of a", n, tasks)
	}
}
