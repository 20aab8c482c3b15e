package overlay

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// TestWorkers: all is done once, by no more than so many at a time; after an error nothing more is begun; who gives up waits
// for what was begun.
func TestWorkers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ workers, things int }{{0, 1}, {0, 3}, {0, 100}, {1, 50}, {2, 1}, {2, 7}, {3, 100}} {
		e := &Engine{opt: Options{workers: c.workers}}
		w := e.newWorkers(c.things)
		var now, most, done atomic.Int32
		times := make([]atomic.Int32, c.things)
		for i := range c.things {
			w.do(func() error {
				for n := now.Add(1); ; {
					if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
						break
					}
				}
				times[i].Add(1)
				done.Add(1)
				now.Add(-1)
				return nil
			})
		}
		if err := errors.Join(w.wait(), w.wait()); err != nil || int(done.Load()) != c.things || now.Load() != 0 {
			t.Errorf("%+v: %d done, %d under way, %v", c, done.Load(), now.Load(), err)
		}
		for i := range times {
			if n := times[i].Load(); n != 1 {
				t.Errorf("%+v: the %d. is done %d times", c, i, n)
			}
		}
		if limit := max(c.workers, 1); c.workers > 0 && int(most.Load()) > limit || most.Load() > maxWorkers {
			t.Errorf("%+v: %d at a time", c, most.Load())
		}
	}
	e := &Engine{opt: Options{workers: 2}}
	w := e.newWorkers(0)
	begun := atomic.Int32{}
	hold := make(chan struct{})
	for i := range 4 {
		w.do(func() error {
			begun.Add(1)
			<-hold
			if i == 0 {
				return io.ErrClosedPipe
			}
			return nil
		})
	}
	close(hold)
	if err := w.wait(); err != io.ErrClosedPipe {
		t.Errorf("its error is %v", err)
	}
	before := begun.Load()
	w.do(func() error { begun.Add(1); return nil })
	if err := w.wait(); err != io.ErrClosedPipe || begun.Load() != before {
		t.Errorf("after an error it goes on: %d begun, %v", begun.Load()-before, err)
	}
	w.drop()
}

// TestMoveByWorkers: many files of all kinds of content, with more than a step keeps open, come back exactly, also when the
// step is taken back in the midst.
func TestMoveByWorkers(t *testing.T) {
	t.Parallel()
	s := newStand(t, 1)
	const files = stepFDs + 40
	s.must(s.create("big", string(noise(smallBytes+5000)), 0o644))
	s.must(s.create("small", "", 0o644))
	s.must(s.mkdir("t", 0o755))
	content := func(i, round int) string {
		switch i % 4 {
		case 0:
			return ""
		case 1:
			return strings.Repeat(fmt.Sprint(i, round), 1+i%50)
		case 2:
			return strings.Repeat("\x00", 5000) + fmt.Sprint(i, round)
		}
		return fmt.Sprint(round, i) + string(noise(8192))
	}
	for i := range files {
		s.must(s.create("t/"+benchName(i), content(i, 0), 0o644))
	}
	before := s.snapshot(true)
	s.begin("change")
	s.must(s.rewrite("big", "short")) // first: it is among those that stay open
	for i := range files {
		s.must(s.rewrite("t/"+benchName(i), content(i+1, 1)))
	}
	s.must(s.rewrite("small", strings.Repeat("long", smallBytes)))
	after := s.snapshot(true)
	for i, n := range []int{0, 1, 500, stepFDs + 5, files + 1} {
		met := 0
		s.point = func(name string) error {
			if name == "restore" {
				if met++; met == n+1 {
					return io.ErrShortWrite
				}
			}
			return nil
		}
		if _, err := s.e.Undo(s.agent, MoveOptions{}); err == nil {
			t.Fatalf("it did not fail at %d of %d", n, met)
		}
		s.point = nil
		s.check(fmt.Sprintf("taken back, %d", i), after)
	}
	// What a worker itself cannot do.
	copies, err := filepath.Glob(s.inHold("c*"))
	s.must(err)
	if len(copies) != 1 {
		t.Fatalf("copies %v", copies)
	}
	s.must(os.Rename(copies[0], s.dir+"/.tt/away"))
	if _, err := s.e.Undo(s.agent, MoveOptions{}); !errors.Is(err, Damaged) {
		t.Errorf("without what was kept it says %v", err)
	}
	s.check("taken back, without what was kept", after)
	s.must(os.Rename(s.dir+"/.tt/away", copies[0]))
	s.undo()
	s.check("undone", before)
	s.redo()
	s.check("redone", after)
	s.undo()
	s.check("undone again", before)
	s.verify()
}
