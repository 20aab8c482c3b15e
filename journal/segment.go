package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
)

const (
	formatVersion = 1
	magic         = "ttfsjrnl"
	headerBytes   = 40

	segSuffix     = ".seg"
	newSuffix     = ".new"
	damagedSuffix = ".damaged"
)

var (
	errBeyondEnd = errors.New("points beyond the end of its segment")
	errChecksum  = errors.New("checksum does not fit")
	errHeader    = errors.New("damaged header")
)

// segment is one file of records. Readers hold a reference while they use the file; the last one closes it.
type segment struct {
	num      uint32
	firstLSN uint64
	path     string
	file     file
	// end is the offset behind the last record, in bytes.
	end atomic.Int64
	// ahead is the offset up to which the tail has blocks of its own; 0: no further than its end. Under Journal.appendMu.
	ahead int64
	// damaged segments are never deleted by themselves.
	damaged bool
	refs    atomic.Int32
}

func (s *segment) acquire() { s.refs.Add(1) }

func (s *segment) release() {
	if s.refs.Add(-1) == 0 {
		_ = s.file.Close()
	}
}

func segPath(dir string, num uint32) string {
	return filepath.Join(dir, fmt.Sprintf("%08d%s", num, segSuffix))
}

// damagedPath is the mark beside the segment at path.
func damagedPath(path string) string { return strings.TrimSuffix(path, segSuffix) + damagedSuffix }

// segNumber parses the name of a segment file.
func segNumber(name string) (uint32, bool) {
	digits, ok := strings.CutSuffix(name, segSuffix)
	if !ok || len(digits) < 8 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	return uint32(n), err == nil && n > 0 && fmt.Sprintf("%08d", n) == digits
}

type header struct {
	version  uint32
	num      uint32
	firstLSN uint64
	salt     uint64
}

func (h header) encode() []byte {
	b := append(make([]byte, 0, headerBytes), magic...)
	b = binary.LittleEndian.AppendUint32(b, h.version)
	b = binary.LittleEndian.AppendUint32(b, h.num)
	b = binary.LittleEndian.AppendUint64(b, h.firstLSN)
	b = binary.LittleEndian.AppendUint64(b, h.salt)
	b = binary.LittleEndian.AppendUint32(b, 0)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decodeHeader returns the fields also when ok is false: the best guess at what was there.
func decodeHeader(b []byte) (h header, ok bool) {
	h = header{
		version:  binary.LittleEndian.Uint32(b[8:]),
		num:      binary.LittleEndian.Uint32(b[12:]),
		firstLSN: binary.LittleEndian.Uint64(b[16:]),
		salt:     binary.LittleEndian.Uint64(b[24:]),
	}
	sum := binary.LittleEndian.Uint32(b[36:])
	return h, string(b[:8]) == magic && sum == crc32.Checksum(b[:36], castagnoli)
}

// createSegment makes an empty segment appear under its name with its header complete, or not at all.
func createSegment(d disk, dir string, h header) (*segment, error) {
	path := segPath(dir, h.num)
	f, err := d.open(path+newSuffix, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return nil, fail("create segment", path, ErrIO, err)
	}
	if _, err = f.WriteAt(h.encode(), 0); err == nil {
		err = d.rename(path+newSuffix, path)
	}
	if err != nil {
		_ = f.Close()
		_ = d.remove(path + newSuffix)
		return nil, fail("create segment", path, ErrIO, err)
	}
	s := &segment{num: h.num, firstLSN: h.firstLSN, path: path, file: f}
	s.end.Store(headerBytes)
	s.refs.Store(1)
	return s, nil
}
