package journal

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// cacheBytes bounds each half of an indexCache.
const cacheBytes = 512 << 10

// absentSlots is how many absent keys are kept at most. Most are asked for once, when an inode is new; but who reads in a fork asks
// of each inode, again and again, whether the tree that it was made of has a number for it.
const absentSlots = 1 << 13

// absentMax is the longest absent key that is kept.
const absentMax = 39

// indexCache keeps what was read from the index last: a move asks for the same records many times. What the memtables know
// goes before it, so a value in it can only grow old when a memtable goes into the index: it is emptied then, in the same
// moment in which the memtable is let go (Journal.mu), and what was read before that moment is not let in after it.
// The same holds for keys that were found to be absent; of these it keeps few, in a table of their own.
type indexCache struct {
	mu sync.Mutex
	// age counts the times that it was emptied; it changes under mu.
	age atomic.Uint64
	// young takes what is new; when it is full it becomes old, and what was old goes.
	young, old map[string][]byte // +checklocks:mu
	sizeBytes  int               // +checklocks:mu of young

	seed maphash.Seed  // +checklocks:mu set with absent
	none []absentEntry // +checklocks:mu by the hash of the key; the last one stays
}

// absentEntry is a key that the index had not at an age.
type absentEntry struct {
	age uint64
	n   uint8 // 0: none
	key [absentMax]byte
}

// absent says that the index is known not to have a key.
func (c *indexCache) absent(key []byte) bool {
	if len(key) == 0 || len(key) > absentMax {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.none == nil {
		return false
	}
	s := &c.none[maphash.Bytes(c.seed, key)%absentSlots]
	return s.age == c.age.Load() && string(s.key[:s.n]) == string(key)
}

// addAbsent keeps that the index had not a key at an age.
func (c *indexCache) addAbsent(key []byte, age uint64) {
	if len(key) == 0 || len(key) > absentMax {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if age != c.age.Load() {
		return
	}
	if c.none == nil {
		c.none, c.seed = make([]absentEntry, absentSlots), maphash.MakeSeed()
	}
	s := &c.none[maphash.Bytes(c.seed, key)%absentSlots]
	s.age, s.n = age, uint8(copy(s.key[:], key))
}

// now is the age, to be asked for before the memtables are.
func (c *indexCache) now() uint64 { return c.age.Load() }

// get returns the stored form of a key, which must not be changed; nil: it is not here.
func (c *indexCache) get(key []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v := c.young[string(key)]; v != nil {
		return v
	}
	v := c.old[string(key)]
	if v != nil {
		c.addLocked(key, v)
	}
	return v
}

// add keeps what was read from the index at an age. Stored must not be changed any more.
func (c *indexCache) add(key, stored []byte, age uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if age == c.age.Load() && len(key)+len(stored) <= cacheBytes/16 {
		c.addLocked(key, stored)
	}
}

func (c *indexCache) addLocked(key, stored []byte) {
	n := len(key) + len(stored) + entryOverhead
	if c.young == nil || c.sizeBytes+n > cacheBytes {
		c.old, c.young, c.sizeBytes = c.young, map[string][]byte{}, 0
	}
	c.young[string(key)] = stored
	c.sizeBytes += n
}

func (c *indexCache) empty() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.age.Add(1)
	c.young, c.old, c.sizeBytes = nil, nil, 0
}
