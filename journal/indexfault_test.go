package journal

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// indexFaults fails the writes to the index from number from on, count of them.
type indexFaults struct{ calls, from, count atomic.Int64 }

func (f *indexFaults) MaybeError(o errorfs.Op) error {
	if o.Kind.ReadOrWrite() != errorfs.OpIsWrite || o.Kind == errorfs.OpFileClose {
		return nil
	}
	if n := f.calls.Add(1) - 1; n >= f.from.Load() && n < f.from.Load()+f.count.Load() {
		return errorfs.ErrInjected
	}
	return nil
}

func (f *indexFaults) String() string { return "writes to the index" }

// TestIndexFaults fails the Nth write to the index during two checkpoints, once or for good: commits go on, nothing is lost, no segment
// goes too early, and the next Open finds everything.
func TestIndexFaults(t *testing.T) {
	for _, count := range []int64{1, 1 << 40} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			for n := int64(0); ; n++ {
				if !indexFaultOnce(t, n, count) {
					t.Logf("%d calls", n)
					return
				}
			}
		})
	}
}

func indexFaultOnce(t *testing.T, n, count int64) (reached bool) {
	f := &indexFaults{}
	o := testOptions(t)
	o.Logger = nil
	mem := vfs.NewMem()
	o.SegmentBytes, o.indexFS = 1500, errorfs.Wrap(mem, f)
	dir := filepath.Join(t.TempDir(), "j")
	j := mustOpen(t, dir, o)
	f.calls.Store(0)
	f.from.Store(n)
	f.count.Store(count)
	want := map[string]string{}
	for round := range 3 {
		for i := range 3 {
			k, v := fmt.Sprint("big", i), big(fmt.Sprint(round), 600)
			commit(t, j, k, v, fmt.Sprint("small", i), fmt.Sprint(round))
			want[k], want[fmt.Sprint("small", i)] = v, fmt.Sprint(round)
		}
		err := j.Checkpoint()
		if st := j.Stats(); (err == nil) != (st.CheckpointErr == nil) || (err != nil && !errors.Is(err, ErrIO)) {
			t.Fatalf("call %d: checkpoint: %v, stats: %+v", n, err, st)
		}
		wantContents(t, j, want)
	}
	reached = f.calls.Load() > n
	if n%2 == 0 {
		_ = j.Close()
	} else {
		abandon(t, j)
	}
	o = testOptions(t)
	o.Logger, o.indexFS = nil, mem
	j = mustOpen(t, dir, o)
	defer mustClose(t, j)
	if p := j.Problems(); len(p) > 0 {
		t.Fatalf("call %d: %v", n, p)
	}
	wantContents(t, j, want)
	wantSound(t, j)
	return reached
}
