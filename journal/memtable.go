package journal

import (
	"bytes"
	"sync/atomic"

	"github.com/tidwall/btree"
)

// entry is one key of a memtable. stored nil: the key was deleted.
type entry struct {
	key    []byte
	stored []byte
}

func entryLess(a, b entry) bool  { return bytes.Compare(a.key, b.key) < 0 }
func bytesLess(a, b []byte) bool { return bytes.Compare(a, b) < 0 }

const (
	// entryOverhead is what an entry costs beside its bytes.
	entryOverhead = 128
	arenaBytes    = 64 << 10
)

// memtable holds the keys changed since some LSN, in order, over an older state: entries, and below them prefixes whose older keys
// are all gone. No prefix in it begins with another one, so that at most one covers a key: the greatest that is not above it.
// Writers hold Journal.mu; a snapshot (copy on write) is free of locks, and so is get.
type memtable struct {
	entries  *btree.BTreeG[entry]
	prefixes *btree.BTreeG[[]byte]
	table    *table                               // entries by key; nil in a snapshot
	covers   atomic.Pointer[btree.BTreeG[[]byte]] // a copy of prefixes for get; nil: there are none
	arena    []byte
	// sizeBytes is all that was put in, also what was overwritten since: it bounds memory.
	sizeBytes int64
	size      atomic.Int64 // sizeBytes after the last record, for who takes no lock
}

func newMemtable() *memtable {
	o := btree.Options{NoLocks: true}
	return &memtable{entries: btree.NewBTreeGOptions(entryLess, o), prefixes: btree.NewBTreeGOptions(bytesLess, o), table: newTable()}
}

// snapshot needs Journal.mu held for writing; what it returns is read only.
func (m *memtable) snapshot() *memtable {
	return &memtable{entries: m.entries.Copy(), prefixes: m.prefixes.Copy(), sizeBytes: m.sizeBytes}
}

// alloc returns n bytes that live as long as the memtable.
func (m *memtable) alloc(n int) []byte {
	m.sizeBytes += int64(n)
	if n > arenaBytes/4 {
		return make([]byte, 0, n)
	}
	if cap(m.arena)-len(m.arena) < n {
		m.arena = make([]byte, 0, arenaBytes)
	}
	at := len(m.arena)
	m.arena = m.arena[:at+n]
	return m.arena[at : at : at+n]
}

// put sets key to the stored form head+tail; nil head: deleted.
func (m *memtable) put(key, head, tail []byte) {
	room := m.alloc(len(key) + len(head) + len(tail))
	room = append(append(append(room, key...), head...), tail...)
	e := entry{key: room[:len(key):len(key)]}
	if head != nil {
		e.stored = room[len(key):]
	}
	m.sizeBytes += entryOverhead
	m.entries.Set(e)
	m.table.set(e.key, e.stored)
}

func (m *memtable) delete(key []byte) { m.put(key, nil, nil) }

func (m *memtable) deletePrefix(prefix []byte) {
	var gone [][]byte
	m.entries.Ascend(entry{key: prefix}, func(e entry) bool {
		if !bytes.HasPrefix(e.key, prefix) {
			return false
		}
		gone = append(gone, e.key)
		return true
	})
	for _, key := range gone {
		m.entries.Delete(entry{key: key})
		m.table.set(key, nil)
	}
	if m.covered(prefix) {
		return
	}
	gone = gone[:0]
	m.prefixes.Ascend(prefix, func(p []byte) bool {
		if !bytes.HasPrefix(p, prefix) {
			return false
		}
		gone = append(gone, p)
		return true
	})
	for _, p := range gone {
		m.prefixes.Delete(p)
	}
	m.sizeBytes += entryOverhead
	m.prefixes.Set(append(m.alloc(len(prefix)), prefix...))
	m.covers.Store(m.prefixes.Copy())
}

// covered says whether what older states hold under key is gone.
func (m *memtable) covered(key []byte) bool { return covered(m.prefixes, key) }

func covered(prefixes *btree.BTreeG[[]byte], key []byte) bool {
	hit := false
	if prefixes.Len() > 0 {
		prefixes.Descend(key, func(p []byte) bool {
			hit = bytes.HasPrefix(key, p)
			return false
		})
	}
	return hit
}

// get: known is false when an older state has the answer. stored is nil for a deleted key. It takes no lock. Who calls it while a
// record is applied may find half of that.
func (m *memtable) get(key []byte) (stored []byte, known bool) {
	if stored, known = m.table.get(key); known {
		return stored, true
	}
	prefixes := m.covers.Load()
	return nil, prefixes != nil && covered(prefixes, key)
}

// apply performs one record. sums are the checksums of its big values, in order, or nil: they are computed.
func (m *memtable) apply(payload []byte, seg uint32, payloadOff int64, sums []uint32) {
	var head [pointerBytes]byte
	_ = decodeOps(payload, func(o op) {
		switch {
		case o.kind == opDelete:
			m.delete(o.key)
		case o.kind == opDeletePrefix:
			m.deletePrefix(o.key)
		case len(o.value) <= inlineMax:
			head[0] = formInline
			m.put(o.key, head[:1], o.value)
		default:
			p := pointer{seg: seg, offset: payloadOff + int64(o.valueOff), length: uint32(len(o.value))}
			p.sum, sums = takeSum(sums, o.value)
			m.put(o.key, p.encode(head[:0]), nil)
		}
	})
}
