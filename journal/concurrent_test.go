package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"
)

// TestConcurrent: writers, readers, scanners, checkpoints, Verify and Sync at once, on tiny segments and memtables. Each batch of writer w sets two keys,
// small and big, to the same number: no scan may see them differ, no reader may see a number go back, nothing may be lost.
func TestConcurrent(t *testing.T) {
	for _, sync := range []bool{false, true} {
		t.Run(fmt.Sprint("sync=", sync), func(t *testing.T) {
			o := testOptions(t)
			o.SegmentBytes, o.MemBytes, o.SyncEvery = 20000, 4000, sync
			dir := t.TempDir()
			hammer(t, mustOpen(t, dir, o))
			j := mustOpen(t, dir, o)
			got := contents(t, j, "")
			if len(got) != 2*hammerWriters {
				t.Fatal(brief(got))
			}
			for k, v := range got {
				if binary.BigEndian.Uint64([]byte(v)) != hammerRounds {
					t.Fatalf("%s is not the last value", k)
				}
			}
			wantSound(t, j)
			if n := j.Stats().Segments; n > 5 {
				t.Errorf("%d segments are kept, though all their values but the last were replaced", n)
			}
		})
	}
}

const hammerWriters, hammerRounds = 3, 150

func hammer(t *testing.T, j *Journal) {
	ctx, stop := context.WithCancel(t.Context())
	var writers, others sync.WaitGroup
	for w := range hammerWriters {
		writers.Go(func() {
			var b Batch
			for i := uint64(1); i <= hammerRounds; i++ {
				b.Reset()
				small := binary.BigEndian.AppendUint64(nil, i)
				b.DeletePrefix(fmt.Appendf(nil, "%d/", w))
				b.Put(fmt.Appendf(nil, "%d/big", w), append(small, make([]byte, 600)...))
				b.Put(fmt.Appendf(nil, "%d/small", w), small)
				if err := j.Commit(&b); err != nil {
					t.Error(err)
				}
			}
		})
	}
	repeat := func(fn func() error) {
		others.Go(func() {
			for ctx.Err() == nil {
				if err := fn(); err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
					return
				}
			}
		})
	}
	repeat(readRising(j))
	repeat(func() error { return scanPairs(j) })
	repeat(j.Checkpoint)
	repeat(j.Sync)
	repeat(func() error {
		_, err := j.Verify(ctx, func(p Problem) { t.Error(p) })
		return err
	})
	writers.Wait()
	stop()
	others.Wait()
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}

func readRising(j *Journal) func() error {
	var last [hammerWriters]uint64
	return func() error {
		for w := range last {
			v, ok, err := j.Get(fmt.Appendf(nil, "%d/big", w))
			if err != nil || !ok && last[w] > 0 {
				return fmt.Errorf("get: %v, %w", ok, err)
			}
			if !ok {
				continue
			}
			n := binary.BigEndian.Uint64(v)
			if n < last[w] {
				return fmt.Errorf("writer %d went back from %d to %d", w, last[w], n)
			}
			last[w] = n
		}
		return nil
	}
}

func scanPairs(j *Journal) error {
	var prev []byte
	return j.Scan(nil, func(k, v []byte) error {
		if bytes.HasSuffix(k, []byte("big")) {
			prev = bytes.Clone(v[:8])
			return nil
		}
		if !bytes.Equal(prev, v) {
			return fmt.Errorf("torn batch at %s: %x and %x", k, prev, v)
		}
		_, _, err := j.Get(k)
		return err
	})
}

// TestBackground: the memtable goes to the index by itself, and commits wait for that only when it is far behind.
func TestBackground(t *testing.T) {
	o := testOptions(t)
	o.MemBytes = 2000
	j := mustOpen(t, t.TempDir(), o)
	for i := range 300 {
		commit(t, j, fmt.Sprint("key", i), big("v", 100))
		if n := j.memBytes(); n > 5*o.MemBytes {
			t.Fatalf("the memtable has %d bytes", n)
		}
	}
	if st := j.Stats(); st.CheckpointLSN == 0 || st.CheckpointErr != nil {
		t.Fatalf("%+v", st)
	}
	if got := contents(t, j, ""); len(got) != 300 {
		t.Fatal(len(got))
	}
}

// TestCloseWhileUsed: calls that come too late get ErrClosed, and none of them breaks.
func TestCloseWhileUsed(t *testing.T) {
	j := mustOpen(t, t.TempDir(), testOptions(t))
	commit(t, j, "a", big("v", 600))
	var users sync.WaitGroup
	for i := range 4 {
		users.Go(func() {
			for {
				var err error
				if i%2 == 0 {
					_, _, err = j.Get([]byte("a"))
				} else {
					err = j.Commit(batchOf("b", "1"))
				}
				if errors.Is(err, ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	mustClose(t, j)
	users.Wait()
	if err := j.Close(); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	if err := j.Checkpoint(); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}
