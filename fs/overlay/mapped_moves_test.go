package overlay

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestUnmappedBetweenMoves: a file that was mapped over a move and is not any more at the next: that one must not be taken for
// something that was written, else a task begins by itself that brings old bytes with it.
func TestUnmappedBetweenMoves(t *testing.T) {
	t.Parallel()
	s := newStand(t, 1)
	start(s)
	s.e.SetPassthrough(true)
	s.begin("create")
	s.must(s.create("mapped", "0123456789", 0o644))
	h, err := s.openFile("mapped", unix.O_RDWR)
	s.must(err)
	m, err := unix.Mmap(h.FD(), 0, 10, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	s.must(err)
	s.release(h)
	one := s.snapshot(true)
	s.begin("write")
	m[3] = 'x'
	s.must(unix.Msync(m, unix.MS_SYNC))
	two := s.snapshot(true)
	at := s.e.Active(s.agent)
	s.undo()
	s.check("undo while it is mapped", one)
	s.must(unix.Munmap(m))
	s.redo()
	s.check("redo when it is not", two)
	if got := s.e.Active(s.agent); got != at {
		t.Errorf("task %d is active after redo, want %d", got, at)
	}
	s.undo()
	s.check("undo", one)
	if n := len(s.e.writers.of(s.agent)); n > 0 {
		t.Errorf("%d writers stay", n)
	}
}
