package overlay

import (
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// heardJournal writes down what is asked of a journal.
type heardJournal struct {
	Journal
	mu    sync.Mutex
	heard []string
}

// Sync is written down.
func (j *heardJournal) Sync() error {
	j.hear("sync")
	return j.Journal.Sync()
}

func (j *heardJournal) hear(what string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.heard = append(j.heard, what)
}

// take gives what was heard since the last time.
func (j *heardJournal) take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := j.heard
	j.heard = nil
	return all
}

// listening is a stand whose journal is heard, and so is every effect on the workspace.
func listening(t *testing.T) (*stand, *heardJournal) {
	s := newStand(t, 1)
	s.close()
	j := &heardJournal{}
	s.set = func(o *Options) { j.Journal = o.Journal; o.Journal = j }
	s.open()
	s.point = func(name string) error {
		if name != "record" {
			j.hear(name)
		}
		return nil
	}
	return s, j
}

// TestSyncByAnyHandle: fsync(2) makes all of a file durable, whoever wrote it, by whatever handle: `sync FILE` opens it for
// reading. So the records of what the file was must be durable before.
func TestSyncByAnyHandle(t *testing.T) {
	s, j := listening(t)
	s.must(s.create("f", "before", 0o644))
	s.begin("task")
	s.must(s.write("f", 0, "after"))
	for _, flags := range []uint32{unix.O_RDONLY, unix.O_WRONLY, unix.O_RDWR} {
		j.take()
		s.must(s.with("f", flags, func(h *Handle) error { return s.e.Sync(h, false) }))
		if heard := j.take(); !slices.Contains(heard, "sync") {
			t.Errorf("fsync by a handle opened with %#x makes the file durable and not its history", flags)
		}
	}
}

// TestSyncedOpen: a write with O_SYNC or O_DSYNC is one with an fsync at its end. What it overwrites is durable before it.
func TestSyncedOpen(t *testing.T) {
	for _, flag := range []uint32{unix.O_SYNC, unix.O_DSYNC} {
		s, j := listening(t)
		s.must(s.create("f", "before", 0o644))
		h, err := s.openFile("f", unix.O_WRONLY|flag)
		s.must(err)
		s.begin("task")
		j.take()
		s.must(s.writeAt(h, 0, "after"))
		if heard := j.take(); !slices.Equal(heard, []string{"sync", "write"}) {
			t.Errorf("%#x: a write is %v", flag, heard)
		}
		s.must(s.writeAt(h, 0, "again"))
		if heard := j.take(); !slices.Equal(heard, []string{"sync", "write"}) {
			t.Errorf("%#x: a write over what was kept before is %v", flag, heard)
		}
		s.must(s.e.Fallocate(s.caller(), h, unix.FALLOC_FL_KEEP_SIZE, 100, 10))
		s.release(h)
		s.begin("another")
		j.take()
		s.must(s.with("f", unix.O_WRONLY|unix.O_TRUNC|flag, func(*Handle) error { return nil }))
		if heard := j.take(); !slices.Equal(heard, []string{"sync", "truncate"}) {
			t.Errorf("%#x: an open that empties the file is %v", flag, heard)
		}
		s.must(s.rewrite("f", "whole"))
		j.take()
		h, err = s.createOpen("new", unix.O_RDWR|flag, 0o644)
		s.must(err)
		s.release(h)
		if heard := j.take(); !slices.Equal(heard, []string{"make", "sync"}) {
			t.Errorf("%#x: to make a file is %v", flag, heard)
		}
		s.begin("third")
		s.e.SetPassthrough(true)
		j.take()
		s.must(s.with("f", unix.O_RDWR|flag, func(h *Handle) error {
			if h.Mode() != Passthrough {
				t.Errorf("%#x: the file is not passed through", flag)
			}
			return nil
		}))
		if heard := j.take(); !slices.Equal(heard, []string{"sync"}) {
			t.Errorf("%#x: an open for passthrough is %v", flag, heard)
		}
	}
}
