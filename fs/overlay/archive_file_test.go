package overlay

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/ttfs/ttfs/cas"
	"golang.org/x/sys/unix"
)

// overwritten makes a file of data and holes in one task, and has the next one empty it; the whole is kept in a copy then.
func overwritten(s *stand, path string, size int64, data []byte) {
	s.must(s.create(path, "", 0o644))
	s.must(s.with(path, unix.O_RDWR, func(h *Handle) error {
		for off := int64(0); off < int64(len(data)); off += 1 << 20 {
			if err := s.writeAt(h, off, string(data[off:min(off+1<<20, int64(len(data)))])); err != nil {
				return err
			}
		}
		return nil
	}))
	s.must(s.truncate(path, size))
	s.begin("empty")
	s.must(s.rewrite(path, ""))
	s.begin("after")
}

// TestArchiveMemory: what the archiver has in memory does not depend on how much it archives: 64 MiB of data, 256 MiB of
// holes, or 64 MiB in 16,000 records; in a long run 300 MiB, 4 GiB and 300 MiB.
func TestArchiveMemory(t *testing.T) {
	data, sparse, bound := 64<<20, int64(256<<20), int64(56<<20)
	if os.Getenv("TTFS_NIGHTLY") != "" {
		data, sparse = 300<<20, 4<<30
	}
	for name, make := range map[string]func(s *stand){
		"a copy":        func(s *stand) { overwritten(s, "f", int64(data), noise(data)) },
		"a sparse copy": func(s *stand) { overwritten(s, "f", sparse, noise(1<<20)) },
		"records": func(s *stand) {
			s.must(s.create("f", string(noise(data)), 0o644))
			s.begin("overwrite")
			s.must(s.with("f", unix.O_RDWR, func(h *Handle) error {
				blocks := int64(data / 4096)
				for i := range blocks { // not one after the other: that would be kept in copies
					if err := s.writeAt(h, i*4057%blocks*4096, "x"); err != nil {
						return err
					}
				}
				return nil
			}))
			s.begin("after")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t, 1)
			make(s)
			heap := func() int64 {
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				return int64(m.HeapAlloc)
			}
			before, most := heap(), int64(0)
			chunks, batches := 0, 0
			var one sync.Mutex // moves come to points at once
			archived := false
			s.e.opt.point = func(string) error { // some of it is in memory
				one.Lock()
				defer one.Unlock()
				if batches++; !archived && batches%16 == 1 {
					most = max(most, heap()-before)
				}
				return nil
			}
			p, _ := clocked(s.e.count.records.Load, func(time.Duration) bool {
				if chunks++; chunks%16 == 1 {
					most = max(most, heap()-before)
				}
				return true
			})
			s.must(s.e.archive(p))
			one.Lock()
			archived = true
			one.Unlock()
			t.Logf("%d chunks, %.1f MiB at most", chunks, float64(most)/(1<<20))
			if most > bound || chunks < 8 {
				t.Errorf("%d bytes in memory, in %d looks; at most %d are allowed", most, chunks, bound)
			}
			s.undo()
			s.undo()
			s.verify()
		})
	}
}

// TestArchiveHoldsNobody: while bytes are being packed, their agent begins tasks, moves, and takes back the very task; what has
// changed meanwhile is not swapped, and is archived later.
func TestArchiveHoldsNobody(t *testing.T) {
	t.Parallel()
	s := newStand(t, 1)
	data := noise(3 << 20)
	overwritten(s, "f", int64(len(data)), data)
	pauses := 0
	p, _ := clocked(s.e.count.records.Load, func(d time.Duration) bool {
		if d != archiveLook {
			if pauses++; pauses == 1 {
				s.begin("meanwhile")
				s.must(s.create("g", "by the agent", 0o644))
				for range 3 {
					s.undo()
				}
				if got := s.content("f"); got != string(data) {
					t.Errorf("%d bytes after the undo", len(got))
				}
				release := s.e.exclusive() // nobody is held up who needs all
				release()
			}
		}
		return true
	})
	archived := s.e.count.archived.Load()
	s.must(s.e.archive(p))
	if pauses < 3 {
		t.Errorf("%d pauses: it was not in the midst of the file", pauses)
	}
	s.verify()
	s.redo()
	s.redo()
	s.must(s.e.Archive())
	if s.e.count.archived.Load() == archived {
		t.Error("it is not archived later")
	}
	s.undo()
	s.undo()
	if got := s.content("f"); got != string(data) {
		t.Errorf("%d bytes after all", len(got))
	}
	s.verify()
}

// TestArchiveRoom: it leaves free on the disk what the daemon needs not to give anything up, counts of a file what it takes
// there and not its holes, and comes back when there is room.
func TestArchiveRoom(t *testing.T) {
	t.Parallel()
	s := newStand(t, 1)
	overwritten(s, "f", 64<<20, noise(2<<20))
	const floor = 100 << 20
	free := int64(2*floor + 2<<20 - 1)
	s.e.arch.room = func() (int64, int64) { return free, floor }
	written := s.blobs.Stats().WrittenBytes
	s.must(s.e.Archive())
	if s.e.count.archived.Load() != 0 || s.blobs.Stats().WrittenBytes != written {
		t.Error("it is archived although it would leave less than twice the floor")
	}
	free += 64 << 10 // for the blocks of the filesystem
	s.must(s.e.Archive())
	if s.e.count.archived.Load() == 0 {
		t.Error("it is not archived when there is room")
	}
	s.undo()
	s.verify()
}

// fails is a packer that fails.
type fails struct{ asked *int }

func (f fails) Pack([]byte) (cas.Ref, []byte, error) {
	*f.asked++
	return cas.Ref{}, nil, io.ErrUnexpectedEOF
}

// TestArchivePacker: a round has who packs started once, when there is something to pack, and ended; one that fails loses
// nothing and is replaced, and without one the engine packs itself.
func TestArchivePacker(t *testing.T) {
	t.Parallel()
	s := newStand(t, 1)
	started, ended, asked := 0, 0, 0
	var by cas.Packer
	var cannot error
	s.set = func(o *Options) {
		o.Packer = func(context.Context) (cas.Packer, func(), error) {
			started++
			return by, func() { ended++ }, cannot
		}
	}
	s.reopen()
	round := func() (err error) {
		p := s.e.newPace()
		defer func() { p.end() }()
		p.wait = func(time.Duration) bool { return true }
		return s.e.archive(p)
	}
	s.must(round())
	if started != 0 {
		t.Error("it was started for nothing")
	}
	data := string(noise(3 << 20))
	overwritten(s, "f", int64(len(data)), []byte(data))
	by = fails{&asked}
	if err := round(); !errors.Is(err, io.ErrUnexpectedEOF) || asked != 1 || started != 1 || ended != 1 || s.e.count.archived.Load() != 0 {
		t.Errorf("%v; asked %d times, %d started, %d ended, %d archived", err, asked, started, ended, s.e.count.archived.Load())
	}
	cannot = errors.New("no process can be made")
	s.must(round())
	if s.e.count.archived.Load() != 1 || started != 2 || ended != 1 {
		t.Errorf("%d started, %d ended, %d archived", started, ended, s.e.count.archived.Load())
	}
	// One that works.
	other := data[1:] + "x"
	cannot = nil
	theirs, in := io.Pipe()
	out, ours := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- cas.ServePacks(theirs, ours) }()
	by = cas.NewPacker(in, out)
	overwritten(s, "g", int64(len(data)), []byte(other))
	s.must(round())
	s.must(in.Close())
	s.must(<-done)
	if s.e.count.archived.Load() != 2 || started != 3 || ended != 2 {
		t.Errorf("%d started, %d ended, %d archived", started, ended, s.e.count.archived.Load())
	}
	s.undo()
	s.undo()
	if got := s.content("g"); got != other {
		t.Errorf("%d bytes", len(got))
	}
	s.verify()
}
