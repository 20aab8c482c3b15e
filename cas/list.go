package cas

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/zeebo/blake3"
)

const (
	listVersion = 1
	// listDomain keeps the sum of a list from ever being the ref of content.
	listDomain = "ttfs cas list\x00"
)

// chunkList is what a list record says: the size of a large blob and its
// chunks in order. chunks has ceil(sizeBytes/ChunkBytes) refs, at least 2.
type chunkList struct {
	sizeBytes int64
	chunks    []Ref
}

// chunkLen returns the content length of the i'th chunk.
func (l chunkList) chunkLen(i int) int {
	if i < len(l.chunks)-1 {
		return ChunkBytes
	}
	return int(l.sizeBytes - int64(i)*ChunkBytes)
}

// encodeList returns the record of l under ref.
func encodeList(ref Ref, l chunkList) []byte {
	b := appendListBody(nil, l)
	sum := listSum(ref, b)
	return append(b, sum[:]...)
}

func appendListBody(b []byte, l chunkList) []byte {
	b = append(b, listVersion)
	b = binary.AppendUvarint(b, uint64(l.sizeBytes))
	for _, c := range l.chunks {
		b = append(b, c[:]...)
	}
	return b
}

func listSum(ref Ref, body []byte) (sum Ref) {
	h := blake3.New()
	_, _ = h.WriteString(listDomain) // a hash never fails to write
	_, _ = h.Write(ref[:])
	_, _ = h.Write(body)
	h.Sum(sum[:0])
	return sum
}

// decodeList is the inverse of encodeList. The list it returns shares no
// memory with b.
func decodeList(ref Ref, b []byte) (chunkList, error) {
	if len(b) < len(ref) {
		return chunkList{}, errShort
	}
	body, sum := b[:len(b)-len(ref)], b[len(b)-len(ref):]
	if listSum(ref, body) != Ref(sum) {
		return chunkList{}, errors.New("checksum of the list is wrong")
	}
	return decodeListBody(body)
}

func decodeListBody(b []byte) (chunkList, error) {
	if len(b) < 2 {
		return chunkList{}, errShort
	}
	if b[0] != listVersion {
		return chunkList{}, fmt.Errorf("unknown list version %d", b[0])
	}
	size, n, err := uvarint(b[1:])
	if err != nil {
		return chunkList{}, err
	}
	b = b[1+n:]
	if size <= ChunkBytes || size > math.MaxInt64-ChunkBytes {
		return chunkList{}, fmt.Errorf("list of a blob of %d bytes", size)
	}
	count := (size + ChunkBytes - 1) / ChunkBytes
	if uint64(len(b)) != count*uint64(len(Ref{})) { // count < 2^44: no overflow
		return chunkList{}, fmt.Errorf("list of %d chunks has %d bytes", count, len(b))
	}
	l := chunkList{sizeBytes: int64(size), chunks: make([]Ref, count)}
	for i := range l.chunks {
		l.chunks[i] = Ref(b[i*len(Ref{}):])
	}
	return l, nil
}
