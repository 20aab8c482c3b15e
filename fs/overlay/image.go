package overlay

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/ttfs/ttfs/journal"
	"github.com/ttfs/ttfs/tasktree"
)

// images are all that a task keeps: of every entry, metadata and content that it touched, what was there before it (or,
// while it is undone, after it).
type images struct {
	entries  map[spot]OID // 0: nothing was there
	metas    map[OID]meta
	contents map[OID]*content
}

func newImages() *images {
	return &images{entries: map[spot]OID{}, metas: map[OID]meta{}, contents: map[OID]*content{}}
}

// content is what a file's bytes were, as far as they were overwritten: to have it back, write the pieces and set the
// size.
type content struct {
	size   int64
	pieces []piece // ascending, not overlapping
}

// pieceKind says where the bytes of a piece are.
type pieceKind uint8

const (
	pieceInline pieceKind = iota // in the record
	pieceHole                    // nowhere: a hole
	pieceCopy                    // in a file in hold, from its start, with its holes
	pieceBlob                    // in the store
	piecePacked                  // in the record, compressed
)

// piece is bytes [off, off+size) of a file.
type piece struct {
	off, size int64
	kind      pieceKind
	data      []byte   // pieceInline, piecePacked
	copy      copyID   // pieceCopy
	ref       [32]byte // pieceBlob
	holes     []span   // pieceBlob: what of it was a hole, relative to off
}

func (p *piece) encode() []byte {
	e := enc{b: make([]byte, 0, len(p.data)+24)}
	e.u(uint64(p.kind))
	e.u(uint64(p.size))
	switch p.kind {
	case pieceInline, piecePacked:
		e.raw(p.data)
	case pieceCopy:
		e.u(uint64(p.copy))
	case pieceBlob:
		e.raw(p.ref[:])
		e.u(uint64(len(p.holes)))
		for _, h := range p.holes {
			e.u(uint64(h.from))
			e.u(uint64(h.to))
		}
	}
	return e.b
}

func decodePiece(off int64, b []byte) (piece, error) {
	d := dec{b: b}
	p := piece{off: off, kind: pieceKind(d.u()), size: int64(d.u())}
	switch p.kind {
	case pieceInline:
		p.data = slices.Clone(d.raw())
		if int64(len(p.data)) != p.size {
			d.err = errShort
		}
	case piecePacked:
		if p.data = slices.Clone(d.raw()); !packedSize(p.data, p.size) {
			d.err = errShort
		}
	case pieceHole:
	case pieceCopy:
		p.copy = copyID(d.u())
	case pieceBlob:
		ref := d.raw()
		if copy(p.ref[:], ref) != len(ref) || len(ref) != len(p.ref) {
			d.err = errShort
		}
		for n := d.u(); n > 0 && d.err == nil; n-- {
			h := span{int64(d.u()), int64(d.u())}
			if h.from < 0 || h.to < h.from || h.to > p.size {
				d.err = errShort
			}
			p.holes = append(p.holes, h)
		}
	default:
		d.err = errShort
	}
	if p.size < 0 || p.off < 0 || p.off > p.off+p.size {
		d.err = errShort
	}
	return p, d.err
}

func entryKey(t tasktree.TaskID, s spot) []byte {
	return append(key(kEntry, uint64(t), uint64(s.dir)), s.name...)
}
func metaKey(t tasktree.TaskID, o OID) []byte    { return key(kMeta, uint64(t), uint64(o)) }
func contentKey(t tasktree.TaskID, o OID) []byte { return key(kContent, uint64(t), uint64(o)) }
func pieceKey(t tasktree.TaskID, o OID, off int64) []byte {
	return key(kPiece, uint64(t), uint64(o), uint64(off))
}

func encodeNumber(v uint64) []byte {
	return binary.AppendUvarint(make([]byte, 0, binary.MaxVarintLen64), v)
}

// add reads one stored image. k is the key without what may stand before its letter.
func (im *images) add(k, v []byte) error {
	d := dec{b: v}
	switch k[0] {
	case kEntry:
		if len(k) < 17 {
			return errShort
		}
		im.entries[spot{OID(keyNum(k, 1)), string(k[17:])}] = OID(d.u())
		return d.err
	case kMeta:
		m, err := decodeMeta(v)
		im.metas[OID(keyNum(k, 1))] = m
		return err
	case kContent:
		o := OID(keyNum(k, 1))
		if im.contents[o] == nil {
			im.contents[o] = &content{}
		}
		if im.contents[o].size = int64(d.u()); im.contents[o].size < 0 {
			return errShort
		}
		return d.err
	case kPiece:
		o := OID(keyNum(k, 1))
		p, err := decodePiece(int64(keyNum(k, 2)), v)
		if im.contents[o] == nil {
			im.contents[o] = &content{}
		}
		im.contents[o].pieces = append(im.contents[o].pieces, p)
		return err
	}
	return errShort
}

// readImages reads what a task keeps. Errors: Pruned, Damaged, IO.
func (e *Engine) readImages(t tasktree.TaskID) (*images, error) {
	return e.readImagesAt(nil, t)
}

func (e *Engine) readImagesAt(before []byte, t tasktree.TaskID) (*images, error) {
	if e.isPruned(t) {
		return nil, fail("read", fmt.Sprintf("task %d", t), Pruned, nil)
	}
	im := newImages()
	for _, letter := range []byte{kEntry, kMeta, kContent, kPiece} {
		err := e.j.Scan(append(slices.Clone(before), key(letter, uint64(t))...), func(k, v []byte) error {
			return im.add(k[len(before):], v)
		})
		if err != nil {
			return nil, storeError("read the images of a task", err)
		}
	}
	return im, nil
}

// put writes the images of a task, with something before their keys.
func (im *images) put(b *journal.Batch, before []byte, t tasktree.TaskID) {
	at := func(k []byte) []byte { return append(slices.Clone(before), k...) }
	b.Grow(im.recordBytes())
	for s, o := range im.entries {
		b.Put(at(entryKey(t, s)), encodeNumber(uint64(o)))
	}
	for o, m := range im.metas {
		b.Put(at(metaKey(t, o)), m.encode())
	}
	for o, c := range im.contents {
		b.Put(at(contentKey(t, o)), encodeNumber(uint64(c.size)))
		for i := range c.pieces {
			c.pieces[i].put(b, at(pieceKey(t, o, c.pieces[i].off)))
		}
	}
}

// recordBytes is about what images take in a record.
func (im *images) recordBytes() int {
	const each = 128
	n := each * (len(im.entries) + len(im.metas) + len(im.contents))
	for _, c := range im.contents {
		for i := range c.pieces {
			n += each + len(c.pieces[i].data)
		}
	}
	return n
}

// drop deletes the stored images of a task.
func (im *images) drop(b *journal.Batch, before []byte, t tasktree.TaskID) {
	for _, letter := range []byte{kEntry, kMeta, kContent, kPiece} {
		b.DeletePrefix(append(slices.Clone(before), key(letter, uint64(t))...))
	}
}

// forget deletes these images, one by one, from those that are stored of a task.
func (im *images) forget(b *journal.Batch, t tasktree.TaskID) {
	for s := range im.entries {
		b.Delete(entryKey(t, s))
	}
	for o := range im.metas {
		b.Delete(metaKey(t, o))
	}
	for o, c := range im.contents {
		b.Delete(contentKey(t, o))
		for i := range c.pieces {
			b.Delete(pieceKey(t, o, c.pieces[i].off))
		}
	}
}

func sortedOIDs[V any](m map[OID]V) []OID { return slices.Sorted(maps.Keys(m)) }

func sortedSpots(m map[spot]OID) []spot {
	return slices.SortedFunc(maps.Keys(m), func(a, b spot) int {
		if a.dir != b.dir {
			if a.dir < b.dir {
				return -1
			}
			return 1
		}
		if a.name < b.name {
			return -1
		}
		if a.name > b.name {
			return 1
		}
		return 0
	})
}
