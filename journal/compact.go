package journal

import (
	"bytes"
)

// compactBatch is about how many bytes of values are moved by one record, compactKeys how many at most.
const (
	compactBatch = 1 << 20
	compactKeys  = 256
)

// located is a big value and where it lies.
type located struct {
	key    []byte
	stored []byte // the pointer, as memtable and index have it
	value  []byte
}

// Compact gives back the space of what was deleted: it moves the live values out of segments of which less than half is live
// to the tail, and deletes these segments. The tail is ended first when that gives back more than a mebibyte. Damaged
// segments stay.
//
// It is safe against death at any point, because moving a value is a Put of what is there: a segment goes only when a
// checkpoint finds nothing live in it. Commits go on meanwhile; a value that is changed while it is moved stays changed.
//
// Errors: ErrNoSpace below half the floor, ErrIO, ErrCorrupt when a live value cannot be read, ErrReadOnly, ErrClosed. What was
// given back before stays so.
func (j *Journal) Compact() error {
	if err := j.enter("compact"); err != nil {
		return err
	}
	defer j.leave()
	if j.o.ReadOnly {
		return &Error{Op: "compact", Path: j.dir, Kind: ErrReadOnly}
	}
	j.compactMu.Lock()
	defer j.compactMu.Unlock()
	if err := j.checkpoint(); err != nil {
		return err
	}
	if err := j.endTail(); err != nil {
		return err
	}
	dead := j.mostlyDead()
	if len(dead) == 0 {
		return nil
	}
	if err := j.evacuate(dead); err != nil {
		return err
	}
	return j.checkpoint()
}

// endTail begins a new tail when the old one is mostly dead. A record must follow, so that the next checkpoint stands
// behind the old one: a delete of the empty key, which nobody uses.
func (j *Journal) endTail() error {
	j.appendMu.Lock()
	err := j.failed
	end := j.tail.end.Load()
	j.mu.RLock()
	live := j.live[j.tail.num]
	j.mu.RUnlock()
	worth := end-live > 1<<20 && live < end/2
	if err == nil && worth {
		err = j.rollLocked()
	}
	j.appendMu.Unlock()
	if err != nil || !worth {
		return err
	}
	var b Batch
	b.Delete(nil)
	if _, err := j.append(&b, payloadSum(j.seed, b.buf[recordHead:]), halfFloor); err != nil {
		return err
	}
	return j.checkpoint()
}

// mostlyDead are the segments that are worth moving what is live in them.
func (j *Journal) mostlyDead() map[uint32]bool {
	j.mu.RLock()
	defer j.mu.RUnlock()
	dead := map[uint32]bool{}
	for num, s := range j.segs {
		if num < j.done.seg && !s.damaged && j.live[num] < s.end.Load()/2 {
			dead[num] = true
		}
	}
	return dead
}

// evacuate moves what is live in some segments to the tail.
func (j *Journal) evacuate(from map[uint32]bool) error {
	v, err := j.newView([]byte{keyPrefix}, []byte{keyPrefix + 1})
	if err != nil {
		return err
	}
	defer v.close()
	var group []located
	size := 0
	move := func() error {
		err := j.move(group)
		group, size = group[:0], 0
		return err
	}
	err = v.walk(nil, func(key, stored []byte) error {
		p, big := decodePointer(stored)
		if !big || !from[p.seg] {
			return nil
		}
		s := v.segs[p.seg]
		if s == nil {
			return fail("compact", segPath(j.dir, p.seg), ErrCorrupt, errNoSegment)
		}
		value, err := p.fetch(s, nil)
		if err != nil {
			return err
		}
		group = append(group, located{bytes.Clone(key), bytes.Clone(stored), value})
		if size += len(value); size < compactBatch && len(group) < compactKeys {
			return nil
		}
		return move()
	})
	if err == nil {
		err = move()
	}
	if err != nil {
		return fail("compact", j.dir, ErrIO, err)
	}
	return nil
}

// move appends values that are still where they were found. Nobody can change them between the look and the append: both are
// under appendMu.
func (j *Journal) move(group []located) error {
	if len(group) == 0 {
		return nil
	}
	size := int64(0)
	for _, l := range group {
		size += int64(len(l.key)+len(l.value)) + 32
	}
	j.appendMu.Lock()
	defer j.appendMu.Unlock()
	// What may wait, and let the lock go meanwhile, comes before the look.
	if err := j.readyLocked(size, halfFloor); err != nil {
		return err
	}
	var b Batch
	for _, l := range group {
		now, err := j.lookup(l.key)
		if err != nil {
			return err
		}
		if bytes.Equal(now, l.stored) {
			b.Put(l.key, l.value)
		}
	}
	if b.Empty() {
		return nil
	}
	_, err := j.appendLocked(&b, payloadSum(j.seed, b.buf[recordHead:]), halfFloor)
	return err
}
