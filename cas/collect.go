package cas

import (
	"context"
	"encoding/binary"

	"github.com/cockroachdb/pebble/v2"
)

// collectGroup is the number of records that are removed in one commit.
const collectGroup = 256

// victim is a record that nobody needs.
type victim struct {
	prefix    byte
	ref       Ref
	sizeBytes int // of its value
}

// Collect removes every blob for which live returns false, and every chunk
// that neither is live by itself nor belongs to a live blob. It returns the
// number of blobs and chunks removed and the bytes their records took; pebble
// gives these back to the disk as it compacts, in the background.
//
// Preconditions: live is called from this goroutine with no lock held, and may
// use the store. A blob that is put while Collect runs stays, whatever live
// says. One that was put before stays only if live says so: keep a ref in
// live's answer from the return of its Put on. A second Collect waits for the
// first.
//
// Errors: ErrStopped; ErrCorrupt when the list of a live blob is damaged
// (its chunks cannot be told, so no chunk is removed); ErrNoSpace below a
// quarter of the floor; ErrIO, ErrReadOnly, ErrClosed. What was removed
// before is counted.
func (s *Store) Collect(ctx context.Context, live func(Ref) bool) (removed int, freedBytes int64, err error) {
	const op = "collect"
	if err := s.checkWritable(op); err != nil {
		return 0, 0, err
	}
	s.collectMu.Lock()
	defer s.collectMu.Unlock()
	if err := s.enter(op, Ref{}); err != nil {
		return 0, 0, err
	}
	defer s.leave()
	s.pins.beginCollect()
	defer s.pins.endCollect()

	c := &collection{ctx: ctx, op: op, store: s, live: live, keep: map[uint64]struct{}{}}
	// Lists first: they say which chunks stay, and a dead one must be gone
	// before its chunks are.
	for _, pass := range []struct {
		prefix byte
		dead   func(ref Ref, rec []byte) (bool, error)
	}{{prefixList, c.listDead}, {prefixChunk, c.chunkDead}} {
		if err := c.scan(pass.prefix, pass.dead); err != nil {
			return c.removed, c.freedBytes, err
		}
	}
	if c.removed == 0 {
		return 0, 0, nil
	}
	// pebble finds out what it can drop from tables, not from the memtable. The
	// flush is not waited for: one that fails never ends (pebble 2.1.7).
	_, err = s.db.AsyncFlush()
	return c.removed, c.freedBytes, s.committed(op, Ref{}, err)
}

// collection is one Collect under way.
type collection struct {
	ctx   context.Context
	op    string
	store *Store
	live  func(Ref) bool
	// keep has the first 8 bytes of the refs of the chunks of live lists: a
	// collision keeps garbage, and never removes what is needed.
	keep       map[uint64]struct{}
	group      []victim
	removed    int
	freedBytes int64
}

func prefix64(ref Ref) uint64 { return binary.BigEndian.Uint64(ref[:]) }

func (c *collection) listDead(ref Ref, rec []byte) (bool, error) {
	if !c.live(ref) {
		return true, nil
	}
	l, err := decodeList(ref, rec)
	if err != nil {
		return false, &Error{Op: c.op, Ref: ref, Kind: ErrCorrupt, Err: err}
	}
	for _, chunk := range l.chunks {
		c.keep[prefix64(chunk)] = struct{}{}
	}
	return false, nil
}

func (c *collection) chunkDead(ref Ref, _ []byte) (bool, error) {
	if _, ok := c.keep[prefix64(ref)]; ok {
		return false, nil
	}
	return !c.live(ref), nil
}

// scan removes the records under prefix that are dead.
func (c *collection) scan(prefix byte, dead func(Ref, []byte) (bool, error)) (err error) {
	it, err := c.store.db.NewIter(prefixBounds(prefix))
	if err != nil {
		return wrap(c.op, Ref{}, err)
	}
	defer func() {
		if closeErr := it.Close(); err == nil {
			err = wrap(c.op, Ref{}, closeErr)
		}
	}()
	for ok := it.First(); ok; ok = it.Next() {
		if err := c.store.checkGoing(c.ctx, c.op); err != nil {
			return err
		}
		ref, err := refOf(c.op, it.Key())
		if err != nil {
			return err
		}
		rec, err := it.ValueAndErr()
		if err != nil {
			return wrap(c.op, ref, err)
		}
		gone, err := dead(ref, rec)
		if err != nil {
			return err
		}
		if !gone {
			continue
		}
		c.group = append(c.group, victim{prefix: prefix, ref: ref, sizeBytes: len(rec)})
		if len(c.group) == collectGroup {
			if err := c.remove(); err != nil {
				return err
			}
		}
	}
	if err := it.Error(); err != nil {
		return wrap(c.op, Ref{}, err)
	}
	return c.remove()
}

// remove commits the removal of the group, less what has been pinned since.
func (c *collection) remove() error {
	if len(c.group) == 0 {
		return nil
	}
	s := c.store
	if err := s.room(c.op, 0, s.floor/4); err != nil {
		return err
	}
	defer s.pins.endDoom()
	free := s.pins.doom(c.group)
	c.group = c.group[:0]
	b := s.db.NewBatch()
	defer func() { _ = b.Close() }() // it only gives memory back
	for _, v := range free {
		if err := b.DeleteSized(key(v.prefix, v.ref), uint32(v.sizeBytes), nil); err != nil {
			return wrap(c.op, v.ref, err)
		}
	}
	if b.Empty() {
		return nil
	}
	if err := s.committed(c.op, Ref{}, b.Commit(pebble.NoSync)); err != nil {
		return err
	}
	for _, v := range free {
		c.removed++
		c.freedBytes += int64(1 + len(v.ref) + v.sizeBytes)
	}
	s.counters.removed.Add(int64(len(free)))
	return nil
}

// refOf is the ref in a key that an iterator over a prefix met.
func refOf(op string, k []byte) (Ref, error) {
	if len(k) != 1+len(Ref{}) {
		return Ref{}, &Error{Op: op, What: "a key of unknown form", Kind: ErrCorrupt}
	}
	return Ref(k[1:]), nil
}
