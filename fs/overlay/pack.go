package overlay

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/ttfs/ttfs/journal"
)

// Bytes that are kept in a record are compressed where that pays. It is done before the record is made, while the program
// waits: so the compression is s2's, which takes 2 µs for a page of text and next to nothing for bytes that do not
// compress, since it looks at ever fewer of them. The archiver compresses better, and later.

const (
	// packMin is from how many bytes on compression is tried: less is not worth a piece of its own kind.
	packMin = 256
	// packMax bounds what a packed piece unpacks to. None is made above smallBytes; a longer one is damage.
	packMax = 1 << 20
)

// packs are buffers for what s2 makes of smallBytes.
var packs = sync.Pool{New: func() any { b := make([]byte, s2.MaxEncodedLen(smallBytes)); return &b }}

// keepData makes the piece of bytes that are kept in the record. data may be used again by the caller.
func keepData(off int64, data []byte) piece {
	p := piece{off: off, size: int64(len(data)), kind: pieceInline}
	if len(data) >= packMin && len(data) <= smallBytes {
		buf := packs.Get().(*[]byte)
		defer packs.Put(buf)
		if b := s2.Encode(*buf, data); len(b) <= len(data)-len(data)/8 {
			p.kind, p.data = piecePacked, slices.Clone(b)
			return p
		}
	}
	p.data = slices.Clone(data)
	return p
}

// put puts a piece into a record, without the copy of its bytes that encode makes.
func (p *piece) put(b *journal.Batch, k []byte) {
	if !p.inRecord() {
		b.Put(k, p.encode())
		return
	}
	head := enc{b: make([]byte, 0, 3*binary.MaxVarintLen64)}
	head.u(uint64(p.kind))
	head.u(uint64(p.size))
	head.u(uint64(len(p.data)))
	b.PutJoined(k, head.b, p.data)
}

// inRecord says whether the piece's bytes are in its record.
func (p *piece) inRecord() bool { return p.kind == pieceInline || p.kind == piecePacked }

// unpack is the bytes of a piece that are in the record; they are not the caller's. Errors: Damaged.
func (p *piece) unpack() ([]byte, error) {
	if p.kind == pieceInline {
		return p.data, nil
	}
	b, err := s2.Decode(make([]byte, p.size), p.data)
	if err == nil && int64(len(b)) != p.size {
		err = fmt.Errorf("%d bytes where %d are to be", len(b), p.size)
	}
	if err != nil {
		return nil, fail("unpack", "", Damaged, err)
	}
	return b, nil
}

// packedSize says whether a packed piece of so many bytes can be what it says.
func packedSize(data []byte, size int64) bool {
	n, err := s2.DecodedLen(data)
	return err == nil && size <= packMax && int64(n) == size
}
