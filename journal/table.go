package journal

import (
	"bytes"
	"hash/maphash"
	"sync/atomic"
)

// table finds the entries of a memtable by their keys, for readers that take no lock: a reader that had to wait for one whose
// holder waits for a processor would wait for longer than reading takes. There is one writer at a time.
type table struct {
	buckets atomic.Pointer[[]atomic.Pointer[cell]]
	seed    maphash.Seed
	count   int // only the writer looks at it
}

// cell is a key of a bucket. Only its value changes.
type cell struct {
	key   []byte
	value atomic.Pointer[[]byte] // the stored form; it points to nil when the key was deleted
	next  *cell
}

const firstBuckets = 256

func newTable() *table {
	t := &table{seed: maphash.MakeSeed()}
	first := make([]atomic.Pointer[cell], firstBuckets)
	t.buckets.Store(&first)
	return t
}

func (t *table) bucket(all []atomic.Pointer[cell], key []byte) *atomic.Pointer[cell] {
	return &all[maphash.Bytes(t.seed, key)&uint64(len(all)-1)]
}

func (t *table) find(key []byte) *cell {
	for c := t.bucket(*t.buckets.Load(), key).Load(); c != nil; c = c.next {
		if bytes.Equal(c.key, key) {
			return c
		}
	}
	return nil
}

// get gives the stored form of a key, nil if it was deleted; known is false when the table does not have it.
func (t *table) get(key []byte) (stored []byte, known bool) {
	if c := t.find(key); c != nil {
		return *c.value.Load(), true
	}
	return nil, false
}

// set is for the one writer. Neither slice may change any more.
func (t *table) set(key, stored []byte) {
	if c := t.find(key); c != nil {
		c.value.Store(&stored)
		return
	}
	all := *t.buckets.Load()
	if t.count >= 2*len(all) {
		all = t.grow(all)
	}
	b := t.bucket(all, key)
	c := &cell{key: key, next: b.Load()}
	c.value.Store(&stored)
	b.Store(c)
	t.count++
}

// grow makes four times as many buckets. Who reads in the old ones meanwhile finds what was there before.
func (t *table) grow(old []atomic.Pointer[cell]) []atomic.Pointer[cell] {
	all := make([]atomic.Pointer[cell], 4*len(old))
	for i := range old {
		for c := old[i].Load(); c != nil; c = c.next {
			b := t.bucket(all, c.key)
			n := &cell{key: c.key, next: b.Load()}
			n.value.Store(c.value.Load())
			b.Store(n)
		}
	}
	t.buckets.Store(&all)
	return all
}
