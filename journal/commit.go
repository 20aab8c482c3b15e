package journal

import (
	"errors"
	"fmt"
	"syscall"
)

// need is how far down a record may take the free space.
type need uint8

const (
	aboveFloor need = iota
	halfFloor       // for what gives back more than it takes
	toTheLast       // half the floor, and then the reserve
)

// Commit applies b as one: it appends one record with one write, then makes it visible to Get and Scan.
//
// Errors: nothing was changed, except that after a failing fdatasync or a write that could not be taken back the journal is
// failed (every later Commit returns that error, ErrIO) and whether the batch is there is known only after the next Open.
// Durability: when it returns nil the batch survives the death of the process; with SyncEvery also a power cut.
func (j *Journal) Commit(b *Batch) error { return j.commit(b, aboveFloor) }

// CommitFreeing is Commit for a batch that leads to more space than it takes, so that a store which has come down to its
// floor can be emptied: it may use half of the floor, and after that, to the disk's last byte, the reserve.
func (j *Journal) CommitFreeing(b *Batch) error { return j.commit(b, toTheLast) }

func (j *Journal) commit(b *Batch, need need) error {
	if err := j.enter("commit"); err != nil {
		return err
	}
	defer j.leave()
	switch {
	case j.o.ReadOnly:
		return &Error{Op: "commit", Path: j.dir, Kind: ErrReadOnly}
	case b.tooBig:
		return &Error{Op: "commit", Path: j.dir, Kind: ErrTooBig}
	case len(b.buf) == 0:
		return nil
	}
	lsn, err := j.append(b, payloadSum(j.seed, b.buf[recordHead:]), need)
	if err != nil || !j.o.SyncEvery {
		return err
	}
	return j.syncTo(lsn)
}

func (j *Journal) appendLocked(b *Batch, sum uint32, need need) (lsn uint64, err error) {
	if err := j.readyLocked(int64(len(b.buf)), need); err != nil {
		return 0, err
	}
	lsn = j.lastLSN + 1
	sealRecord(b.buf, sum, lsn)
	at := j.tail.end.Load()
	if err := j.writeLocked(b.buf, at); err != nil {
		return 0, err
	}
	j.lastLSN = lsn
	j.tail.end.Store(at + int64(len(b.buf)))
	j.reserveLocked()

	j.mu.Lock()
	j.applied.Add(1)
	j.mem.apply(b.buf[recordHead:], j.tail.num, at+recordHead, b.sums)
	j.applied.Add(1)
	size := j.mem.sizeBytes
	j.mem.size.Store(size)
	j.mu.Unlock()
	if size > j.o.MemBytes {
		j.kickCheckpoint()
	}
	return lsn, nil
}

// readyLocked finds room for n bytes: in memory, above the floor and in the tail segment.
func (j *Journal) readyLocked(n int64, need need) error {
	for j.failed == nil && j.ckptErr == nil && !j.stopping && j.memBytes() > 4*j.o.MemBytes {
		j.kickCheckpoint()
		j.roomy.Wait()
	}
	if j.failed != nil {
		return j.failed
	}
	floor := j.o.FloorBytes
	if need != aboveFloor {
		floor /= 2
	}
	ok, err := j.space.take(j.o.disk, j.dir, n, floor)
	if err != nil {
		return fail("commit", j.dir, ErrIO, err)
	}
	end := j.tail.end.Load()
	if !ok && need == toTheLast && end+n <= j.tail.ahead {
		return nil // also past the end of the segment: there is no room for another
	}
	if !ok {
		return &Error{Op: "commit", Path: j.dir, Kind: ErrNoSpace, Err: syscall.ENOSPC}
	}
	if end > headerBytes && end+n > j.o.SegmentBytes {
		return j.rollLocked()
	}
	return nil
}

// memBytes is the size of the memtable that is written to.
func (j *Journal) memBytes() int64 { return j.mems.Load().mem.size.Load() }

// writeLocked appends rec at the offset at, or leaves the segment as it was.
func (j *Journal) writeLocked(rec []byte, at int64) error {
	_, err := j.tail.file.WriteAt(rec, at)
	if err == nil {
		return nil
	}
	kind := ErrIO
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		kind = ErrNoSpace
	}
	err = fail("commit", j.tail.path, kind, err)
	j.tail.ahead = 0 // it goes with what is cut off
	if terr := j.tail.file.truncate(at); terr != nil {
		cause := fmt.Errorf("the journal has failed and must be opened anew: %w; taking it back: %w", err, terr)
		j.failed = &Error{Op: "commit", Path: j.tail.path, Kind: ErrIO, Err: cause}
		j.log.Error("journal: failed", "dir", j.dir, "err", j.failed)
		return j.failed
	}
	return err
}

// rollLocked begins a new tail segment.
func (j *Journal) rollLocked() error {
	s, err := createSegment(j.o.disk, j.dir, header{formatVersion, j.tail.num + 1, j.lastLSN + 1, j.salt})
	if err != nil {
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			return &Error{Op: "commit", Path: j.dir, Kind: ErrNoSpace, Err: err}
		}
		return err
	}
	j.giveReserveLocked(j.tail)
	j.tail.acquire()
	j.dirty = append(j.dirty, j.tail)
	j.dirDirty = true
	j.tail = s
	j.mu.Lock()
	j.segs[s.num] = s
	j.mu.Unlock()
	return nil
}

// Sync makes every batch committed before it survive a power cut.
func (j *Journal) Sync() error {
	if err := j.enter("sync"); err != nil {
		return err
	}
	defer j.leave()
	if j.o.ReadOnly {
		return nil
	}
	j.appendMu.Lock()
	lsn := j.lastLSN
	j.appendMu.Unlock()
	return j.syncTo(lsn)
}

// syncTo returns when the records up to lsn are durable. Of many callers one does the work for all that were appended meanwhile.
func (j *Journal) syncTo(lsn uint64) error {
	j.syncMu.Lock()
	defer j.syncMu.Unlock()
	if j.syncedLSN >= lsn {
		return nil
	}
	j.appendMu.Lock()
	if j.failed != nil {
		defer j.appendMu.Unlock()
		return j.failed
	}
	target, files, dirDirty := j.lastLSN, append(j.dirty, j.tail), j.dirDirty
	j.tail.acquire()
	j.dirty, j.dirDirty = nil, false
	j.appendMu.Unlock()

	var err error
	for _, s := range files {
		if err == nil {
			err = s.file.datasync()
		}
		s.release()
	}
	if err == nil && dirDirty {
		err = j.o.disk.syncDir(j.dir)
	}
	if err != nil {
		// What a failed fdatasync has left unwritten is not written by the next one either (fsync(2), PostgreSQL's fsyncgate).
		err = &Error{Op: "sync", Path: j.dir, Kind: ErrIO, Err: fmt.Errorf("the journal has failed and must be opened anew: %w", err)}
		j.appendMu.Lock()
		j.failed = err
		j.appendMu.Unlock()
		j.log.Error("journal: failed", "dir", j.dir, "err", err)
		return err
	}
	j.syncedLSN = target
	return nil
}
