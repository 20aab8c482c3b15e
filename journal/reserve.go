package journal

import (
	"errors"
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

// giveReserveLocked lets go of the reserve of a segment that is the tail no more.
//
// +checklocks:j.appendMu
func (j *Journal) giveReserveLocked(s *segment) {
	if s.ahead > 0 {
		_ = s.file.truncate(s.end.Load()) // what stays takes room until the segment goes, no more
		s.ahead = 0
	}
}
