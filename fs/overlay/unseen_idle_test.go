package overlay

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestOpenBarsNobody: a file that an agent has open for writing when its task begins, and to which it has not written since, is in
// nobody's way; what another's move makes of it is what was there before the task, so that the task's undo leaves it so. What is
// written through it is the task's from then on, and in the way.
func TestOpenBarsNobody(t *testing.T) {
	t.Parallel()
	for name, related := range map[string]bool{"strangers": false, "family": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := passed(t, related)
			start := s.content("old")
			h := s.openAs("b", "old", unix.O_RDWR)
			if h.Mode() != Passthrough {
				t.Fatalf("mode %d", h.Mode())
			}
			s.put(h, 0, "b's")
			left := s.content("old")
			s.must(s.as("a", func() error { return s.append("old", ", a's") }))
			both := s.content("old")
			next, err := s.e.BeginTask("b", "next")
			s.must(err)
			s.must(s.as("b", func() error { return s.rewrite("g", "of next") }))
			for range 2 {
				if !related && s.bars("a", "b") {
					t.Fatal("b, which wrote nothing since, bars a")
				}
				if related { // b's task hangs under a's: it goes along
					break
				}
				if got := s.content("old"); got != left {
					t.Fatalf("a's undo: %q, want %q", got, left)
				}
				if n := len(s.filesOf(next)); n != 1 {
					t.Errorf("the task changed %d files", n)
				}
				_, err = s.e.Redo("a", MoveOptions{})
				s.must(err)
				if got := s.content("old"); got != both {
					t.Fatalf("a's redo: %q, want %q", got, both)
				}
			}
			_, err = s.e.Undo("a", MoveOptions{})
			s.must(err)
			if related {
				if got := s.content("old"); got != start {
					t.Errorf("a's undo: %q, want %q", got, start)
				}
				s.release(h)
				s.verify()
				return
			}
			s.put(h, 4, "later")
			wrote := s.content("old")
			if _, err := s.e.Redo("a", MoveOptions{}); err == nil {
				t.Error("a's redo takes what b wrote")
			}
			if got := s.content("old"); got != wrote {
				t.Errorf("after the refusal: %q, was %q", got, wrote)
			}
			s.release(h)
			if n := len(s.filesOf(next)); n != 2 {
				t.Errorf("the task changed %d files, with what was written", n)
			}
			s.reopen()
			_, err = s.e.Undo("b", MoveOptions{})
			s.must(err)
			if got := s.content("old"); got != left {
				t.Errorf("b's undo: %q, want what a's undo left: %q", got, left)
			}
			_, err = s.e.Redo("b", MoveOptions{})
			s.must(err)
			if got := s.content("old"); got != wrote {
				t.Errorf("b's redo: %q, want %q", got, wrote)
			}
			s.verify()
		})
	}
}
