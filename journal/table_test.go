package journal

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// TestTable: what is set is found, by readers without a lock, while the table grows and values change.
func TestTable(t *testing.T) {
	const keys = 5000
	tab := newTable()
	var last atomic.Int64 // all keys up to it are set, each to its own name and a round
	var readers sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		readers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				n := last.Load()
				if n == 0 {
					continue
				}
				key := fmt.Sprint("key", int64(i*7919)%n)
				if got, known := tab.get([]byte(key)); !known || len(got) == 0 && got != nil || got != nil && string(got[1:]) != key {
					t.Errorf("%s: %q, known: %v", key, got, known)
					return
				}
			}
		})
	}
	for round := range 3 {
		for i := range keys {
			key := fmt.Sprint("key", i)
			var stored []byte // deleted, in the second round
			if round != 1 {
				stored = fmt.Appendf(nil, "%d%s", round, key)
			}
			tab.set([]byte(key), stored)
			if round == 0 {
				last.Store(int64(i) + 1)
			}
		}
	}
	close(stop)
	readers.Wait()
	for i := range keys {
		key := fmt.Sprint("key", i)
		if got, known := tab.get([]byte(key)); !known || string(got) != "2"+key {
			t.Fatalf("%s: %q, known: %v", key, got, known)
		}
	}
	if _, known := tab.get([]byte("another")); known {
		t.Error("a key is known that was never set")
	}
}

// TestRecordIsSeenWhole has readers look for two keys of which each record changes both, and deletes them by their prefix now
// and then: who finds the one as a record has left it finds the other so, or later.
func TestRecordIsSeenWhole(t *testing.T) {
	j := mustOpen(t, t.TempDir(), Options{FloorBytes: -1, MemBytes: 4 << 10})
	defer j.Close()
	read := func(key string) int {
		v, found, err := j.Get([]byte(key))
		if err != nil {
			t.Error(err)
		}
		n := -1
		if found {
			_, _ = fmt.Sscan(string(v), &n)
		}
		return n
	}
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				last := read("p/z") // set last
				if first := read("p/a"); first >= 0 && last >= 0 && first < last {
					t.Errorf("%d in the one key, and then %d in the other", last, first)
					return
				}
				first := read("p/a")
				if last := read("p/z"); first >= 0 && last >= 0 && last < first {
					t.Errorf("%d in the first key of a record, and then %d in the last one", first, last)
					return
				}
			}
		})
	}
	for i := range 3000 {
		var b Batch
		if i%10 == 0 {
			b.DeletePrefix([]byte("p/"))
		}
		b.Put([]byte("p/a"), fmt.Append(nil, i))
		for k := range 20 {
			b.Put(fmt.Append(nil, "q", k), []byte("beside"))
		}
		b.Put([]byte("p/z"), fmt.Append(nil, i))
		if err := j.Commit(&b); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	readers.Wait()
}
