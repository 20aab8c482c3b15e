package cas

import (
	"errors"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// faultRun puts, syncs, collects and closes on a disk whose Nth change fails,
// alone or with all that follow, and returns what Sync has promised to be
// there, and whether the Nth change was met.
func faultRun(t *testing.T, disk *vfs.MemFS, nth int64, fails func(left int64) bool) (promised map[Ref][]byte, met bool) {
	t.Helper()
	var left atomic.Int64
	left.Store(nth)
	inject := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && fails(left.Add(-1)) {
			return syscall.EIO
		}
		return nil
	})
	promised = map[Ref][]byte{}
	fine := func(err error) bool {
		if err == nil {
			return true
		}
		if !errors.Is(err, ErrIO) && !errors.Is(err, ErrLocked) && !errors.Is(err, ErrClosed) {
			t.Errorf("change %d fails: %v", nth, err)
		}
		return false
	}
	s, err := Open("s", Options{fs: errorfs.Wrap(disk, inject), freeBytes: freeAlways(plenty)})
	if !fine(err) {
		return promised, true
	}
	put := map[Ref][]byte{}
	for i := range 6 {
		b := random(uint64(i), 2000+i*20_000)
		ref, err := s.Put(b)
		if !fine(err) {
			break
		}
		put[ref] = b
		if !fine(s.Sync()) {
			break
		}
		for ref, b := range put {
			promised[ref] = b
		}
		if i == 3 {
			gone := SumBytes(random(0, 2000))
			delete(put, gone)
			delete(promised, gone)
			_, _, err := s.Collect(t.Context(), func(ref Ref) bool { _, ok := put[ref]; return ok })
			if !fine(err) {
				break
			}
		}
	}
	fine(s.Close())
	return promised, left.Load() < 0
}

// Whichever change of the disk fails, nothing that was promised is lost and
// nothing is ever wrong.
func TestEveryFault(t *testing.T) {
	for name, tc := range map[string]struct {
		step  int64
		fails func(left int64) bool
	}{
		"once":         {1, func(left int64) bool { return left == -1 }},
		"from then on": {4, func(left int64) bool { return left < 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			nth := int64(0)
			for faultAt(t, nth, tc.fails) {
				nth += tc.step
			}
			if nth < 20 {
				t.Errorf("only %d changes", nth)
			}
			t.Logf("%d points failed", nth/tc.step)
		})
	}
}

// faultAt says whether there is an Nth change.
func faultAt(t *testing.T, nth int64, fails func(left int64) bool) bool {
	t.Helper()
	disk := vfs.NewCrashableMem()
	promised, met := faultRun(t, disk, nth, fails)
	s, err := Open("s", Options{fs: disk.CrashClone(vfs.CrashCloneCfg{}), freeBytes: freeAlways(plenty)})
	if err != nil {
		t.Fatalf("change %d has failed: %v", nth, err)
	}
	for ref, b := range promised {
		wantGet(t, s, ref, b)
	}
	if _, err := s.Verify(t.Context(), func(p Problem) { t.Errorf("change %d has failed: %v", nth, p.Err) }); err != nil {
		t.Error(err)
	}
	// A Collect and a compaction meet what reading does not.
	if _, _, err := s.Collect(t.Context(), func(ref Ref) bool { _, ok := promised[ref]; return ok }); err != nil {
		t.Error(err)
	}
	if err := s.db.Compact(t.Context(), []byte{0}, []byte{255}, false); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if !met && len(promised) != 5 {
		t.Errorf("%d promised", len(promised))
	}
	return met
}
