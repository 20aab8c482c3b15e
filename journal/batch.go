package journal

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
)

const (
	opPut          = byte(1)
	opDelete       = byte(2)
	opDeletePrefix = byte(3)

	// MaxBatchBytes bounds one batch: keys, values and a few bytes per operation.
	MaxBatchBytes = 1 << 30

	// inlineMax is the longest value, in bytes, that memtable and index hold themselves.
	inlineMax = 512

	// opOverhead is more than what an operation adds to its key and value.
	opOverhead = 32
	// firstRoom is how many bytes a batch has room for from its first operation on.
	firstRoom = 480
)

// Batch is an ordered list of changes that Commit applies as one: all or none, later ones win. The zero value is empty and
// ready. Keys and values are copied. Not for concurrent use, nor while it is being committed; it may be committed again.
type Batch struct {
	// buf is the record as it goes to disk: room for its head, then the payload.
	buf []byte
	// sums are the checksums of the values above inlineMax, in order: computed here, outside of the journal's locks.
	sums   []uint32
	tooBig bool
}

// Put sets key to value.
func (b *Batch) Put(key, value []byte) { b.PutJoined(key, value, nil) }

// PutJoined sets key to head and tail, one after the other: who has a large value in two parts need not join them.
func (b *Batch) PutJoined(key, head, tail []byte) {
	size := len(head) + len(tail)
	if !b.room(len(key) + size) {
		return
	}
	b.key(opPut, key)
	b.buf = binary.AppendUvarint(b.buf, uint64(size))
	b.buf = append(append(b.buf, head...), tail...)
	if size > inlineMax {
		b.sums = append(b.sums, crc32.Checksum(b.buf[len(b.buf)-size:], castagnoli))
	}
}

// Delete removes key, if it is there.
func (b *Batch) Delete(key []byte) {
	if b.room(len(key)) {
		b.key(opDelete, key)
	}
}

// DeletePrefix removes every key that begins with prefix; all keys when it is empty.
func (b *Batch) DeletePrefix(prefix []byte) {
	if b.room(len(prefix)) {
		b.key(opDeletePrefix, prefix)
	}
}

// Empty says whether there is nothing to commit.
func (b *Batch) Empty() bool { return len(b.buf) == 0 && !b.tooBig }

// Size is the number of bytes that Commit would write.
func (b *Batch) Size() int { return len(b.buf) }

// Reset empties the batch and keeps its memory for the next one.
func (b *Batch) Reset() { b.buf, b.sums, b.tooBig = b.buf[:0], b.sums[:0], false }

// Grow makes room for keys and values of n bytes in all, for who puts much: a batch that grows by and by is copied again and
// again.
func (b *Batch) Grow(n int) {
	if n > 0 && n <= MaxBatchBytes {
		b.buf = slices.Grow(b.buf, recordHead+n)
	}
}

// room makes room for keys and values of n bytes. Most records are of a few hundred bytes: the first operation makes room
// for all of them at once.
func (b *Batch) room(n int) bool {
	if n > MaxBatchBytes || len(b.buf)+n+opOverhead > MaxBatchBytes {
		b.tooBig = true
		return false
	}
	if b.buf == nil {
		b.buf = make([]byte, 0, recordHead+max(n+opOverhead, firstRoom))
	}
	b.buf = slices.Grow(b.buf, n+opOverhead)
	return !b.tooBig
}

func (b *Batch) key(kind byte, key []byte) {
	if len(b.buf) == 0 {
		b.buf = append(b.buf, make([]byte, recordHead)...)
	}
	b.buf = append(b.buf, kind)
	b.buf = binary.AppendUvarint(b.buf, uint64(len(key)))
	b.buf = append(b.buf, key...)
}
