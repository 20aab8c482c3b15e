package overlay

import (
	"crypto/sha256"
	"io"

	"golang.org/x/sys/unix"
)

// mergeBase is what an object was at the last merge.
type mergeBase struct {
	parent OID
	meta   meta
	sum    [32]byte
	bytes  *content // of not more than mergedText; nil: not kept
}

// remember puts into the fork's record what an object is when it is merged.
func (m *merge) remember(v *view, r *ref, mt meta, bytes *mergeBytes, fork, parent OID) ([]byte, error) {
	base := mergeBase{parent: parent, meta: mt}
	var err error
	if r.kind == unix.S_IFREG {
		if bytes == nil {
			if bytes, err = m.read(v, r); err != nil {
				return nil, err
			}
		}
		if base.sum, err = bytes.sum(v, r); err != nil {
			return nil, err
		}
		if bytes.size <= mergedText {
			if base.bytes, err = m.keep(v, r, bytes); err != nil {
				return nil, err
			}
		}
	}
	// The bytes have a piece's key, so that their blob is known to be needed.
	if base.bytes != nil {
		for i := range base.bytes.pieces {
			m.b.Put(pieceKey(mergedRun, fork, 0), base.bytes.pieces[i].encode())
		}
	}
	v2 := base.encode()
	m.b.Put(key(kMergedAs, uint64(fork)), v2)
	return v2, nil
}

// mergeBytes is a file of the fork as it is read for a merge: once, if it is small.
type mergeBytes struct {
	size int64
	data []byte   // all of it, up to smallBytes; nil for a bigger one
	is   *content // as it is recorded; nil: nobody has asked
}

func (m *merge) read(v *view, r *ref) (*mergeBytes, error) {
	rd, size, done, err := v.reader(r)
	if err != nil {
		return nil, err
	}
	defer done()
	k := &mergeBytes{size: size}
	if size <= smallBytes {
		k.data = make([]byte, size)
		if _, err := rd.ReadAt(k.data, 0); err != nil && err != io.EOF {
			return nil, err
		}
	}
	return k, nil
}

func (k *mergeBytes) sum(v *view, r *ref) ([32]byte, error) {
	if k.data != nil {
		return sha256.Sum256(k.data), nil
	}
	return sumOf(v, r)
}

// keep is all the bytes of a file, in the record or as a blob of the workspace's.
func (m *merge) keep(v *view, r *ref, k *mergeBytes) (*content, error) {
	if k.is != nil {
		return k.is, nil
	}
	var err error
	if k.data != nil {
		k.is, err = m.keepReader(bytesReader(k.data), k.size)
		return k.is, err
	}
	rd, size, done, err := v.reader(r)
	if err != nil {
		return nil, err
	}
	defer done()
	k.is, err = m.keepReader(rd, size)
	return k.is, err
}

// mergedRun is the number under which a fork keeps the bytes of the last merge.
const mergedRun = epochBit | atBit

func (b *mergeBase) encode() []byte {
	var e enc
	e.u(uint64(b.parent))
	e.raw(b.meta.encode())
	e.raw(b.sum[:])
	e.flag(b.bytes != nil)
	if b.bytes != nil {
		e.u(uint64(b.bytes.size))
	}
	return e.b
}

func decodeMergeBase(v []byte) (*mergeBase, error) {
	d := dec{b: v}
	b := &mergeBase{parent: OID(d.u())}
	var err error
	if b.meta, err = decodeMeta(d.raw()); err != nil {
		return b, err
	}
	copy(b.sum[:], d.raw())
	if d.flag() {
		b.bytes = &content{size: int64(d.u())}
	}
	return b, d.err
}

// baseBytes is the bytes of an object at the last merge; ok is false where they were not kept.
func (m *merge) baseBytes(parent OID) (b []byte, ok bool, err error) {
	base := m.recorded[parent]
	if base == nil || base.bytes == nil {
		return nil, false, nil
	}
	b = make([]byte, base.bytes.size)
	if len(b) == 0 {
		return b, true, nil
	}
	v, found, err := m.f.j.Get(pieceKey(mergedRun, m.of[parent], 0))
	if err != nil || !found {
		return nil, false, err
	}
	p, err := decodePiece(0, v)
	if err != nil {
		return nil, false, err
	}
	rd, err := m.f.openPiece(&p)
	if err != nil {
		return nil, false, err
	}
	defer rd.close()
	if _, err := rd.ReadAt(b, 0); err != nil && err != io.EOF {
		return nil, false, err
	}
	return b, true, nil
}
