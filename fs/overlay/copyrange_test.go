package overlay

import (
	"testing"
	"time"

	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// TestCopyRangeWaitsForTheSource: copy_file_range(2) reads a file, and waits for a move that changes it as read(2) does.
func TestCopyRangeWaitsForTheSource(t *testing.T) {
	s := newStand(t, 1)
	s.must(s.create("from", "half", 0o644))
	s.must(s.create("to", "", 0o644))
	from, err := s.openFile("from", unix.O_RDONLY)
	s.must(err)
	to, err := s.openFile("to", unix.O_RDWR)
	s.must(err)
	c := newClaim("mover")
	c.nodes = map[inoKey]struct{}{from.n.key: {}}
	if s.e.gate.add(c) != nil {
		t.Fatal("somebody has a claim")
	}
	copied := make(chan error, 1)
	go func() {
		_, err := s.e.CopyRange(s.caller(), from, 0, to, 0, 10)
		copied <- err
	}()
	for end := time.Now().Add(100 * time.Millisecond); len(copied) == 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond) // it can only miss that nobody waits
	}
	_, err = unix.Pwrite(writable(t, s, "from"), []byte("full"), 0)
	s.must(err)
	s.e.unclaim(c)
	s.must(<-copied)
	if got := s.content("to"); got != "full" {
		t.Errorf("what was copied is %q", got)
	}
}

// writable opens a file around the engine.
func writable(t *testing.T, s *stand, path string) int {
	fd, err := unix.Open(s.dir+"/"+path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// TestShortCopy: what counts of a copy is what the source has, not what was asked for: the rest of the other file stays as it is,
// and stays what its agent has never looked at.
func TestShortCopy(t *testing.T) {
	s := newStand(t, 1)
	s.e.SetGuard(true)
	user := s.beside(tasktree.User)
	s.must(user.create("big", string(make([]byte, 1<<20)), 0o644))
	s.must(user.create("few", "0123456789", 0o644))
	from, err := s.openFile("few", unix.O_RDONLY)
	s.must(err)
	to, err := s.openFile("big", unix.O_RDWR)
	s.must(err)
	_, err = s.e.Read(to, make([]byte, 10), 0)
	s.must(err)
	n, err := s.e.CopyRange(s.caller(), from, 0, to, 0, 1<<20)
	s.must(err)
	if n != 10 {
		t.Errorf("%d bytes were copied", n)
	}
	if n, err := s.e.CopyRange(s.caller(), from, 10, to, 1<<19, 1<<10); n != 0 || err != nil {
		t.Errorf("at the end of the source: %d, %v", n, err)
	}
	s.must(s.e.Fallocate(s.caller(), to, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 1<<19, 4096), Partial)
}
