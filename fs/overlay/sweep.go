package overlay

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/ttfs/ttfs/cas"
	"golang.org/x/sys/unix"
)

// A sweep gives back what no image refers to any more: after a prune, and what a death left over. It is careful in one
// direction only: what cannot be read, may be needed or is known to the kernel stays, and the next sweep looks again.
//
// Why nothing that is needed can go: the names in hold are listed first, then the images are read. What comes into hold later is
// not on the list. What was on the list had its record before it came there (docs/design.md), so its image is read, unless
// a move has swapped images since: moves are counted, and a batch removes nothing when there was one. What an operation
// under way has copied and not yet recorded has a number that is not below the bound, which is taken with the gate closed.
// Nobody can come by an object that is in hold, has no node and is in no image.
//
// All of it works under pruneMu, which Close waits for; the gate is held for single batches of renames only, since a move or
// the beginning of a task would wait for it, and everybody for them.

// sweepBatch is how many names are taken out of hold with the gate closed.
const sweepBatch = 256

// garbagePrefix stands before the names of what was found to be needed by nobody: it is removed whenever it is met.
const garbagePrefix = "g"

// giveBackBytes is from how many bytes of collected blobs on the blobs that are left are written anew.
const giveBackBytes = 4 << 20

// references are what the images of all tasks refer to, and of the epochs of forks, which are images under other numbers.
type references struct {
	objects map[OID]bool
	copies  map[copyID]bool
	blobs   map[cas.Ref]bool
}

// giveBack sweeps, collects blobs and compacts the journal. On a full disk only the first may be possible, which is what makes room for the
// others the next time. Preconditions: pruneMu is held.
func (e *Engine) giveBack(res *PruneResult) error {
	if err := e.sweepShares(); err != nil {
		return err
	}
	if err := e.sweepHold(res); err != nil {
		return err
	}
	if err := e.unlessFull("blobs", e.sweepBlobs(res)); err != nil {
		return err
	}
	if err := e.point("compact"); err != nil {
		return storeError("compact the journal", err)
	}
	return e.unlessFull("journal", storeError("compact the journal", e.j.Compact()))
}

// unlessFull is an error but for want of room.
func (e *Engine) unlessFull(what string, err error) error {
	if errors.Is(err, NoSpace) {
		e.log.Warn("there is no room to make what was kept smaller; the next prune does", "what", what, "err", err)
		return nil
	}
	return err
}

// Sweep gives back what nobody refers to, as after a death. Errors: those of Prune.
func (e *Engine) Sweep() (PruneResult, error) { return e.Prune(PruneOptions{}) }

// sweepHold removes from hold what no image refers to.
func (e *Engine) sweepHold(res *PruneResult) error {
	for try := 0; try < 3; try++ {
		again, err := e.sweepOnce(res)
		if err != nil || !again {
			return err
		}
	}
	return nil // moves come one after the other; what is left is found the next time
}

// sweepOnce says whether a move has come in between, so that it is to be looked at once more.
func (e *Engine) sweepOnce(res *PruneResult) (again bool, err error) {
	swaps := e.swaps.Load()
	bound, err := e.sweepBound()
	if err != nil {
		return false, err
	}
	names, err := e.listHold()
	if err != nil {
		return false, err
	}
	may := names[:0]
	for _, name := range names {
		id, err := strconv.ParseUint(name[1:], 16, 64)
		switch {
		case strings.HasPrefix(name, garbagePrefix):
			if err := e.removeGarbage(name); err != nil {
				return false, err
			}
		case err != nil:
		case name == holdName(OID(id)), name == copyName(copyID(id)) && id < bound:
			may = append(may, name)
		}
	}
	if len(may) == 0 {
		return false, nil
	}
	armed := e.armedCopies() // before the images are read: a task that begins makes them its own
	refs, err := e.references(true)
	if err != nil {
		return false, err
	}
	may = slices.DeleteFunc(may, func(name string) bool {
		id, _ := strconv.ParseUint(name[1:], 16, 64)
		return name[0] == 'c' && (refs.copies[copyID(id)] || armed[copyID(id)]) || name[0] == 'o' && refs.objects[OID(id)]
	})
	for from := 0; from < len(may); from += sweepBatch {
		gone, done, err := e.setAside(swaps, may[from:min(from+sweepBatch, len(may))])
		if err != nil || !done {
			return !done, err
		}
		for _, name := range gone {
			if err := e.removeGarbage(name); err != nil {
				return false, err
			}
			if name[len(garbagePrefix)] == 'c' {
				res.Copies++
			} else {
				res.Held++
			}
		}
	}
	return false, nil
}

// sweepBound is the number from which on copies may belong to operations under way.
func (e *Engine) sweepBound() (uint64, error) {
	e.copies.mu.Lock()
	bound, known := e.copies.next, e.copies.next != e.copies.limit
	e.copies.mu.Unlock()
	if !known { // none was made since the engine was opened, or all that were reserved
		v, found, err := e.j.Get([]byte{kCounter, 'c'})
		if err != nil || !found {
			return 0, storeError("sweep", err)
		}
		d := dec{b: v}
		if bound = d.u(); d.err != nil {
			return 0, fail("sweep", "", Damaged, d.err)
		}
	}
	// What was below the bound is recorded or dropped when all that goes on now has ended.
	for _, c := range e.gate.list() {
		<-c.done
	}
	e.gate.drain()
	if e.closed.Load() {
		return 0, fail("sweep", "", Closed, nil)
	}
	return bound, nil
}

// setAside gives what is in hold names that say that nobody needs it, unless there was a move meanwhile. What has a node
// stays: a program may have it open.
func (e *Engine) setAside(swaps uint64, batch []string) (gone []string, done bool, err error) {
	release, ok := e.exclusiveNow()
	if !ok {
		return nil, false, nil
	}
	defer release()
	switch {
	case e.closed.Load() || e.ending.Load():
		return nil, false, fail("sweep", "", Closed, nil)
	case e.broken.Load() != nil, e.movedSince(swaps):
		return nil, false, nil
	}
	for _, name := range batch {
		if err := e.point("sweep"); err != nil {
			return gone, true, storeError("sweep", err)
		}
		var st Stat
		if err := statAt(e.hold, name, &st); err != nil {
			continue
		}
		if n := e.known(keyOf(&st)); n != nil {
			e.unpin(n)
			continue
		}
		if err := renameAt(e.hold, name, e.hold, garbagePrefix+name, unix.RENAME_NOREPLACE); err != nil {
			return gone, true, storeError("sweep", err)
		}
		gone = append(gone, garbagePrefix+name)
	}
	return gone, true, nil
}

// listHold is what is in hold.
func (e *Engine) listHold() ([]string, error) {
	fd, err := openAt(e.hold, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, storeError("list hold", err)
	}
	defer unix.Close(fd)
	names, err := namesIn(fd)
	return names, storeError("list hold", err)
}

// references reads all images. above: also the directories above the objects, without which these could not be reached.
func (e *Engine) references(above bool) (*references, error) {
	r := &references{objects: map[OID]bool{}, copies: map[copyID]bool{}, blobs: map[cas.Ref]bool{}}
	for _, before := range [][]byte{nil, {kNew}} {
		for _, letter := range []byte{kEntry, kMeta, kContent, kPiece} {
			prefix := append(slices.Clone(before), letter)
			if err := e.j.Scan(prefix, func(k, v []byte) error { return r.add(k[len(before):], v) }); err != nil {
				return nil, storeError("find out what is needed", err)
			}
		}
	}
	if err := e.addForkReferences(r); err != nil {
		return nil, err
	}
	if !above {
		return r, nil
	}
	for _, id := range sortedOIDs(r.objects) {
		if err := e.addAbove(r, id); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *references) add(k, v []byte) error {
	if len(k) < 17 {
		return errShort
	}
	r.objects[OID(keyNum(k, 1))] = true
	switch k[0] {
	case kEntry:
		d := dec{b: v}
		r.objects[OID(d.u())] = true
		return d.err
	case kPiece:
		p, err := decodePiece(0, v)
		if err != nil {
			return err
		}
		switch p.kind {
		case pieceCopy:
			r.copies[p.copy] = true
		case pieceBlob:
			r.blobs[p.ref] = true
		}
	}
	return nil
}

// addAbove adds the directories that lead to an object: one of them may be what is in hold.
func (e *Engine) addAbove(r *references, id OID) error {
	if id == 0 || id == rootOID {
		return nil
	}
	v, found, err := e.j.Get(key(kObject, uint64(id)))
	if err != nil || !found {
		return storeError("find out what is needed", err)
	}
	o, err := decodeObject(id, v)
	if err != nil {
		return fail("find out what is needed", "", Damaged, err)
	}
	for _, up := range []OID{o.at.dir, o.was.dir} {
		if up != 0 && !r.objects[up] {
			r.objects[up] = true
			if err := e.addAbove(r, up); err != nil {
				return err
			}
		}
	}
	return nil
}

// sweepBlobs collects the blobs that no image names. What is archived meanwhile waits until it is known what is named.
func (e *Engine) sweepBlobs(res *PruneResult) error {
	if e.lower != nil {
		return nil // they are the workspace's, and it knows what its forks name
	}
	if err := e.point("collect"); err != nil {
		return storeError("collect the blobs", err)
	}
	ctx, cancel := e.whileOpen()
	defer cancel()
	e.blobMu.Lock()
	counting := true
	done := func() {
		if counting {
			counting = false
			e.blobMu.Unlock()
		}
	}
	defer done()
	var refs *references
	var failed error
	removed, freed, err := e.blobs.Collect(ctx, func(ref cas.Ref) bool {
		if refs == nil && failed == nil {
			refs, failed = e.references(false)
			done() // what is put from now on, Collect leaves alone
		}
		return failed != nil || refs.blobs[ref]
	})
	res.Blobs += removed
	if err := errors.Join(failed, err); err != nil {
		return storeError("collect the blobs", err)
	}
	if freed < giveBackBytes {
		return nil
	}
	err = e.blobs.GiveBack(ctx)
	if errors.Is(err, cas.ErrNoSpace) {
		e.log.Warn("there is no room to give the blobs' space back at once; it comes back by and by", "err", err)
		return nil
	}
	return storeError("give back the blobs' space", err)
}
