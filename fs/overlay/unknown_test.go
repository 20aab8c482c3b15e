package overlay

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNotLookedAtIsNotGone moves where the daemon may not look into a directory: the move is refused, and what is kept
// stays. Want of descriptors looks the same.
func TestNotLookedAtIsNotGone(t *testing.T) {
	t.Parallel()
	s := newStand(t, 1)
	start(s)
	s.must(s.mkdir("closed", 0o755))
	s.must(s.mkdir("closed/in", 0o755))
	s.must(s.create("closed/in/file", "before", 0o644))
	s.must(s.create("closed/in/other", "before", 0o644))
	before := s.snapshot(true)
	s.begin("change")
	s.must(s.write("closed/in/file", 0, "changed"))
	s.must(s.chmod("closed/in/other", 0o600))
	s.must(s.create("closed/in/new", "new", 0o644))
	s.must(s.chmod("closed", 0))
	after := s.snapshot(true)
	// What the test's own user may always do, somebody else may not.
	runtime.LockOSThread()
	_, err := unix.SetfsuidRetUid(65534)
	s.must(err)
	_, refused := s.e.Undo("a", MoveOptions{})
	_, err = unix.SetfsuidRetUid(os.Geteuid())
	runtime.UnlockOSThread()
	s.must(err)
	if refused == nil {
		t.Error("the move is made though it cannot be looked into the directory")
	}
	s.check("refused", after)
	s.undo()
	s.check("undo", before)
	s.redo()
	s.check("redo", after)
	s.verify()
}
