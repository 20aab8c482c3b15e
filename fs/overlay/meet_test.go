package overlay

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// stopped is a move that stands still at a point.
type stopped struct {
	goOn  func()
	ended chan error
}

// stopAt begins a move and returns when it stands at a point. What others do meanwhile is not stopped.
func (s *stand) stopAt(point string, move func() error) *stopped {
	s.t.Helper()
	inside, goOn := make(chan struct{}), make(chan struct{})
	var one atomic.Bool
	s.point = func(name string) error {
		if name == point && one.CompareAndSwap(false, true) {
			close(inside)
			<-goOn
		}
		return nil
	}
	m := &stopped{goOn: sync.OnceFunc(func() { close(goOn) }), ended: make(chan error, 1)}
	s.t.Cleanup(m.goOn) // a move that is not ended would hold up the end of the test
	go func() { m.ended <- move() }()
	select {
	case <-inside:
	case err := <-m.ended:
		s.t.Fatalf("the move ended without coming to %q: %v", point, err)
	}
	return m
}

// meanwhile does something while a move stands still.
func (m *stopped) meanwhile(t *testing.T, f func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case err := <-m.ended:
		t.Fatalf("the move ended before the others: %v", err)
	case <-time.After(30 * time.Second):
		m.goOn()
		t.Fatal("who works elsewhere waits for the move")
	}
}

// TestMovesBesideOneAnother stops an agent's undo at every one of its points. Another's moves, in the same directories, go to
// their end meanwhile.
func TestMovesBesideOneAnother(t *testing.T) {
	for _, point := range []string{"prepare", "park", "put", "restore", "restore attributes", "settle", "end"} {
		t.Run(point, func(t *testing.T) {
			s := newStand(t, 1)
			s.set = func(o *Options) { o.Notify = nil }
			s.reopen()
			s.must(s.mkdir("d", 0o755))
			s.must(s.mkdir("o", 0o755))
			for _, f := range []string{"d/a", "d/gone", "d/b", "o/b", "o/c"} {
				s.must(s.create(f, "old "+f, 0o644))
			}
			s.begin("a's")
			s.must(s.rewrite("d/a", "a's"))
			s.must(s.create("d/a.new", "a's", 0o644))
			s.must(s.unlink("d/gone"))
			o := s.beside("o")
			_, err := o.e.BeginTask("o", "o's")
			s.must(errors.Join(err, o.rewrite("d/b", "o's"), o.create("d/b.new", "o's", 0o644), o.rewrite("o/b", "o's"), o.chmod("o", 0o700)))
			mine := o.e.Active("o")

			m := s.stopAt(point, func() error { _, err := s.e.Undo("a", MoveOptions{}); return err })
			m.meanwhile(t, func() error {
				do := func(_ MoveResult, err error) error { return err }
				_, e0 := o.e.BeginTask("o", "another")
				err := errors.Join(e0, o.fresh(func() error { return o.rewrite("o/c", "o's later") }),
					do(o.e.Undo("o", MoveOptions{})), do(o.e.Switch("o", 0, MoveOptions{})), do(o.e.Redo("o", MoveOptions{})))
				if got := o.e.Active("o"); got != mine {
					err = errors.Join(err, fmt.Errorf("the active task is %d, not %d", got, mine))
				}
				return err
			})
			m.goOn()
			s.must(<-m.ended)
			s.point = nil
			for path, want := range map[string]string{"d/a": "old d/a", "d/gone": "old d/gone", "d/b": "o's", "d/b.new": "o's", "o/b": "o's", "o/c": "old o/c"} {
				if got, err := os.ReadFile(filepath.Join(s.dir, path)); err != nil || string(got) != want {
					t.Errorf("%s has %q, want %q (%v)", path, got, want, err)
				}
			}
			if _, err := os.Lstat(filepath.Join(s.dir, "d/a.new")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("d/a.new: %v", err)
			}
			s.verify()
		})
	}
}

// TestHistoryBesideMoves reads what was while a move stands still: what it does not change is read at once, what it changes
// when it has ended, and then as it is.
func TestHistoryBesideMoves(t *testing.T) {
	s := newStand(t, 1)
	s.set = func(o *Options) { o.Notify = nil }
	s.reopen()
	s.agent = tasktree.User
	for _, d := range []string{"d", "o"} {
		s.must(s.mkdir(d, 0o755))
		s.must(s.create(d+"/f", "old", 0o644))
		s.must(s.create(d+"/beside", "beside", 0o644))
	}
	for _, a := range []tasktree.Agent{"a", "o"} {
		w := s.beside(a)
		dir := map[tasktree.Agent]string{"a": "d", "o": "o"}[a]
		_, err := w.e.BeginTask(a, "one")
		s.must(errors.Join(err, w.rewrite(dir+"/f", "new"), w.create(dir+"/made", "new", 0o644), w.unlink(dir+"/beside")))
	}
	o := s.e.Active("o")
	m := s.stopAt("restore", func() error { _, err := s.e.Undo("a", MoveOptions{}); return err })
	read := func(v *Tree, path, want string) error {
		b := make([]byte, 16)
		n, err := v.ReadAt(path, b, 0)
		if err == nil && string(b[:n]) != want {
			err = fmt.Errorf("%s has %q, want %q", path, b[:n], want)
		}
		return err
	}
	now, err := s.e.At("o", o)
	s.must(err)
	was, err := s.e.At("o", 0)
	s.must(err)
	m.meanwhile(t, func() error {
		entries, err := was.List("o")
		if len(entries) != 2 {
			err = errors.Join(err, fmt.Errorf("o has %+v", entries))
		}
		return errors.Join(err, read(was, "o/f", "old"), read(now, "o/f", "new"), read(was, "o/beside", "beside"), read(now, "o/made", "new"))
	})
	var all sync.WaitGroup
	for _, path := range []string{"d/f", "d/beside"} {
		want := map[string]string{"d/f": "old", "d/beside": "beside"}[path]
		all.Go(func() { s.tells(read(now, path, want)) }) // a's move has ended by then
	}
	m.goOn()
	s.must(<-m.ended)
	all.Wait()
	s.must(read(now, "d/made", ""), unix.ENOENT)
	s.verify()
}

// TestUndoMeetsUndo stops the undo of a task that bars another agent's undo. The other waits and then goes through: it sees
// all of the first or nothing.
func TestUndoMeetsUndo(t *testing.T) {
	for _, point := range []string{"prepare", "restore", "settle", "end"} {
		t.Run(point, func(t *testing.T) {
			s := newStand(t, 1)
			s.set = func(o *Options) { o.Notify = nil }
			s.reopen()
			s.must(s.create("f", "old", 0o644))
			s.begin("a's")
			s.must(s.rewrite("f", "a's"))
			b := s.beside("b")
			_, err := b.e.BeginTask("b", "b's")
			s.must(errors.Join(err, b.rewrite("f", "b's")))
			_, err = s.e.Undo("a", MoveOptions{})
			s.must(err, Conflict)

			m := s.stopAt(point, func() error { _, err := b.e.Undo("b", MoveOptions{}); return err })
			other := make(chan error, 1)
			go func() { _, err := s.e.Undo("a", MoveOptions{}); other <- err }()
			for range 20 { // it can only miss a fault
				select {
				case err := <-other:
					t.Fatalf("a's undo did not wait for b's: %v", err)
				default:
					time.Sleep(time.Millisecond)
				}
			}
			m.goOn()
			s.must(<-m.ended)
			s.must(<-other)
			if got := s.content("f"); got != "old" {
				t.Errorf("f has %q", got)
			}
			s.verify()
		})
	}
}

// TestAgentsContend lets agents change, make and remove the same few names, undo and redo, all at once. What one may not take
// back because of another is refused. Each task changes one thing once, so that there is an order in which all can be undone; in the end, when everybody takes back what is his, newest first, all is as it was.
func TestAgentsContend(t *testing.T) {
	agents, rounds := 5, 60
	if testing.Short() || underRace {
		rounds = 20
	}
	s := newStand(t, 1)
	s.set = func(o *Options) { o.Notify = nil }
	s.reopen()
	s.must(s.mkdir("d", 0o755))
	var names []string
	for i := range 4 {
		name := fmt.Sprintf("d/f%d", i)
		names = append(names, name)
		if i%2 == 0 {
			s.must(s.create(name, "old "+name, 0o644))
		}
	}
	before := files(s.snapshot(true))
	var all sync.WaitGroup
	var refused, moved sync.Map
	var workers []*stand
	for a := range agents {
		workers = append(workers, s.beside(tasktree.Agent(fmt.Sprintf("agent%d", a))))
	}
	for a, w := range workers {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(7, uint64(a)))
			for i := range rounds {
				var err error
				switch rng.IntN(6) {
				case 0, 1:
					_, err = w.e.Undo(w.agent, MoveOptions{})
				case 2:
					_, err = w.e.Redo(w.agent, MoveOptions{})
				default:
					if _, err = w.e.BeginTask(w.agent, fmt.Sprint(i)); err != nil {
						break
					}
					name := names[rng.IntN(len(names))]
					err = w.fresh(func() error {
						switch rng.IntN(3) {
						case 0:
							return w.unlink(name)
						case 1:
							return w.create(name, "", 0o600)
						}
						return w.write(name, 0, fmt.Sprintf("%s %3d", w.agent, i))
					})
					if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EEXIST) {
						err = nil
					}
				}
				switch {
				case errors.Is(err, Conflict):
					refused.Store(w.agent, true)
				case errors.Is(err, AtRoot), errors.Is(err, NothingToDo):
				case err != nil:
					t.Errorf("%s: %v", w.agent, err)
				default:
					moved.Store(w.agent, true)
				}
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	s.verify()
	for left := true; left; {
		left = false
		progress := false
		for a := range agents {
			_, err := s.e.Undo(tasktree.Agent(fmt.Sprintf("agent%d", a)), MoveOptions{})
			switch {
			case err == nil:
				left, progress = true, true
			case errors.Is(err, Conflict):
				left = true
			case !errors.Is(err, AtRoot):
				t.Fatal(err)
			}
		}
		if left && !progress {
			t.Fatal("everybody's undo is barred by somebody else's task")
		}
	}
	s.checkFiles("after all went back", before)
	s.reopen()
	s.checkFiles("after a reopen", before)
}
