package overlay

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestRewritesOfTwo: two agents rewrite one file, without a guard. One after the other, the second can go back, and then the
// first. In each other's midst, each changed the file after the other did, so that neither can go back without the other's
// bytes: both are refused, until one skips the file or forces it; whoever forces can take that back.
func TestRewritesOfTwo(t *testing.T) {
	t.Parallel()
	const rewrite = unix.O_WRONLY | unix.O_TRUNC
	for _, pass := range []bool{false, true} {
		fresh := func() *stand {
			s := passed(t, false)
			s.e.SetPassthrough(pass)
			return s
		}
		// In turn; the close of the first comes late.
		s := fresh()
		start := s.snapshot(true)
		a := s.openAs("a", "old", rewrite)
		s.put(a, 0, "a's")
		first := s.content("old")
		b := s.openAs("b", "old", rewrite)
		s.release(a)
		s.put(b, 0, "b's and more")
		s.release(b)
		if !s.bars("a", "b") {
			t.Errorf("pass %v: a's undo takes b's rewrite", pass)
		}
		if s.bars("b", "a") {
			t.Errorf("pass %v: b cannot go back over what a did before", pass)
		}
		if got := s.content("old"); got != first {
			t.Errorf("pass %v: %q after b's undo, was %q", pass, got, first)
		}
		if s.bars("a", "b") {
			t.Errorf("pass %v: a cannot go back after b", pass)
		}
		s.check("both undone", start)

		// In each other's midst.
		for _, way := range []string{"skip", "force"} {
			s = fresh()
			a, b = s.openAs("a", "old", rewrite), s.openAs("b", "old", rewrite)
			s.put(a, 0, "aaaaaaaa")
			s.put(b, 0, "bbbb")
			s.release(a)
			s.release(b)
			mixed := s.snapshot(true)
			if !s.bars("a", "b") || !s.bars("b", "a") {
				t.Fatalf("pass %v: each has changed the file after the other", pass)
			}
			_, err := s.e.Undo("a", MoveOptions{Skip: way == "skip", Force: way == "force"})
			s.must(err)
			switch way {
			case "skip": // a has done with the file: it is b's, whose undo gives what it found, an emptied file
				s.check("a skips", mixed)
				if s.bars("b", "a") {
					t.Errorf("pass %v: a, which left the file to b, bars b", pass)
				}
				if got := s.content("old"); got != "" {
					t.Errorf("pass %v: b found %q", pass, got)
				}
				_, err = s.e.Redo("b", MoveOptions{})
				s.must(err)
			case "force":
				if got := s.content("old"); got != "what was here before" {
					t.Errorf("pass %v: a's force gives %q", pass, got)
				}
				_, err = s.e.Undo("a", MoveOptions{})
				s.must(err)
			}
			s.check("after all", mixed)
			s.verify()
		}
	}
}
