package overlay

import (
	"bytes"
	"errors"
	"io"

	"github.com/ttfs/ttfs/cas"
	"github.com/ttfs/ttfs/journal"
	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// What is kept of a file is archived piece by piece, in three steps:
//
//  1. take: some pieces are read, and copies opened;
//  2. pack: their bytes are put into the store of blobs. This takes as long as it takes, and nothing is held meanwhile but
//     the blobs, which Collect leaves alone (cas.Hold), and a chunk of memory;
//  3. swap: those that are still what was taken are named as blobs instead, in one record; then copies go. For that moment
//     the moves of the task's agent are kept away.
//
// A death before the record leaves blobs that nobody names, which the next sweep finds; one after it, copies, which it finds
// too. A task that is being moved comes later.

const (
	// archiveBatch is how many bytes of records are in memory at a time; a copy is read in chunks of cas.ChunkBytes.
	archiveBatch = 1 << 20
	// archivePlaces is of how many pieces the places are in memory at a time.
	archivePlaces = 1 << 16
)

// archEnd is how the archiving of a file ended.
type archEnd uint8

const (
	archAll    archEnd = iota // nothing is left to archive
	archLater                 // the task is being moved, or the engine closed
	archNoRoom                // some of it would not leave enough of the disk free
)

// taken is a piece on its way.
type taken struct {
	piece
	record []byte // as it was read
	fd     int    // of a copy; -1 else
	blob   piece  // what it becomes
}

func closeTaken(work []taken) {
	for i := range work {
		if work[i].fd >= 0 {
			unix.Close(work[i].fd)
		}
	}
}

// archiveFile archives what a task keeps of one file.
func (e *Engine) archiveFile(k *tasktree.Task, o OID, pc *pace) (end archEnd, err error) {
	for from := int64(0); ; {
		places, err := e.archivePlacesFrom(k.ID, o, from)
		if err != nil || len(places) == 0 {
			return end, err
		}
		from = places[len(places)-1] + 1
		for len(places) > 0 {
			if e.stopping() || !pc.begin() {
				return archLater, nil
			}
			n, some, err := e.archiveSome(k, o, places, pc)
			if err != nil || some == archLater {
				return some, err
			}
			end = max(end, some)
			if places = places[n:]; !pc.pause() {
				return archLater, nil
			}
		}
	}
}

// archivePlacesFrom are the offsets, ascending, of pieces of a file that are worth a blob, from one on.
func (e *Engine) archivePlacesFrom(id tasktree.TaskID, o OID, from int64) (places []int64, err error) {
	if err := e.enterPast(); err != nil {
		return nil, nil
	}
	defer e.leavePast()
	err = e.j.Scan(key(kPiece, uint64(id), uint64(o)), func(k, v []byte) error {
		off := int64(keyNum(k, 2))
		if off < from {
			return nil
		}
		p, err := decodePiece(off, v)
		if err != nil {
			return err
		}
		if p.archivable() {
			places = append(places, off)
		}
		if len(places) == archivePlaces {
			return journal.ErrStop
		}
		return nil
	})
	return places, storeError("archive", err)
}

// archiveSome archives the first of some pieces, and says how many it has looked at.
func (e *Engine) archiveSome(k *tasktree.Task, o OID, places []int64, pc *pace) (n int, end archEnd, err error) {
	work, n, end, err := e.takePieces(k.ID, o, places)
	defer func() { closeTaken(work) }()
	if err != nil || len(work) == 0 {
		return n, end, err
	}
	by, err := pc.packedBy()
	if err != nil {
		return n, end, storeError("archive", err)
	}
	hold := e.blobs.Hold(by)
	defer hold.Release()
	for i := range work {
		if err := e.packPiece(&work[i], hold, pc); err != nil {
			if e.stopping() {
				return n, archLater, nil
			}
			pc.failed()
			return n, end, err
		}
	}
	if err := e.point("archive"); err != nil {
		return n, end, err
	}
	if err := e.blobs.Sync(); err != nil {
		return n, end, storeError("archive", err)
	}
	swapped, err := e.swapTaken(k, o, work)
	if err == nil && !swapped {
		end = archLater
	}
	return n, end, err
}

// takePieces reads pieces, up to archiveBatch bytes of them or one copy.
func (e *Engine) takePieces(id tasktree.TaskID, o OID, places []int64) (work []taken, n int, end archEnd, err error) {
	if err := e.enterPast(); err != nil {
		return nil, 0, archLater, nil
	}
	defer e.leavePast()
	for total := int64(0); n < len(places) && total < archiveBatch; n++ {
		w := taken{fd: -1}
		var found bool
		if w.record, found, err = e.j.Get(pieceKey(id, o, places[n])); err != nil {
			return work, n, end, storeError("archive", err)
		}
		if !found {
			continue // a move has come between
		}
		if w.piece, err = decodePiece(places[n], w.record); err != nil {
			return work, n, end, storeError("archive", err)
		}
		if !w.archivable() {
			continue
		}
		size := w.size
		if w.kind == pieceCopy {
			if w.fd, size, err = e.openCopy(w.copy); errors.Is(err, unix.ENOENT) {
				if now, has, err := e.j.Get(pieceKey(id, o, places[n])); err == nil && (!has || !bytes.Equal(now, w.record)) {
					continue // by a move, too
				}
			}
			if err != nil {
				return work, n, end, fail("archive", copyName(w.copy), Damaged, err)
			}
			size = min(size, w.size)
			total = archiveBatch
		}
		if !e.roomToArchive(size) {
			closeTaken([]taken{w})
			end = archNoRoom
			continue
		}
		total += size
		work = append(work, w)
	}
	return work, n, end, nil
}

// openCopy opens a copy and says how much of the disk it takes.
func (e *Engine) openCopy(id copyID) (fd int, bytes int64, err error) {
	if fd, err = openAt(e.hold, copyName(id), unix.O_RDONLY|unix.O_NOFOLLOW, 0); err != nil {
		return -1, 0, err
	}
	var st Stat
	if err := statAt(fd, "", &st); err != nil {
		unix.Close(fd)
		return -1, 0, err
	}
	return fd, int64(st.Blocks) * 512, nil
}

// roomToArchive says whether so many bytes can be put into the store, which has them twice until the first are given back,
// without the disk coming to where the daemon gives things up (twice the floor).
func (e *Engine) roomToArchive(size int64) bool {
	free, floor := e.arch.room()
	return floor < 0 || free-size >= 2*floor
}

// packPiece puts the bytes of a piece into the store.
func (e *Engine) packPiece(w *taken, hold *cas.Hold, pc *pace) error {
	r := &pieceReader{ReaderAt: fdReader(w.fd), fd: w.fd}
	if w.inRecord() {
		b, err := w.unpack()
		if err != nil {
			return err
		}
		r = &pieceReader{ReaderAt: bytesReader(b), fd: -1}
	}
	w.blob = piece{off: w.off, size: w.size, kind: pieceBlob}
	err := w.parts(r, func(s span, hole bool) error {
		if hole {
			w.blob.holes = append(w.blob.holes, s)
		}
		return nil
	})
	if err != nil {
		return storeError("archive", err)
	}
	var size int64
	if w.blob.ref, size, err = hold.PutReader(&pacedReader{e: e, pace: pc, r: io.NewSectionReader(r, 0, w.size)}); err != nil {
		return storeError("archive", err)
	}
	if size != w.size {
		return fail("archive", "", Damaged, io.ErrUnexpectedEOF)
	}
	return nil
}

// swapTaken names pieces as blobs, where they are still what was taken; false: the task is being moved.
func (e *Engine) swapTaken(k *tasktree.Task, o OID, work []taken) (done bool, err error) {
	if err := e.enterPast(); err != nil {
		return false, nil
	}
	defer e.leavePast()
	release, busy := e.holdPast(k.Agent)
	if busy != nil {
		return false, nil
	}
	defer release()
	defer e.gate.run(newClaim(k.Agent))() // who reads a copy reads it again as a blob
	e.blobMu.RLock()
	defer e.blobMu.RUnlock()
	var b journal.Batch
	var copies []copyID
	for i := range work {
		w := &work[i]
		now, found, err := e.j.Get(pieceKey(k.ID, o, w.off))
		if err != nil {
			return false, storeError("archive", err)
		}
		if !found || !bytes.Equal(now, w.record) {
			continue
		}
		b.Put(pieceKey(k.ID, o, w.off), w.blob.encode())
		e.count.archived.Add(1)
		if w.kind == pieceCopy {
			copies = append(copies, w.copy)
		}
	}
	if b.Empty() {
		return true, nil
	}
	if err := e.point("archive"); err != nil {
		return false, err
	}
	if err := e.j.Commit(&b); err != nil {
		return false, storeError("archive", err)
	}
	e.forgetView() // it names the copies
	if err := e.point("archive"); err != nil {
		return false, err
	}
	for _, c := range copies {
		e.dropCopy(c)
	}
	return true, nil
}
