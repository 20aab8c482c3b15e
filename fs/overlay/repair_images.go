package overlay

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/ttfs/ttfs/cas"
	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// readInodes reads which inode each object is, drops what cannot be read, and takes note of the highest number.
func (r *repairing) readInodes() error {
	return r.e.j.Scan([]byte{kInode}, func(k, v []byte) error {
		d := dec{b: v}
		id := OID(d.u())
		if d.err != nil || len(k) != 17 {
			r.say("the number of an inode cannot be read: it is dropped")
			r.b.Delete(bytes.Clone(k))
			return nil
		}
		r.inodes[id] = inoKey{keyNum(k, 0), int64(keyNum(k, 1))}
		r.top = max(r.top, id)
		return nil
	})
}

// mendObjects makes the records of objects anew that cannot be read, of what is in hold and of what the inodes tell.
func (r *repairing) mendObjects() error {
	have, bad := map[OID]bool{}, map[OID]bool{}
	err := r.e.j.Scan([]byte{kObject}, func(k, v []byte) error {
		id := OID(keyNum(k, 0))
		r.top = max(r.top, id)
		if _, err := decodeObject(id, v); err != nil {
			bad[id] = true
			return nil
		}
		have[id] = true
		return nil
	})
	if err != nil {
		return err
	}
	refs, err := r.e.references(false)
	if err != nil {
		refs = &references{} // an image that cannot be read; mendImages sees to it
	}
	for id := range refs.objects {
		if id != 0 && id != rootOID && !have[id] {
			bad[id] = true
		}
	}
	for _, id := range sortedOIDs(bad) {
		o, found := r.findObject(id)
		if !found {
			r.say("the record of object %d cannot be read, and it is not found: what is kept of it is dropped", id)
			r.b.Delete(key(kObject, uint64(id)))
			continue
		}
		r.say("the record of object %d cannot be read: it is made anew of %q", id, o.at.name)
		putObject(&r.b, &o)
	}
	return r.flush()
}

// flush commits what there is to do, so that what follows sees it.
func (r *repairing) flush() error {
	err := r.e.j.CommitFreeing(&r.b)
	r.b.Reset()
	return err
}

// findObject looks for an object in hold, and for the inode that it is known to be in the tree.
func (r *repairing) findObject(id OID) (object, bool) {
	var st Stat
	if err := statAt(r.e.hold, holdName(id), &st); err == nil {
		return object{id: id, kind: kindOf(&st), key: keyOf(&st)}, true
	}
	k, has := r.inodes[id]
	if !has {
		return object{}, false
	}
	o := object{id: id, key: k}
	return o, r.walk(r.e.root, rootOID, &o)
}

// walk looks for an inode below a directory whose number is known. Directories that have none cannot lead to an object.
func (r *repairing) walk(dir int, up OID, o *object) bool {
	fd, err := openAt(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	names, err := namesIn(fd)
	if err != nil {
		return false
	}
	for _, name := range names {
		var st Stat
		if up == rootOID && name == StoreName || statAt(fd, name, &st) != nil {
			continue
		}
		if keyOf(&st) == o.key {
			o.kind, o.at = kindOf(&st), spot{up, name}
			return true
		}
		if kindOf(&st) != unix.S_IFDIR || !r.e.sameDevice(&st) {
			continue
		}
		id, err := r.e.findOID(keyOf(&st))
		if err != nil || id == 0 {
			continue
		}
		sub, err := openAt(fd, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		found := r.walk(sub, id, o)
		unix.Close(sub)
		if found {
			return true
		}
	}
	return false
}

// dropMalformed drops what is no image, also of a move under way.
func (r *repairing) dropMalformed() error {
	for _, before := range [][]byte{nil, {kNew}} {
		if err := r.malformed(before); err != nil {
			return err
		}
	}
	return r.flush()
}

// findAstray looks for what a power cut has left at other places than the records say, before it is taken for gone.
func (r *repairing) findAstray() error {
	if !r.e.opt.Cut {
		return nil
	}
	if err := r.mendCounters(); err != nil {
		return err
	}
	if err := r.flush(); err != nil {
		return err
	}
	if err := r.e.loadObjects(); err != nil {
		return err
	}
	return r.e.findAstray()
}

// mendImages drops the images that cannot be had, also those of a move under way.
func (r *repairing) mendImages() error {
	for id, k := range r.tasks {
		for _, before := range [][]byte{nil, {kNew}} {
			im, err := r.e.readImagesAt(before, id)
			if k.Pruned && len(before) == 0 {
				continue
			}
			if err != nil {
				return err
			}
			if err := r.mendTask(before, id, im); err != nil {
				return err
			}
		}
	}
	return r.flush()
}

// malformed drops records that are no images, and those of tasks that are not there. Numbers beyond those of tasks are
// epochs of forks, of which only that is looked at.
func (r *repairing) malformed(before []byte) error {
	for _, letter := range []byte{kEntry, kMeta, kContent, kPiece} {
		err := r.e.j.Scan(append(slices.Clone(before), letter), func(k, v []byte) error {
			whole := bytes.Clone(k)
			k = k[len(before):]
			id := tasktree.TaskID(keyNum(k, 0))
			refs := &references{objects: map[OID]bool{}, copies: map[copyID]bool{}, blobs: map[cas.Ref]bool{}}
			err := newImages().add(k, v)
			if err == nil {
				err = refs.add(k, v)
			}
			for o := range refs.objects {
				r.top = max(r.top, o)
			}
			for c := range refs.copies {
				r.copies = max(r.copies, c)
			}
			switch {
			case (id == 0 || id >= moveBit && id < atBit) && err != nil:
				r.say("what a move under way kept cannot be read at one place: it is dropped")
				r.b.Delete(whole)
			case id == 0: // of a move under way, of before these had numbers
			case id >= atBit && err != nil:
				r.epochImage(whole, id)
			case id >= moveBit: // of a move under way, or of a fork
			case r.tasks[id] == nil:
				r.say("an image of task %d, which is not there, is dropped", id)
				r.b.Delete(whole)
			case err != nil:
				r.say("an image of task %d cannot be read: it is dropped", id)
				r.b.Delete(whole)
				r.incomplete(id)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *repairing) mendTask(before []byte, id tasktree.TaskID, im *images) error {
	drop := func(k []byte) { r.b.Delete(append(slices.Clone(before), k...)) }
	for _, at := range sortedSpots(im.entries) {
		o := im.entries[at]
		why := r.reach(at.dir)
		if why == nil && o != 0 {
			why = r.reach(o)
		}
		if why == nil {
			continue
		}
		r.say("task %d: what was at %q cannot be had (%v): undoing it leaves that name as it is", id, at.name, why)
		drop(entryKey(id, at))
		r.incomplete(id)
	}
	for _, o := range sortedOIDs(im.metas) {
		if why := r.reach(o); why != nil {
			r.say("task %d: the attributes of object %d are dropped: %v", id, o, why)
			drop(metaKey(id, o))
			r.incomplete(id)
		}
	}
	for _, o := range sortedOIDs(im.contents) {
		c := im.contents[o]
		why := r.reach(o)
		if _, found, err := r.e.j.Get(append(slices.Clone(before), contentKey(id, o)...)); err != nil {
			return err
		} else if !found {
			why = errors.New("its size is gone")
		}
		for i := range c.pieces {
			if why == nil {
				why = r.piece(&c.pieces[i])
			}
		}
		if why == nil {
			continue
		}
		r.say("task %d: the bytes before of object %d cannot be had (%v): undoing it leaves its content as it is", id, o, why)
		drop(contentKey(id, o))
		for i := range c.pieces {
			drop(pieceKey(id, o, c.pieces[i].off))
		}
		r.incomplete(id)
	}
	return nil
}

// reach says why an object cannot be had. That it could not be looked for is no reason to drop what is kept of it.
func (r *repairing) reach(id OID) error {
	_, _, done, err := r.e.locate(id)
	switch {
	case err == nil:
		done()
		return nil
	case errors.Is(err, Gone), errors.Is(err, Damaged):
		return err
	}
	return nil
}

// piece says why the bytes of a piece cannot be had.
func (r *repairing) piece(p *piece) error {
	if p.kind == pieceInline || p.kind == pieceHole {
		return nil
	}
	rd, err := r.e.openPiece(p)
	if err != nil {
		return err
	}
	defer rd.close()
	v := verification{ctx: context.Background(), e: r.e}
	return v.read(p, rd)
}
