package journal

import (
	"encoding/binary"
	"hash/crc32"
)

// The first byte of a stored value, in memtable and index.
const (
	formInline  = byte(0)
	formPointer = byte(1)

	pointerBytes = 1 + 4 + 8 + 4 + 4
)

// pointer says where a big value lies.
type pointer struct {
	seg    uint32
	offset int64
	length uint32
	sum    uint32
}

func (p pointer) encode(dst []byte) []byte {
	dst = append(dst, formPointer)
	dst = binary.LittleEndian.AppendUint32(dst, p.seg)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(p.offset))
	dst = binary.LittleEndian.AppendUint32(dst, p.length)
	return binary.LittleEndian.AppendUint32(dst, p.sum)
}

// decodePointer reads a stored value; ok is false when it is not a pointer.
func decodePointer(stored []byte) (p pointer, ok bool) {
	if len(stored) != pointerBytes || stored[0] != formPointer {
		return pointer{}, false
	}
	return pointer{
		seg:    binary.LittleEndian.Uint32(stored[1:]),
		offset: int64(binary.LittleEndian.Uint64(stored[5:])),
		length: binary.LittleEndian.Uint32(stored[13:]),
		sum:    binary.LittleEndian.Uint32(stored[17:]),
	}, true
}

// fetch reads the value from its segment into dst, grown as needed, and checks it.
func (p pointer) fetch(s *segment, dst []byte) ([]byte, error) {
	if p.offset < 0 || p.offset > s.end.Load()-int64(p.length) {
		return nil, fail("read value", s.path, ErrCorrupt, errBeyondEnd)
	}
	if cap(dst) < int(p.length) {
		dst = make([]byte, p.length)
	}
	dst = dst[:p.length]
	if _, err := s.file.ReadAt(dst, p.offset); err != nil {
		return nil, fail("read value", s.path, ErrIO, err)
	}
	if crc32.Checksum(dst, castagnoli) != p.sum {
		return nil, fail("read value", s.path, ErrCorrupt, errChecksum)
	}
	return dst, nil
}

// takeSum takes the checksum of value from the front of sums, or computes it when there are none.
func takeSum(sums []uint32, value []byte) (uint32, []uint32) {
	if len(sums) == 0 {
		return crc32.Checksum(value, castagnoli), nil
	}
	return sums[0], sums[1:]
}
