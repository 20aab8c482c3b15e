package overlay

import (
	"strings"
	"testing"
	"time"

	"github.com/ttfs/ttfs/tasktree"
)

// until waits for something that another goroutine does.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s does not come to pass", what)
		}
	}
}

// moveWaits says whether a move waits for its agent.
func (s *stand) moveWaits() bool {
	s.e.gate.changing.Lock()
	defer s.e.gate.changing.Unlock()
	return len(s.e.gate.queue) > 0
}

// TestRevertKeepsTheCopies: what the agent writes while the revert of its active task waits for its turn is kept as copies,
// which are the task's. They stay its own.
func TestRevertKeepsTheCopies(t *testing.T) {
	s := newStand(t, 1)
	big := strings.Repeat("0123456789abcdef", 64<<10)
	s.must(s.create("f", "first", 0o644))
	s.must(s.create("big", big, 0o644))
	s.begin("two")
	two := s.e.Active("a")
	s.must(s.rewrite("f", "second"))
	release, _ := s.e.holdPast("a")
	done := make(chan error)
	go func() {
		_, err := s.e.Revert("a", two, MoveOptions{})
		done <- err
	}()
	until(t, "the revert", s.moveWaits)
	s.must(s.rewrite("big", "small")) // all of it is kept as a copy
	release()
	s.must(<-done)
	if got := s.content("big"); got != big {
		t.Errorf("after the revert big has %d bytes", len(got))
	}
	s.undo()
	if got := s.content("big"); got != "small" {
		t.Errorf("without the revert big has %d bytes", len(got))
	}
	s.verify()
	s.undo()
	if got := s.content("big"); got != big {
		t.Errorf("without the task big has %d bytes", len(got))
	}
	s.verify()
}

// TestRevertOfWhatIsTakenBack: a task that is taken back while its revert waits holds what was after it, and a revert of that
// would do it again.
func TestRevertOfWhatIsTakenBack(t *testing.T) {
	s := newStand(t, 1)
	s.must(s.create("f", strings.Repeat("first", 2000), 0o644))
	s.begin("two")
	two := s.e.Active("a")
	s.must(s.rewrite("f", "second"))
	s.e.blobMu.Lock() // the revert archives first, and reads history meanwhile
	reverted, undone := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := s.e.Revert("a", two, MoveOptions{})
		reverted <- err
	}()
	until(t, "the revert", func() bool {
		if s.e.past.TryLock() {
			s.e.past.Unlock()
			return false
		}
		return true
	})
	go func() {
		_, err := s.e.Undo("a", MoveOptions{})
		undone <- err
	}()
	until(t, "the undo", func() bool { return s.moveWaits() || len(undone) > 0 })
	s.e.blobMu.Unlock()
	s.must(<-undone)
	s.must(<-reverted, Invalid)
	if got := s.content("f"); got == "second" {
		t.Error("the revert did the task again")
	}
	if s.e.Active("a") == two || s.e.StatusOf(two) != tasktree.Undone {
		t.Error("the task is not undone")
	}
}

// TestNothingIsTriedByTasks: neither a revert nor a restore can be tried without making a task.
func TestNothingIsTriedByTasks(t *testing.T) {
	s, two := three(t)
	before, at := s.snapshot(true), s.e.Active("a")
	_, err := s.e.Revert("a", two, MoveOptions{DryRun: true})
	s.must(err, Invalid)
	_, err = s.e.Restore("a", two, []string{"f"}, MoveOptions{DryRun: true})
	s.must(err, Invalid)
	s.check("tried", before)
	if s.e.Active("a") != at {
		t.Error("a task was made")
	}
}

// inHoldNow counts what is in hold by the first letter of its name.
func (s *stand) inHoldNow(letter byte) (n int) {
	names, err := s.e.listHold()
	s.must(err)
	for _, name := range names {
		if name[0] == letter {
			n++
		}
	}
	return n
}

// TestRefusedRestoreLeavesNothing: the copies that were made for one path go when another is refused.
func TestRefusedRestoreLeavesNothing(t *testing.T) {
	s := newStand(t, 1)
	s.must(s.create("big", strings.Repeat("0123456789abcdef", 64<<10), 0o644))
	s.begin("two")
	s.must(s.rewrite("big", "small"))
	copies := s.inHoldNow('c')
	_, err := s.e.Restore("a", 1, []string{"big", "not/there"}, MoveOptions{})
	s.must(err, NoPath)
	if now := s.inHoldNow('c'); now != copies {
		t.Errorf("%d copies in hold, there were %d", now, copies)
	}
}

// TestTitleIsOneLine: a name may hold a newline, the title of a task not.
func TestTitleIsOneLine(t *testing.T) {
	s := newStand(t, 1)
	s.must(s.create("a\n→ 7 b\x01", "first", 0o644))
	s.begin("two")
	s.must(s.rewrite("a\n→ 7 b\x01", "second"))
	res, err := s.e.Restore("a", 1, []string{"a\n→ 7 b\x01"}, MoveOptions{})
	s.must(err)
	if k, _ := s.e.Task(res.To); strings.IndexFunc(k.Title, func(r rune) bool { return r < ' ' }) >= 0 {
		t.Errorf("the title is %q", k.Title)
	}
}
