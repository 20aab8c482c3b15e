package overlay

import (
	"encoding/binary"
	"errors"
)

// errShort says that a stored record ends too early or says nonsense.
var errShort = errors.New("malformed record")

// enc builds a stored record: unsigned varints, and strings led by their length.
type enc struct{ b []byte }

// encoder is one with room for so many bytes.
func encoder(bytes int) enc { return enc{make([]byte, 0, bytes)} }

func (e *enc) u(v uint64)   { e.b = binary.AppendUvarint(e.b, v) }
func (e *enc) i(v int64)    { e.b = binary.AppendVarint(e.b, v) }
func (e *enc) s(v string)   { e.u(uint64(len(v))); e.b = append(e.b, v...) }
func (e *enc) raw(v []byte) { e.u(uint64(len(v))); e.b = append(e.b, v...) }
func (e *enc) flag(v bool) {
	if v {
		e.u(1)
	} else {
		e.u(0)
	}
}

// dec reads one; the first error stays and everything after it is zero.
type dec struct {
	b   []byte
	err error
}

func (d *dec) u() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || d.err != nil {
		d.err = errShort
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *dec) i() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 || d.err != nil {
		d.err = errShort
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *dec) raw() []byte {
	n := d.u()
	if d.err != nil || n > uint64(len(d.b)) {
		d.err = errShort
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

func (d *dec) s() string  { return string(d.raw()) }
func (d *dec) flag() bool { return d.u() != 0 }

// Keys are a letter and big-endian numbers, so that a scan of a prefix is in the order of the numbers.
func key(letter byte, nums ...uint64) []byte {
	k := make([]byte, 1, 1+8*len(nums)+16)
	k[0] = letter
	for _, n := range nums {
		k = binary.BigEndian.AppendUint64(k, n)
	}
	return k
}

func keyNum(k []byte, at int) uint64 {
	if len(k) < 1+8*(at+1) {
		return 0
	}
	return binary.BigEndian.Uint64(k[1+8*at:])
}

// The letters of the keys; docs/format.md has the values, and all the other letters.
const (
	kCounter = 'S' // name                    -> the next number to give
	kTask    = 'T' // task                    -> the task
	kActive  = 'A' // agent                   -> its active task
	kLast    = 'L' // parent, agent           -> the child that redo goes to
	kObject  = 'O' // object                  -> kind, inode, places
	kInode   = 'N' // inode number, birth     -> object
	kEntry   = 'E' // task, directory, name   -> object, or none
	kMeta    = 'M' // task, object            -> mode, owner, times, attributes
	kContent = 'C' // task, object            -> size, and whether all of it is kept
	kPiece   = 'D' // task, object, offset    -> bytes that were there
	kMove    = 'P' //                         -> the move that is under way
	kNew     = 'X' // key of an image         -> what it will be when the step is made
)
