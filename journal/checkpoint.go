package journal

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// flushWork is one checkpoint: what goes into the index, and what is true when it is durable there.
type flushWork struct {
	imm  *memtable
	meta meta
	// applied: the batch is in pebble, perhaps not yet durable; it must not be built again, the counts would be wrong.
	applied bool
}

// retryDelay is the pause of the background checkpoints after a failed one.
const retryDelay = time.Second

func (j *Journal) kickCheckpoint() {
	select {
	case j.kick <- struct{}{}:
	default:
	}
}

// checkpointer writes the memtable to the index when Commit finds it big.
func (j *Journal) checkpointer() {
	defer close(j.stopped)
	for {
		select {
		case <-j.stop:
			return
		case <-j.kick:
		}
		if j.memBytes() <= j.o.MemBytes {
			continue
		}
		err := j.checkpoint()
		if err == nil {
			continue
		}
		j.log.Warn("journal: checkpoint failed; the segments grow until one succeeds", "dir", j.dir, "err", err)
		pause := time.NewTimer(retryDelay)
		select {
		case <-j.stop:
			pause.Stop()
			return
		case <-pause.C:
		}
	}
}

// Checkpoint writes the memtable to the index, durably, and deletes the segments that nothing needs any more.
//
// Errors: nothing is lost, the next one tries again.
func (j *Journal) Checkpoint() error {
	if err := j.enter("checkpoint"); err != nil {
		return err
	}
	defer j.leave()
	if j.o.ReadOnly {
		return &Error{Op: "checkpoint", Path: j.dir, Kind: ErrReadOnly}
	}
	return j.checkpoint()
}

func (j *Journal) checkpoint() error {
	j.ckptMu.Lock()
	defer j.ckptMu.Unlock()
	err := j.flushLocked()
	if err != nil {
		kind := ErrIO
		if errors.Is(err, ErrNoSpace) {
			kind = ErrNoSpace
		}
		err = fail("checkpoint", j.dir, kind, err)
	}
	j.appendMu.Lock()
	j.ckptErr = err
	if err == nil {
		j.ckptDone++
	}
	j.roomy.Broadcast()
	j.appendMu.Unlock()
	if err != nil {
		return err
	}
	return j.dropDeadLocked()
}

// flushLocked needs ckptMu. Work that failed before comes first; then what the memtable holds now.
func (j *Journal) flushLocked() error {
	if j.pending != nil {
		if err := j.workLocked(j.pending); err != nil {
			return err
		}
	}
	w := j.swapMemtable()
	if w == nil {
		return nil
	}
	j.pending = w
	return j.workLocked(w)
}

// swapMemtable makes the memtable immutable and begins an empty one; nil when there is nothing to write.
func (j *Journal) swapMemtable() *flushWork {
	j.appendMu.Lock()
	defer j.appendMu.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.done.lsn == j.lastLSN {
		return nil
	}
	j.imm, j.mem = j.mem, newMemtable()
	j.shows()
	j.roomy.Broadcast()
	return &flushWork{imm: j.imm, meta: meta{
		salt: j.salt,
		done: position{j.lastLSN, j.tail.num, j.tail.end.Load()},
	}}
}

// workLocked carries w out: segments durable, then the index, then forget the memtable.
func (j *Journal) workLocked(w *flushWork) error {
	if err := j.syncTo(w.meta.done.lsn); err != nil {
		return err
	}
	if dead, _, _ := j.idx.health(); dead != nil {
		return dead
	}
	if !w.applied {
		if err := j.roomForIndex(w.imm.sizeBytes); err != nil {
			return err
		}
		if err := j.idx.guard(func() error { return j.applyWork(w) }); err != nil {
			return err
		}
		w.applied = true
	}
	if err := j.idx.flush(); err != nil {
		return err
	}
	j.mu.Lock()
	j.imm, j.done, j.live = nil, w.meta.done, w.meta.live
	j.shows()
	j.cache.empty()
	j.mu.Unlock()
	j.pending = nil
	return nil
}

// roomForIndex keeps pebble from meeting a full disk, which it does not survive: at half the floor the index is left alone.
func (j *Journal) roomForIndex(n int64) error {
	if j.o.FloorBytes < 0 {
		return nil
	}
	free, err := j.o.disk.freeBytes(j.dir)
	if err != nil {
		return err
	}
	if free < n+j.o.FloorBytes/2 {
		return ErrNoSpace
	}
	return nil
}

// applyWork puts the memtable into the index as one batch and counts the live bytes of the segments anew.
func (j *Journal) applyWork(w *flushWork) error {
	j.mu.RLock()
	w.meta.live = maps.Clone(j.live)
	j.mu.RUnlock()
	it, err := j.idx.db.NewIter(&pebble.IterOptions{LowerBound: []byte{keyPrefix}, UpperBound: []byte{keyPrefix + 1}})
	if err != nil {
		return err
	}
	batch := j.idx.db.NewBatch()
	err = w.fill(batch, it)
	if cerr := j.idx.drop(it); err == nil {
		err = cerr
	}
	if err == nil {
		err = j.idx.db.Apply(batch, pebble.NoSync)
	}
	if cerr := batch.Close(); err == nil {
		err = cerr
	}
	return err
}

// fill writes batch; old is the index as it is.
func (w *flushWork) fill(batch *pebble.Batch, old *pebble.Iterator) (err error) {
	var key []byte
	w.imm.prefixes.Scan(func(prefix []byte) bool {
		lower, upper := indexRange(prefix)
		for ok := old.SeekGE(lower); ok && bytes.Compare(old.Key(), upper) < 0; ok = old.Next() {
			w.count(old.Value(), -1)
		}
		if err = old.Error(); err == nil {
			err = batch.DeleteRange(lower, upper, nil)
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	w.imm.entries.Scan(func(e entry) bool {
		key = indexKey(key[:0], e.key)
		if !w.imm.covered(e.key) && old.SeekGE(key) && bytes.Equal(old.Key(), key) {
			w.count(old.Value(), -1)
		}
		if err = old.Error(); err != nil {
			return false
		}
		if e.stored == nil {
			err = batch.Delete(key, nil)
		} else {
			w.count(e.stored, +1)
			err = batch.Set(key, e.stored, nil)
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	return batch.Set(metaKey, w.meta.encode(), nil)
}

func (w *flushWork) count(stored []byte, sign int64) {
	p, ok := decodePointer(stored)
	if !ok {
		return
	}
	if w.meta.live[p.seg] += sign * int64(p.length); w.meta.live[p.seg] == 0 {
		delete(w.meta.live, p.seg)
	}
}

// dropDeadLocked deletes the segments below the checkpoint without live values. It needs ckptMu.
func (j *Journal) dropDeadLocked() error {
	j.mu.Lock()
	var dead []*segment
	for num, s := range j.segs {
		// Every record of a segment before the one where the checkpoint stands is below it.
		if num < j.done.seg && j.live[num] == 0 && !s.damaged {
			dead = append(dead, s)
			delete(j.segs, num)
		}
	}
	j.mu.Unlock()
	var errs []error
	for _, s := range dead {
		if err := j.o.disk.remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		s.release()
	}
	if err := errors.Join(errs...); err != nil {
		return fail("drop segment", j.dir, ErrIO, err)
	}
	return nil
}
