package cas

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// ChunkBytes is the largest content that is kept in one piece. Larger content
// is cut into chunks of exactly this size, the last one excepted.
const ChunkBytes = 1 << 20

// The codecs of a chunk, as on disk.
const (
	codecRaw  = 0
	codecZstd = 1
	codecZero = 2
)

// minCompressBytes: below it a zstd frame is never smaller than its content.
const minCompressBytes = 32

// codec turns content into chunk records and back. It is safe for concurrent
// use.
type codec struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
	// zeroRef is the ref of ChunkBytes zero bytes: holes need not be hashed.
	zeroRef func() Ref
}

func newCodec() (*codec, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(2), zstd.WithWindowSize(ChunkBytes),
		zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, err
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(2*ChunkBytes), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return nil, err
	}
	return &codec{enc: enc, dec: dec, zeroRef: sync.OnceValue(func() Ref { return SumBytes(make([]byte, ChunkBytes)) })}, nil
}

func (c *codec) close() {
	_ = c.enc.Close() // an encoder without a writer has nothing to flush
	c.dec.Close()
}

// encode returns the record of content, which it does not keep.
func (c *codec) encode(content []byte) []byte {
	if len(content) > 0 && isZero(content) {
		return chunkHeader(codecZero, len(content), 0)
	}
	if len(content) >= minCompressBytes {
		rec := chunkHeader(codecZstd, len(content), len(content)/2)
		head := len(rec)
		if rec = c.enc.EncodeAll(content, rec); len(rec)-head < len(content) {
			return rec
		}
	}
	return append(chunkHeader(codecRaw, len(content), len(content)), content...)
}

func chunkHeader(kind byte, sizeBytes, room int) []byte {
	rec := make([]byte, 1, 1+binary.MaxVarintLen64+room)
	rec[0] = kind
	return binary.AppendUvarint(rec, uint64(sizeBytes))
}

// decode returns the content of a record in memory of its own. It checks the
// form, not the hash.
func (c *codec) decode(rec []byte) ([]byte, error) {
	kind, sizeBytes, payload, err := splitChunk(rec)
	if err != nil {
		return nil, err
	}
	switch kind {
	case codecRaw:
		if len(payload) != sizeBytes {
			return nil, fmt.Errorf("chunk of %d bytes has %d", sizeBytes, len(payload))
		}
		return append(make([]byte, 0, sizeBytes), payload...), nil
	case codecZero:
		if len(payload) != 0 {
			return nil, fmt.Errorf("chunk of zeros has a payload of %d bytes", len(payload))
		}
		return make([]byte, sizeBytes), nil
	case codecZstd:
		b, err := c.dec.DecodeAll(payload, make([]byte, 0, sizeBytes))
		if err != nil {
			return nil, err
		}
		if len(b) != sizeBytes {
			return nil, fmt.Errorf("chunk of %d bytes unpacks to %d", sizeBytes, len(b))
		}
		return b, nil
	}
	return nil, fmt.Errorf("unknown codec %d", kind)
}

// open is decode plus the check that the content is what ref names.
func (c *codec) open(ref Ref, rec []byte) ([]byte, error) {
	b, err := c.decode(rec)
	if err != nil {
		return nil, err
	}
	if rec[0] == codecZero && len(b) == ChunkBytes && ref == c.zeroRef() {
		return b, nil
	}
	if got := SumBytes(b); got != ref {
		return nil, fmt.Errorf("content hashes to %s", got)
	}
	return b, nil
}

var (
	errShort  = errors.New("record is too short")
	errVarint = errors.New("size is not a shortest uvarint")
)

func splitChunk(rec []byte) (kind byte, sizeBytes int, payload []byte, err error) {
	if len(rec) < 2 {
		return 0, 0, nil, errShort
	}
	size, n, err := uvarint(rec[1:])
	if err != nil {
		return 0, 0, nil, err
	}
	if size > ChunkBytes {
		return 0, 0, nil, fmt.Errorf("chunk of %d bytes is above the limit of %d", size, ChunkBytes)
	}
	return rec[0], int(size), rec[1+n:], nil
}

// uvarint decodes the shortest form only, so that a record has one spelling.
func uvarint(b []byte) (value uint64, n int, err error) {
	value, n = binary.Uvarint(b)
	if n <= 0 || (n > 1 && b[n-1] == 0) {
		return 0, 0, errVarint
	}
	return value, n, nil
}

// isZero: all bytes equal the one before, and the first is zero.
func isZero(b []byte) bool {
	return len(b) == 0 || b[0] == 0 && bytes.Equal(b[1:], b[:len(b)-1])
}
