package journal

import (
	"io"
)

const windowBytes = 1 << 20

// scanner walks the records of one segment through a window.
//
// A record is valid when its length fits the file, its LSN is above the one before, and checksum and operations fit. Behind damage
// the next valid record is searched byte by byte: the LSN must lie in the narrow range that the bytes in between allow, so
// that hardly any checksum is computed in vain.
type scanner struct {
	r    io.ReaderAt
	size int64
	seed uint32
	// off is where the next record should begin, last the LSN of the one before.
	off  int64
	last uint64

	win   []byte
	winAt int64
}

// record is a valid record: offset of its head, LSN, payload. The payload is valid until the next call.
type record struct {
	off     int64
	lsn     uint64
	payload []byte
}

// next returns the next valid record. skipped is the number of bytes before it that are not one. At the end ok is false, and skipped
// is the length of the tail that holds no valid record.
func (s *scanner) next() (rec record, skipped int64, ok bool, err error) {
	for at := s.off; at+recordHead+minPayload <= s.size; at++ {
		rec, ok, err = s.try(at, s.last+1+uint64(at-s.off)/(recordHead+minPayload))
		if err != nil {
			return record{}, 0, false, err
		}
		if ok {
			skipped = at - s.off
			s.off, s.last = at+recordHead+int64(len(rec.payload)), rec.lsn
			return rec, skipped, true, nil
		}
	}
	return record{}, s.size - s.off, false, nil
}

// try reads the record at offset at; at the expected place (nothing skipped) any LSN above the last is taken, else none above maxLSN.
func (s *scanner) try(at int64, maxLSN uint64) (record, bool, error) {
	head, err := s.bytes(at, recordHead)
	if err != nil {
		return record{}, false, err
	}
	n, lsn := recordShape(head)
	if n < minPayload || n > MaxBatchBytes || n > s.size-at-recordHead || lsn <= s.last || (at != s.off && lsn > maxLSN) {
		return record{}, false, nil
	}
	whole, err := s.bytes(at, recordHead+n)
	if err != nil {
		return record{}, false, err
	}
	if !recordFits(s.seed, whole) || !opsFit(whole[recordHead:]) {
		return record{}, false, nil
	}
	return record{off: at, lsn: lsn, payload: whole[recordHead:]}, true, nil
}

// bytes returns n bytes at off, which lie inside the file.
func (s *scanner) bytes(off, n int64) ([]byte, error) {
	if from := off - s.winAt; from >= 0 && from+n <= int64(len(s.win)) {
		return s.win[from : from+n], nil
	}
	want := min(max(n, windowBytes), s.size-off)
	if int64(cap(s.win)) < want {
		s.win = make([]byte, want)
	}
	s.win, s.winAt = s.win[:want], off
	if _, err := s.r.ReadAt(s.win, off); err != nil {
		s.win = s.win[:0]
		return nil, err
	}
	return s.win[:n], nil
}
