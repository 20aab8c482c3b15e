package overlay

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestForkDeathInOperation is TestDeathInOperation in a fork, whose raising and filling has points of its own.
func TestForkDeathInOperation(t *testing.T) {
	t.Parallel()
	for _, op := range single {
		t.Run(strings.ReplaceAll(op.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			s := newStand(t, 1)
			start(s)
			s.forget(1)
			parent := s.tree()
			var left []map[string]string
			for n := 0; ; n++ {
				f := s.fork("one")
				f.begin(op.name)
				s.dieAt(n)
				at, died := s.dies(func() { op.do(f) })
				if died {
					f.releaseAll()
					s.close()
					s.open()
					f = s.forked("one")
				} else {
					f.names = map[dentry]NodeID{}
				}
				s.same(s.tree(), parent, "the parent after a death at "+at)
				now := f.tree()
				left = append(left, timeless(now))
				f.undo()
				s.same(f.tree(), parent, "undo after a death at "+at)
				f.redo()
				s.same(f.tree(), now, "redo after a death at "+at)
				f.undo()
				s.same(f.tree(), parent, "second undo after a death at "+at)
				// What was half raised is raised again.
				op.do(f)
				if !died {
					break
				}
				f.forget(1)
				s.must(s.e.Discard("one", true))
			}
			was, is := timeless(parent), left[len(left)-1]
			if len(left) < 2 || differ(was, is) == "" {
				t.Fatal("there is nothing to die in")
			}
			for n, got := range left {
				if op.half != nil && differ(got, op.half(was)) == "" {
					continue
				}
				if differ(got, was) != "" && differ(got, is) != "" {
					t.Errorf("a death at point %d leaves neither what was nor what is to be:%s", n, differ(got, was))
				}
			}
		})
	}
}

// releaseAll ends all open files.
func (s *stand) releaseAll() {
	for h := range s.files {
		s.release(h)
	}
}

// TestForkDeath dies at every point of making a fork, of discarding it, and of the parent's change after it.
func TestForkDeath(t *testing.T) {
	t.Parallel()
	for n := 0; ; n++ {
		s := forkTree(t)
		want := s.tree()
		made := false
		s.dieAt(n)
		at, died := s.dies(func() {
			f := s.fork("one")
			made = true
			s.must(f.write("d/b", 5, "in the fork"))
			s.must(s.write("d/b", 9, "in the parent"))
			s.must(s.rename("d", "D", 0))
			s.undo()
			s.must(s.e.Discard("one", true))
		})
		if died {
			s.close()
			s.open()
		}
		forks := s.e.Forks()
		if made && len(forks) == 0 && died && at != "trim" {
			t.Errorf("the fork is gone after a death at %q", at)
		}
		if len(forks) == 0 {
			if left := s.e.epochs.from(0); len(left) > 0 {
				t.Errorf("epochs %v are left after a death at %q", left, at)
			}
			s.fork("one")
			s.must(s.e.Discard("one", false))
		} else {
			f := s.forked("one")
			f.must(second(f.e.Switch(f.agent, 0, MoveOptions{})))
			s.same(f.tree(), want, "the fork after a death at "+at)
		}
		s.e.Switch(s.agent, 1, MoveOptions{})
		s.verify()
		if !died {
			if n < 10 {
				t.Fatalf("only %d points", n)
			}
			break
		}
	}
}

// TestForkFaults lets every effect fail in turn: what fails changes nothing, and works when it is tried again.
func TestForkFaults(t *testing.T) {
	t.Parallel()
	for _, op := range single {
		if op.half != nil {
			continue
		}
		t.Run(strings.ReplaceAll(op.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			s := newStand(t, 1)
			start(s)
			parent := s.tree()
			for n := 0; ; n++ {
				f := s.fork("one")
				f.begin(op.name)
				hit := s.faultAt(n, false, unix.EIO)
				err := f.fails(op.do)
				s.point = nil
				if *hit && err == nil {
					t.Errorf("point %d fails, and nobody hears of it", n)
				}
				f.releaseAll()
				f.names = map[dentry]NodeID{}
				now := f.tree()
				f.undo()
				s.same(f.tree(), parent, "undo after a fault")
				f.redo()
				s.same(f.tree(), now, "redo after a fault")
				f.undo()
				op.do(f)
				f.releaseAll()
				f.forget(1)
				s.same(s.tree(), parent, "the parent")
				s.must(s.e.Discard("one", true))
				if !*hit {
					break
				}
			}
		})
	}
}
