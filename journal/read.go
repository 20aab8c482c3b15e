package journal

import (
	"bytes"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/tidwall/btree"
)

// Get returns the value of key; the slice is the caller's.
//
// Errors: ErrCorrupt when the bytes in the segment are not those that were written, ErrIO, ErrClosed.
func (j *Journal) Get(key []byte) (value []byte, found bool, err error) {
	if err := j.enter("get"); err != nil {
		return nil, false, err
	}
	defer j.leave()
	for try := 0; ; try++ {
		stored, err := j.lookup(key)
		if err != nil || stored == nil {
			return nil, false, err
		}
		p, big := decodePointer(stored)
		if !big {
			return stored[1:], true, nil
		}
		j.mu.RLock()
		s := j.segs[p.seg]
		if s != nil {
			s.acquire()
		}
		j.mu.RUnlock()
		if s == nil && try < 10 {
			continue // dropped since the lookup: the key has got a newer value
		}
		if s == nil {
			return nil, false, fail("get", segPath(j.dir, p.seg), ErrCorrupt, errNoSegment)
		}
		value, err = p.fetch(s, nil)
		s.release()
		return value, err == nil, err
	}
}

var errNoSegment = errors.New("the segment that holds the value is missing")

// lookup returns a copy of the stored form of key; nil: there is none.
func (j *Journal) lookup(key []byte) ([]byte, error) {
	age := j.cache.now()
	stored, known := j.recent(key)
	if known {
		// The arena is never written twice: no need for the lock.
		return append([]byte(nil), stored...), nil
	}
	if j.idx == nil {
		return nil, nil
	}
	if stored = j.cache.get(key); stored != nil {
		return append([]byte(nil), stored...), nil
	}
	if j.cache.absent(key) {
		return nil, nil
	}
	// What is checkpointed since then is in the index: it was written there before it left the memtables.
	stored, found, err := j.idx.get(key, nil)
	if err != nil {
		return nil, fail("get", j.idx.dir, indexKind(err), err)
	}
	if !found {
		j.cache.addAbsent(key, age)
		return nil, nil
	}
	if len(stored) == 0 {
		return nil, fail("get", j.idx.dir, ErrCorrupt, errMalformed)
	}
	j.cache.add(key, append([]byte(nil), stored...), age)
	return stored, nil
}

// recent is what the memtables have of a key. It finds a record whole or not at all, and waits only while one is applied.
func (j *Journal) recent(key []byte) (stored []byte, known bool) {
	for {
		applied := j.applied.Load()
		if applied%2 != 0 {
			j.mu.RLock()
			defer j.mu.RUnlock()
			return j.mems.Load().get(key)
		}
		stored, known = j.mems.Load().get(key)
		if j.applied.Load() == applied {
			return stored, known
		}
	}
}

// mems are the memtables: the one that is written to, and the one on its way into the index, or nil.
type mems struct{ mem, imm *memtable }

func (m *mems) get(key []byte) (stored []byte, known bool) {
	if stored, known = m.mem.get(key); !known && m.imm != nil {
		return m.imm.get(key)
	}
	return stored, known
}

// shows makes the memtables those that recent looks into. Preconditions: mu is held for writing.
func (j *Journal) shows() { j.mems.Store(&mems{j.mem, j.imm}) }

func indexKind(err error) Kind {
	if pebble.IsCorruptionError(err) {
		return ErrCorrupt
	}
	return ErrIO
}

// view is the state of the journal at one instant.
type view struct {
	mems []*memtable // newest first
	idx  *index
	it   *pebble.Iterator
	segs map[uint32]*segment
}

func (j *Journal) newView(lower, upper []byte) (*view, error) {
	v, of := j.snapshot()
	if j.idx == nil {
		return v, nil
	}
	var err error
	if v.it, err = j.iterator(lower, upper); err != nil {
		v.close()
		return nil, err
	}
	v.idx = j.idx
	if j.mems.Load() == of { // then the index has nothing that is newer than the memtables
		return v, nil
	}
	v.close()
	j.mu.Lock()
	defer j.mu.Unlock()
	v = j.snapshotLocked()
	if v.it, err = j.iterator(lower, upper); err != nil {
		v.close()
		return nil, err
	}
	v.idx = j.idx
	return v, nil
}

func (j *Journal) iterator(lower, upper []byte) (*pebble.Iterator, error) {
	it, err := j.idx.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, fail("scan", j.idx.dir, indexKind(err), err)
	}
	return it, nil
}

// snapshot is a view of the memtables and segments alone, and the memtables of which it is.
func (j *Journal) snapshot() (*view, *mems) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.snapshotLocked(), j.mems.Load()
}

func (j *Journal) snapshotLocked() *view {
	v := &view{mems: []*memtable{j.mem.snapshot()}, segs: make(map[uint32]*segment, len(j.segs))}
	if j.imm != nil {
		v.mems = append(v.mems, j.imm)
	}
	for num, s := range j.segs {
		s.acquire()
		v.segs[num] = s
	}
	return v
}

func (v *view) close() {
	for _, s := range v.segs {
		s.release()
	}
	if v.it != nil {
		v.idx.dropLater(v.it)
	}
}

// Scan calls fn with every key that begins with prefix, ascending, as they were when Scan was called. key and value are valid only
// inside fn, which may call Get and Scan, and nothing else of the journal. An error of fn ends the scan and is returned; ErrStop
// ends it without one.
func (j *Journal) Scan(prefix []byte, fn func(key, value []byte) error) error {
	v, err := j.View(prefix)
	if err != nil {
		return err
	}
	defer v.Close()
	return v.Scan(prefix, fn)
}

// View is the state of all keys with a prefix at one instant. Who scans many short ranges of it takes a lock and an iterator once.
// It is for one goroutine, and keeps space from being given back until it is closed.
type View struct {
	j   *Journal
	v   *view
	sub []byte // the prefix of the part that it is of
}

// View gives the state of all keys that begin with prefix. Errors: ErrClosed, ErrIO, ErrCorrupt.
func (j *Journal) View(prefix []byte) (*View, error) {
	if err := j.enter("scan"); err != nil {
		return nil, err
	}
	v, err := j.newView(indexRange(prefix))
	if err != nil {
		j.leave()
		return nil, err
	}
	return &View{j: j, v: v}, nil
}

// Close ends the view.
func (w *View) Close() {
	w.v.close()
	w.j.leave()
}

// Scan is Journal.Scan in the view. Preconditions: prefix begins with the view's own.
func (w *View) Scan(prefix []byte, fn func(key, value []byte) error) error {
	if w.sub != nil {
		prefix = slices.Concat(w.sub, prefix)
	}
	var big []byte
	err := w.v.walk(prefix, func(key, stored []byte) error {
		key = key[len(w.sub):]
		if len(stored) == 0 {
			return fail("scan", w.j.dir, ErrCorrupt, errMalformed)
		}
		p, isBig := decodePointer(stored)
		if !isBig {
			return fn(key, stored[1:])
		}
		s := w.v.segs[p.seg]
		if s == nil {
			return fail("scan", segPath(w.j.dir, p.seg), ErrCorrupt, errNoSegment)
		}
		var err error
		if big, err = p.fetch(s, big); err != nil {
			return err
		}
		return fn(key, big)
	})
	if errors.Is(err, ErrStop) {
		return nil
	}
	return err
}

// walk merges the memtables and the index: of equal keys the newest, but nothing that a newer state has deleted.
func (v *view) walk(prefix []byte, fn func(key, stored []byte) error) error {
	cursors := make([]memCursor, len(v.mems))
	for i, m := range v.mems {
		cursors[i] = memCursor{it: m.entries.Iter(), prefix: prefix}
		cursors[i].ok = cursors[i].it.Seek(entry{key: prefix}) && bytes.HasPrefix(cursors[i].it.Item().key, prefix)
		defer cursors[i].it.Release()
	}
	within := func(more bool) bool { return more && bytes.HasPrefix(v.it.Key()[1:], prefix) }
	index := v.it != nil && within(v.it.SeekGE(indexKey(nil, prefix)))
	for {
		from, key := -1, []byte(nil)
		for i := range cursors {
			if c := &cursors[i]; c.ok && (from < 0 || bytes.Compare(c.it.Item().key, key) < 0) {
				from, key = i, c.it.Item().key
			}
		}
		if index && (from < 0 || bytes.Compare(v.it.Key()[1:], key) < 0) {
			from, key = len(cursors), v.it.Key()[1:]
		}
		if from < 0 {
			break
		}
		var stored []byte
		if from == len(cursors) {
			stored = v.it.Value()
		} else {
			stored = cursors[from].it.Item().stored
		}
		if stored != nil && !v.covered(from, key) {
			if err := fn(key, stored); err != nil {
				return err
			}
		}
		for i := from; i < len(cursors); i++ {
			if c := &cursors[i]; i != from && c.ok && bytes.Equal(c.it.Item().key, key) {
				c.next()
			}
		}
		if from == len(cursors) {
			index = within(v.it.Next())
			continue
		}
		if index && bytes.Equal(v.it.Key()[1:], key) {
			index = within(v.it.Next())
		}
		cursors[from].next()
	}
	if v.it == nil {
		return nil
	}
	if err := v.it.Error(); err != nil {
		return fail("scan", "index", indexKind(err), err)
	}
	return nil
}

// covered says whether a state newer than source has deleted key by its prefix.
func (v *view) covered(source int, key []byte) bool {
	for i := 0; i < source && i < len(v.mems); i++ {
		if v.mems[i].covered(key) {
			return true
		}
	}
	return false
}

type memCursor struct {
	it     btree.IterG[entry]
	prefix []byte
	ok     bool
}

func (c *memCursor) next() {
	c.ok = c.it.Next() && bytes.HasPrefix(c.it.Item().key, c.prefix)
}
