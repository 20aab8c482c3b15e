package cas

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// When the checksum of a block is wrong, pebble looks for the one bit whose change would mend it, over the whole block for
// each of up to 327,680 bits, and then only says so in its message. For a block of 1 MiB that takes a minute of processor,
// each time that it is read. So blocks of more than checkFrom bytes are checked here before pebble sees them. Source:
// sstable/block.ValidateChecksum and internal/bitflip of pebble 2.1.7.
const checkFrom = 512

// Open opens a file to read it. Tables and their blob files are checked.
func (f *freezer) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.FS.Open(name, opts...)
	if err != nil || !strings.HasSuffix(name, ".sst") && !strings.HasSuffix(name, ".blob") {
		return file, err
	}
	return &tableFile{file}, nil
}

// tableFile is a table open for reading. Pebble reads a block with its trailer in one call, and nothing else of that size.
type tableFile struct{ vfs.File }

// ReadAt reads a block, or less.
func (f *tableFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	if err == nil && n == len(p) && n > checkFrom && !soundBlock(p) {
		return 0, fmt.Errorf("block %d/%d: checksum mismatch: %w", off, n, pebble.ErrCorruption)
	}
	return n, err
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// soundBlock says whether a block has the checksum that its trailer says.
//
// Shape: the bytes, their compression (1 byte), the checksum of both (4 bytes, little endian), masked as in LevelDB.
func soundBlock(b []byte) bool {
	end := len(b) - 4
	c := crc32.Checksum(b[:end], castagnoli)
	return binary.LittleEndian.Uint32(b[end:]) == (c>>15|c<<17)+0xa282ead8
}
