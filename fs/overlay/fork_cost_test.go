package overlay

import (
	"fmt"
	"sync/atomic"
	"testing"
)

// counted is a journal that counts what is read of it.
type counted struct {
	Journal
	reads atomic.Int64
}

func (c *counted) Get(key []byte) ([]byte, bool, error) {
	c.reads.Add(1)
	return c.Journal.Get(key)
}

func (c *counted) Scan(prefix []byte, fn func(key, value []byte) error) error {
	c.reads.Add(1)
	return c.Journal.Scan(prefix, func(k, v []byte) error {
		c.reads.Add(1)
		return fn(k, v)
	})
}

// TestForkCost: making and discarding a fork costs the same in a big workspace as in a small one: in records and bytes of the
// journal, in what is read of it, and in allocations: by these shows whoever goes through files, records, tasks, or what the
// kernel knows.
func TestForkCost(t *testing.T) {
	type cost struct {
		records uint64
		bytes   int64
		reads   int64
		allocs  float64
	}
	measure := func(files int) cost {
		var j counted
		s := newStand(t, 1)
		s.close()
		s.set = func(o *Options) { j.Journal, o.Journal = o.Journal, &j }
		s.open()
		for i := range files {
			if i%50 == 0 {
				s.must(s.mkdir(fmt.Sprint("d", i/50), 0o700))
				s.begin("task") // what is made in a directory of the same task has no record
			}
			s.must(s.create(fmt.Sprintf("d%d/f%d", i/50, i), "content", 0o600)) // and the kernel holds on to it
		}
		pair := func() {
			_, err := s.e.Fork(ForkOptions{Name: "one", Agent: "c", Parent: s.agent})
			s.must(err)
			s.must(s.e.Discard("one", false))
		}
		pair()
		before, reads := s.j.Stats(), j.reads.Load()
		pair()
		after, readsAfter := s.j.Stats(), j.reads.Load()
		return cost{after.Records - before.Records, after.SegmentBytes - before.SegmentBytes, readsAfter - reads, testing.AllocsPerRun(20, pair)}
	}
	small, big := measure(50), measure(3000)
	t.Logf("small %+v, big %+v", small, big)
	if big.records != small.records || big.bytes > small.bytes+64 || big.reads > small.reads+20 || big.allocs > small.allocs+250 {
		t.Errorf("a fork of 50 files costs %+v, of 3000 %+v", small, big)
	}
}
