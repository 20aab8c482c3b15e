package cas

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

func TestFloor(t *testing.T) {
	o, _ := memory()
	var free atomic.Int64
	free.Store(plenty)
	o.freeBytes = func(string) (int64, error) { return free.Load(), nil }
	o.FloorBytes = 4000
	s := open(t, "s", o)
	kept := mustPut(t, s, []byte("kept"))
	all := func(Ref) bool { return true }

	free.Store(4100)
	mustPut(t, s, []byte("still fits"))
	_, err := s.Put(random(1, 200))
	wantKind(t, err, ErrNoSpace)
	_, _, err = s.PutReader(bytes.NewReader(random(2, 2*ChunkBytes)))
	wantKind(t, err, ErrNoSpace)
	if ref := mustPut(t, s, []byte("kept")); ref != kept { // nothing to write
		t.Error(ref)
	}

	free.Store(2000) // half
	_, err = s.Put([]byte("new"))
	wantKind(t, err, ErrNoSpace)
	if err := s.Sync(); err != nil {
		t.Error(err)
	}
	free.Store(1999)
	wantKind(t, s.Sync(), ErrNoSpace)
	if _, _, err := s.Collect(t.Context(), all); err != nil {
		t.Error(err)
	}
	if n, _, err := s.Collect(t.Context(), func(ref Ref) bool { return ref == kept }); err != nil || n != 1 {
		t.Error(n, err)
	}
	free.Store(999) // below a quarter
	_, _, err = s.Collect(t.Context(), func(Ref) bool { return false })
	wantKind(t, err, ErrNoSpace)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, "s", o) // a full store is opened, to be read and emptied
	wantGet(t, s, kept, []byte("kept"))
	_, err = s.Put([]byte("new"))
	wantKind(t, err, ErrNoSpace)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	free.Store(plenty)
	s = open(t, "s", o)
	wantGet(t, s, kept, []byte("kept"))
	mustPut(t, s, random(1, 200))
}

func TestFloorOff(t *testing.T) {
	o, _ := memory()
	o.FloorBytes = -1
	o.freeBytes = func(string) (int64, error) { return 0, errors.New("asked") }
	s := open(t, "s", o)
	mustPut(t, s, []byte("x"))
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
}

func TestFreeSpaceUnknown(t *testing.T) {
	o, _ := memory()
	s := open(t, "s", o)
	cause := errors.New("statfs failed")
	s.freeBytes = func(string) (int64, error) { return 0, cause }
	_, err := s.Put([]byte("x"))
	if wantKind(t, err, ErrIO); !errors.Is(err, cause) {
		t.Error(err)
	}
}

func TestStatfs(t *testing.T) {
	if free, err := statfsFree(t.TempDir()); err != nil || free <= 0 {
		t.Errorf("%d, %v", free, err)
	}
	if _, err := statfsFree(t.TempDir() + "/missing"); !errors.Is(err, syscall.ENOENT) {
		t.Error(err)
	}
}

// failingWAL is a disk in memory whose WAL is full once on is set.
func failingWAL() (o Options, clone func() Options, on *atomic.Bool) {
	disk := vfs.NewCrashableMem()
	on = new(atomic.Bool)
	inject := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if on.Load() && strings.HasSuffix(op.Path, ".log") && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return syscall.ENOSPC
		}
		return nil
	})
	o = Options{fs: errorfs.Wrap(disk, inject), freeBytes: freeAlways(plenty)}
	return o, func() Options {
		return Options{fs: disk.CrashClone(vfs.CrashCloneCfg{}), freeBytes: freeAlways(plenty)}
	}, on
}

// pebble reports success after it has failed: we must not.
func TestFatalSticks(t *testing.T) {
	o, clone, full := failingWAL()
	s, err := Open("s", o)
	if err != nil {
		t.Fatal(err)
	}
	kept := mustPut(t, s, []byte("kept"))
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	full.Store(true)
	if _, err := s.Put([]byte("lost")); err != nil {
		wantKind(t, err, ErrIO) // allowed: the WAL may have been written by now
	}
	wantKind(t, s.Sync(), ErrIO)
	full.Store(false)

	for name, call := range map[string]func() error{
		"put":     func() error { _, err := s.Put([]byte("x")); return err },
		"reader":  func() error { _, _, err := s.PutReader(zeros{}); return err },
		"get":     func() error { _, err := s.Get(kept); return err },
		"has":     func() error { _, err := s.Has(kept); return err },
		"sync":    s.Sync,
		"collect": func() error { _, _, err := s.Collect(t.Context(), func(Ref) bool { return false }); return err },
		"verify":  func() error { _, err := s.Verify(t.Context(), func(Problem) {}); return err },
	} {
		t.Run(name, func(t *testing.T) { wantKind(t, call(), ErrIO) })
	}
	wantKind(t, s.Close(), ErrIO)

	s = open(t, "s", clone())
	wantGet(t, s, kept, []byte("kept"))
	if ok, err := s.Has(SumBytes([]byte("lost"))); ok || err != nil {
		t.Errorf("lost: %v, %v", ok, err)
	}
}

// What Sync has reported is there after a crash, with many at work when the
// disk fills up.
func TestFatalWhileBusy(t *testing.T) {
	o, clone, full := failingWAL()
	s, err := Open("s", o)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	durable := map[Ref][]byte{}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				if w == 0 && i == 20 {
					full.Store(true)
				}
				b := random(uint64(w<<16|i), 3000)
				ref, err := s.Put(b)
				if err == nil {
					err = s.Sync()
				}
				if err != nil {
					if !errors.Is(err, ErrIO) {
						t.Error(err)
					}
					return
				}
				mu.Lock()
				durable[ref] = b
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	wantKind(t, s.Close(), ErrIO)
	s = open(t, "s", clone())
	if len(durable) < 20 {
		t.Errorf("only %d puts", len(durable))
	}
	for ref, b := range durable {
		wantGet(t, s, ref, b)
	}
}
