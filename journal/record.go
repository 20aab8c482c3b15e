package journal

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

const (
	// recordHead is the length in bytes of what comes before the payload of a record.
	recordHead = 16
	// minPayload is the length in bytes of the shortest payload: delete of the empty key.
	minPayload = 2
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errMalformed: the checksum fits and the operations do not parse.
var errMalformed = errors.New("malformed operation")

// foldSalt turns the salt of a journal into the start value of its checksums.
func foldSalt(salt uint64) uint32 { return uint32(salt) ^ uint32(salt>>32) }

// payloadSum is the part of a record's checksum that does not need the LSN.
func payloadSum(seed uint32, payload []byte) uint32 { return crc32.Update(seed, castagnoli, payload) }

// sealRecord fills the head of rec, whose payload has the checksum sum.
func sealRecord(rec []byte, sum uint32, lsn uint64) {
	binary.LittleEndian.PutUint32(rec[0:], uint32(len(rec)-recordHead))
	binary.LittleEndian.PutUint64(rec[8:], lsn)
	binary.LittleEndian.PutUint32(rec[4:], crc32.Update(sum, castagnoli, rec[8:16]))
}

// recordShape reads the head of a record: the length in bytes of its payload and its LSN.
func recordShape(head []byte) (payload int64, lsn uint64) {
	return int64(binary.LittleEndian.Uint32(head)), binary.LittleEndian.Uint64(head[8:])
}

// recordFits checks the whole record rec, head included.
func recordFits(seed uint32, rec []byte) bool {
	sum := crc32.Update(payloadSum(seed, rec[recordHead:]), castagnoli, rec[8:16])
	return sum == binary.LittleEndian.Uint32(rec[4:])
}

// op is one decoded operation; its slices point into the payload.
type op struct {
	kind  byte
	key   []byte
	value []byte
	// valueOff is where value begins in the payload.
	valueOff int
}

// decodeOps calls fn with each operation of payload, in order, until one does not parse.
func decodeOps(payload []byte, fn func(op)) error {
	for at := 0; at < len(payload); {
		o, next, err := decodeOp(payload, at)
		if err != nil {
			return err
		}
		fn(o)
		at = next
	}
	return nil
}

func decodeOp(payload []byte, at int) (o op, next int, err error) {
	o.kind = payload[at]
	if o.kind < opPut || o.kind > opDeletePrefix {
		return op{}, 0, errMalformed
	}
	if o.key, _, at, err = decodeBytes(payload, at+1); err != nil || o.kind != opPut {
		return o, at, err
	}
	o.value, o.valueOff, at, err = decodeBytes(payload, at)
	return o, at, err
}

// decodeBytes reads a length and that many bytes; from is where the bytes begin.
func decodeBytes(payload []byte, at int) (b []byte, from, next int, err error) {
	n, size := binary.Uvarint(payload[at:])
	if size <= 0 || n > uint64(len(payload)-at-size) {
		return nil, 0, 0, errMalformed
	}
	from = at + size
	next = from + int(n)
	return payload[from:next:next], from, next, nil
}

// opsFit says whether the whole payload parses, so that nothing of a malformed record is applied.
func opsFit(payload []byte) bool {
	return len(payload) >= minPayload && decodeOps(payload, func(op) {}) == nil
}
