package overlay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/ttfs/ttfs/journal"
	"golang.org/x/sys/unix"
)

// What was kept for forks that are gone goes by itself, in the background: a fork is discarded in a time that does not depend
// on what its parent has changed since.
//
// An epoch that is needed by no fork, and before which none is needed, goes with all its images. One in the middle is told
// into the one before it: of each thing that one has no image of, it gets this one's; of the rest only what it lacks of the
// bytes. So there are never more epochs than forks and one, the newest, and each thing is kept once for each fork that can
// see it otherwise. It goes image by image, so that a death leaves the two as right as they were before.

// trimBatch is how many images are told in one record. Who reads a fork or moves waits for one.
const trimBatch = 256

// errEnough ends a scan.
var errEnough = errors.New("enough")

// trimEpochs lets go of the epochs that no fork needs; endEpochs then drops their images. After a death in between it is done
// at the next open. Preconditions: exclusive, and forks.changing is held.
func (e *Engine) trimEpochs() {
	t := &e.epochs
	needed := e.forks.oldest()
	e.needEpochs()
	t.mu.Lock()
	defer t.mu.Unlock()
	gone := len(t.live)
	if needed != 0 {
		gone, _ = slices.BinarySearch(t.live, needed)
	}
	t.dead = append(t.dead, t.live[:gone]...)
	if t.live = slices.Clone(t.live[gone:]); len(t.live) == 0 {
		t.newest.Store(nil)
	}
}

// needEpochs notes which epochs forks need. Preconditions: forks.changing is held.
func (e *Engine) needEpochs() {
	needed := map[epoch]bool{}
	for _, f := range e.forks.list() {
		needed[f.epoch] = true
	}
	e.epochs.mu.Lock()
	defer e.epochs.mu.Unlock()
	e.epochs.needed = needed
}

// endEpochs drops what is kept for no fork, and removes what is left of discarded ones. What fails is tried again at the next
// open. Preconditions: past is not held.
func (e *Engine) endEpochs() error {
	if err := e.removeGone(); err != nil {
		return storeError("remove a fork", err)
	}
	for !e.ending.Load() {
		more, err := e.endEpoch()
		if err != nil || !more {
			return storeError("end an epoch", err)
		}
	}
	return nil
}

// endEpoch does a part of it.
func (e *Engine) endEpoch() (more bool, err error) {
	// A sweep would not find what is on its way from one key to another. Who waited here for a merge would keep back the others.
	if !e.pruneMu.TryLock() {
		return false, nil // who has it asks for it to be done
	}
	defer e.pruneMu.Unlock()
	if e.closed.Load() {
		return false, nil
	}
	dead, from, into := e.epochs.idle()
	switch {
	case dead != 0:
		return true, e.dropEpoch(dead)
	case from != 0:
		e.past.Lock()
		defer e.past.Unlock()
		if dead, is, to := e.epochs.idle(); dead != 0 || is != from || to != into {
			return true, nil
		}
		return true, e.tellEpoch(from, into)
	}
	return false, nil
}

// idle is an epoch that is to go with all its images, or one that is to be told into the one before it; 0: there is none.
func (t *epochTable) idle() (dead, from, into epoch) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if len(t.dead) > 0 {
		return t.dead[0], 0, 0
	}
	for i := 1; i < len(t.live)-1; i++ {
		if !t.needed[t.live[i]] {
			return 0, t.live[i], t.live[i-1]
		}
	}
	return 0, 0, 0
}

// dropEpoch drops an epoch that nobody looks into any more.
func (e *Engine) dropEpoch(n epoch) error {
	var copies []copyID
	err := e.j.Scan(key(kPiece, uint64(n.run())), func(k, v []byte) error {
		p, err := decodePiece(0, v)
		if p.kind == pieceCopy {
			copies = append(copies, p.copy)
		}
		return err
	})
	if err != nil {
		return err
	}
	var b journal.Batch
	newImages().drop(&b, nil, n.run())
	b.DeletePrefix(key(kLinks, uint64(n.run())))
	b.Delete(key(kEpoch, uint64(n)))
	if err := e.point("trim"); err != nil {
		return err
	}
	if err := e.j.CommitFreeing(&b); err != nil {
		return err
	}
	t := &e.epochs
	t.mu.Lock()
	t.dead = slices.DeleteFunc(slices.Clone(t.dead), func(d epoch) bool { return d == n })
	t.mu.Unlock()
	for _, c := range copies {
		e.dropCopy(c)
	}
	return nil
}

// tellEpoch gives some images of an epoch to the one before it, and ends it when it has none. Preconditions: pruneMu is held,
// and past for writing.
func (e *Engine) tellEpoch(from, into epoch) error {
	e.blobMu.RLock()
	defer e.blobMu.RUnlock()
	tell := &telling{e: e, from: from, into: into}
	for _, letter := range []byte{kEntry, kMeta, kLinks} {
		if err := tell.plain(letter); err != nil {
			return err
		}
	}
	if tell.n < trimBatch {
		if err := tell.contents(); err != nil {
			return err
		}
	}
	t := &e.epochs
	if tell.n == 0 {
		tell.b.Delete(key(kEpoch, uint64(from)))
	}
	if tell.blobs {
		if err := e.blobs.Sync(); err != nil {
			return err
		}
	}
	if err := e.point("trim"); err != nil {
		return err
	}
	if err := e.j.CommitFreeing(&tell.b); err != nil {
		return err
	}
	if tell.n == 0 {
		t.mu.Lock()
		t.live = slices.DeleteFunc(slices.Clone(t.live), func(n epoch) bool { return n == from })
		t.mu.Unlock()
	}
	for _, c := range tell.copies {
		e.dropCopy(c)
	}
	return nil
}

// telling is one record of it.
type telling struct {
	e          *Engine
	from, into epoch
	b          journal.Batch
	n          int      // images in it
	copies     []copyID // that nothing refers to after it
	blobs      bool     // some were put
}

// rekey is a key of the one epoch as one of the other.
func (t *telling) rekey(k []byte) []byte {
	out := slices.Clone(k)
	binary.BigEndian.PutUint64(out[1:], uint64(t.into.run()))
	return out
}

// plain tells images that are one record each.
func (t *telling) plain(letter byte) error {
	err := t.e.j.Scan(key(letter, uint64(t.from.run())), func(k, v []byte) error {
		if t.n >= trimBatch {
			return errEnough
		}
		t.n++
		to := t.rekey(k)
		_, has, err := t.e.j.Get(to)
		if err != nil {
			return err
		}
		if !has {
			t.b.Put(to, v)
		}
		t.b.Delete(slices.Clone(k))
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// contents tells the content of files, each with all its pieces.
func (t *telling) contents() error {
	err := t.e.j.Scan(key(kContent, uint64(t.from.run())), func(k, v []byte) error {
		if t.n >= trimBatch {
			return errEnough
		}
		if len(k) != 17 {
			return errShort
		}
		t.n++
		return t.content(OID(keyNum(k, 1)), slices.Clone(k), v)
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

func (t *telling) content(id OID, k, v []byte) error {
	to := t.rekey(k)
	was, has, err := t.e.j.Get(to)
	if err != nil {
		return err
	}
	d := dec{b: v}
	size := int64(d.u())
	cov := &covered{size: size}
	if has {
		d := dec{b: was}
		if cov.size = int64(d.u()); d.err != nil {
			return d.err
		}
		if err := t.e.j.Scan(key(kPiece, uint64(t.into.run()), uint64(id)), func(k, v []byte) error {
			d := dec{b: v}
			d.u()
			off, n := int64(keyNum(k, 2)), int64(d.u())
			cov.add(off, off+n)
			return d.err
		}); err != nil {
			return err
		}
	} else {
		t.b.Put(to, v)
	}
	if d.err != nil {
		return d.err
	}
	t.b.Delete(k)
	err = t.e.j.Scan(key(kPiece, uint64(t.from.run()), uint64(id)), func(k, v []byte) error {
		t.b.Delete(slices.Clone(k))
		off := int64(keyNum(k, 2))
		p, err := decodePiece(off, v)
		if err != nil {
			return err
		}
		gaps := cov.gaps(off, off+p.size)
		if !has || len(gaps) == 1 && gaps[0] == (span{off, off + p.size}) {
			t.b.Put(t.rekey(k), v)
			cov.add(off, off+p.size)
			return nil
		}
		for _, g := range gaps {
			if err := t.cut(id, &p, g); err != nil {
				return err
			}
			cov.add(g.from, g.to)
		}
		if p.kind == pieceCopy {
			t.copies = append(t.copies, p.copy)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, g := range cov.gaps(size, cov.size) { // the file was shorter at the later of the two
		t.put(id, &piece{off: g.from, size: g.to - g.from, kind: pieceHole})
	}
	return nil
}

func (t *telling) put(id OID, p *piece) { p.put(&t.b, pieceKey(t.into.run(), id, p.off)) }

// cut tells a part of a piece.
func (t *telling) cut(id OID, p *piece, g span) error {
	part := piece{off: g.from, size: g.to - g.from, kind: pieceHole}
	if p.kind == pieceHole {
		t.put(id, &part)
		return nil
	}
	rd, err := t.e.openPiece(p)
	if err != nil {
		return err
	}
	defer rd.close()
	bytes := io.NewSectionReader(rd, g.from-p.off, part.size)
	if part.size <= smallBytes {
		b := make([]byte, part.size)
		if _, err := io.ReadFull(bytes, b); err != nil {
			return err
		}
		part = keepData(g.from, b)
	} else {
		ref, n, err := t.e.blobs.PutReader(bytes)
		if err != nil {
			return err
		}
		if n != part.size {
			return fmt.Errorf("a piece of object %d: %w", id, io.ErrUnexpectedEOF)
		}
		part.kind, part.ref, t.blobs = pieceBlob, ref, true
	}
	t.put(id, &part)
	return nil
}

// gonePrefix is how a directory begins that is left of a fork; no fork has such a name.
const gonePrefix = ".gone-"

// removeGone removes the directories of forks that were discarded.
func (e *Engine) removeGone() error {
	names, err := e.leftovers(func(name string) bool { return strings.HasPrefix(name, gonePrefix) })
	for _, name := range names {
		if e.ending.Load() {
			return nil
		}
		err = errors.Join(err, os.RemoveAll(e.forkPath(name)))
	}
	return err
}

// forkGone takes the name of what is left of a fork away from it.
func (e *Engine) forkGone(name string) error {
	forks, err := openAt(e.tt, "forks", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(forks)
	for i := 0; ; i++ {
		err := renameAt(forks, name, forks, fmt.Sprintf("%s%d", gonePrefix, i), unix.RENAME_NOREPLACE)
		if err != unix.EEXIST {
			return err
		}
	}
}
