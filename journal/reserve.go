package journal

import (
	"errors"
	"os"
	"syscall"
)

// reserveBytes is how much of the tail segment is kept ahead of what is in it, in blocks that are its own already. On a disk without a free byte, CommitFreeing
// still has that much, which nobody can take: so what takes room can be removed, though the record of it comes first.
const reserveBytes = 256 << 10

// reserveLocked keeps the reserve. What fails is tried again at the next record; where it cannot be, as on a filesystem that
// knows nothing of it, there is none.
//
// +checklocks:j.appendMu
func (j *Journal) reserveLocked() {
	end := j.tail.end.Load()
	if j.noReserve || j.o.FloorBytes < 0 || j.tail.ahead-end >= reserveBytes/2 {
		return
	}
	switch err := j.tail.file.reserve(end, reserveBytes); {
	case err == nil:
		j.tail.ahead = end + reserveBytes
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
	default:
		j.noReserve = true
	}
}

// Reserve makes the reserve that opening gave up on a full disk, of what room there is now.
func (j *Journal) Reserve() {
	if j.o.ReadOnly || j.enter("reserve") != nil {
		return
	}
	defer j.leave()
	j.appendMu.Lock()
	defer j.appendMu.Unlock()
	j.reserveLocked()
}

// makeRoom gives up the reserve where the disk is so full that a database cannot be opened, which writes some files of its own. So who has a full
// disk can open the journal, to remove and to prune.
func (j *Journal) makeRoom(nums []uint32) (full bool) {
	if j.o.ReadOnly || j.o.FloorBytes < 0 || len(nums) == 0 {
		return false
	}
	if free, err := j.o.disk.freeBytes(j.dir); err != nil || free >= 2*reserveBytes {
		return false
	}
	path := segPath(j.dir, nums[len(nums)-1])
	f, err := j.o.disk.open(path, os.O_RDWR)
	if err != nil {
		return true // whoever opens it next says why
	}
	size, err := f.size()
	if err == nil {
		err = f.truncate(size) // it is beyond the end
	}
	if err = errors.Join(err, f.Close()); err != nil {
		j.log.Warn("journal: the reserve cannot be given up", "segment", path, "err", err)
	}
	return true
}

// giveReserveLocked lets go of the reserve of a segment that is the tail no more.
//
// +checklocks:j.appendMu
func (j *Journal) giveReserveLocked(s *segment) {
	if s.ahead > 0 {
		_ = s.file.truncate(s.end.Load()) // what stays takes room until the segment goes, no more
		s.ahead = 0
	}
}
