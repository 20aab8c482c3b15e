package overlay

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/guard"
	"golang.org/x/sys/unix"
)

// TestKnownIsPassedThrough: a guarded agent reads a big file by the daemon until there is nothing in it that it could learn, and
// from then on as everybody does; whatever changes the file, it is seen reading it again.
func TestKnownIsPassedThrough(t *testing.T) {
	t.Parallel()
	const size = 40 << 14
	s, refused := guarded(t, guard.Allow)
	s.e.SetPassthrough(true)
	is := func(moment string, want Mode) {
		t.Helper()
		h, err := s.openFile("big", unix.O_RDONLY)
		s.must(err)
		defer s.release(h)
		if h.Mode() != want {
			t.Errorf("%s: opened in mode %d, should be %d", moment, h.Mode(), want)
		}
	}
	part := func(from, to int) {
		t.Helper()
		s.must(s.with("big", unix.O_RDONLY, func(h *Handle) error {
			n, err := s.e.Read(h, make([]byte, to-from), int64(from))
			if err == nil && n != to-from {
				err = errors.New("short")
			}
			return err
		}))
	}
	s.agent = "a"
	is("nothing is known", Direct)
	part(0, size/2)
	is("half of it is known", Direct)
	part(size/2, size)
	is("all is known", Passthrough)
	s.must(s.as("user", func() error { return s.write("big", 100, "by the user") }))
	is("the user wrote", Direct)
	if err := s.write("big", 0, "mine"); !errors.Is(err, Stale) || len(*refused) != 1 {
		t.Errorf("what is stale may be overwritten: %v", err)
	}
	part(0, size)
	is("it is read again", Passthrough)
	s.must(s.write("big", 4000, "mine"))
	is("the agent itself wrote", Passthrough)

	// Written around the mount.
	f, err := os.OpenFile(s.dir+"/big", os.O_WRONLY|os.O_APPEND, 0)
	s.must(err)
	s.must(second(f.WriteString("around")))
	s.must(f.Close())
	is("it has grown around the mount", Direct)
	part(0, size+6)
	is("that is read too", Passthrough)

	// Another one that writes while it is open, and is not seen reading.
	h, err := s.openFile("big", unix.O_RDONLY)
	s.must(err)
	if h.Mode() != Passthrough {
		t.Fatal("not passed through")
	}
	s.must(s.as("b", func() error { return s.append("big", "by b") }))
	s.must(second(unix.Pread(h.FD(), make([]byte, size+10), 0)))
	s.release(h)
	is("another one has appended", Direct)
	if err := s.rewrite("big", "mine"); !errors.Is(err, Stale) {
		t.Errorf("what another appended while it was open may be destroyed: %v", err)
	}

	// One that direct mode has now is not passed through beside it.
	part(0, size+10)
	s.must(s.as("b", func() error {
		h, err := s.openFile("big", unix.O_RDONLY)
		if err != nil || h.Mode() != Direct {
			t.Errorf("b has mode %d, %v", h.Mode(), err)
		}
		s.agent = "a"
		is("somebody has it open in direct mode", Direct)
		s.release(h)
		return nil
	}))
	is("nobody has any more", Passthrough)
	s.e.SetGuard(false)
	s.agent = "c"
	is("the guard is off", Passthrough)
	s.e.SetGuard(true)
	is("it is on again: what was read meanwhile is not known", Direct)
	s.agent = "d"
	s.must(s.create("own", strings.Repeat("x", 1<<20), 0o644))
	h, err = s.openFile("own", unix.O_RDONLY)
	s.must(err)
	if h.Mode() != Passthrough {
		t.Error("an agent's own file is not passed through")
	}
	s.release(h)
}

// TestKnownCountsForProcess: what a process has open of a file that its agent knows, it has seen as it was then: when another
// changes the file, and another process of the agent reads it again, the first one is still refused.
func TestKnownCountsForProcess(t *testing.T) {
	t.Parallel()
	s, _ := guarded(t, guard.Allow)
	s.e.SetPassthrough(true)
	id, err := s.walk("big")
	s.must(err)
	size := int(s.stat("big").Size)
	open := func(pid int, flags uint32) (Caller, *Handle, error) {
		c := s.caller()
		c.Agent, c.Proc = "a", guard.Process{PID: pid, Start: 1}
		h, err := s.e.Open(c, id, flags, false, nil)
		return c, h, err
	}
	readAll := func(pid int) {
		t.Helper()
		_, h, err := open(pid, unix.O_RDONLY)
		s.must(err)
		s.must(second(s.e.Read(h, make([]byte, size), 0)))
		s.e.Release(h)
	}
	readAll(1)
	_, h, err := open(2, unix.O_RDONLY)
	s.must(err)
	if h.Mode() != Passthrough {
		t.Fatal("not passed through")
	}
	s.e.Release(h)
	s.must(s.as("user", func() error { return s.write("big", 0, "THE USER'S") }))
	readAll(1)
	write := func(pid int) error {
		c, h, err := open(pid, unix.O_WRONLY)
		s.must(err)
		defer s.e.Release(h)
		_, err = s.e.Write(c, h, []byte("mine"), 0, false, false)
		return err
	}
	if err := write(2); !errors.Is(err, Stale) {
		t.Errorf("the second process has seen the older file only, and may write: %v", err)
	}
	s.must(write(1))
}
