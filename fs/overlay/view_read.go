package overlay

import (
	"io"

	"golang.org/x/sys/unix"
)

// stat is the state of something in the view.
func (v *view) stat(r *ref) (Stat, error) {
	var st Stat
	if r.low != nil {
		return v.e.lower.stat(r.low)
	}
	if !v.statBeside(r, &st) {
		fd, err := v.openLive(r, unix.O_PATH)
		if err != nil {
			return st, err
		}
		defer unix.Close(fd)
		if err := statAt(fd, "", &st); err != nil {
			return st, err
		}
	}
	return st, v.asItWas(r, &st)
}

// statBeside is the state of something in the view that is still at the name by which it was found.
func (v *view) statBeside(r *ref, st *Stat) bool {
	if v.dirs == nil || r.up == nil || r.key == (inoKey{}) {
		return false
	}
	dir, done, err := v.useDir(r.up)
	if err != nil {
		return false
	}
	defer done()
	return statAt(dir, r.name, st) == nil && keyOf(st) == r.key
}

// asItWas turns the state of an inode into what it is in the view.
func (v *view) asItWas(r *ref, st *Stat) error {
	id, err := v.oid(r)
	if err != nil || id == 0 {
		return err
	}
	o, _, err := v.e.originOf(id)
	if err != nil {
		return err
	}
	held := v.epoch != 0 && v.e.inHold(id, keyOf(st))
	if o != nil {
		o.shows(st)
	}
	if v.epoch != 0 && kindOf(st) != unix.S_IFDIR {
		if err := v.links(id, held, st); err != nil {
			return err
		}
	}
	m, has, err := v.metaImage(id)
	if err != nil {
		return err
	}
	if has {
		st.Mode, st.Uid, st.Gid = uint16(m.mode), m.uid, m.gid
		st.Atime, st.Mtime = statxTime(m.atime), statxTime(m.mtime)
	}
	if v.epoch != 0 {
		size, has, err := v.e.sizeAt(v.epoch, id)
		if err != nil {
			return err
		}
		if has {
			st.Size = uint64(size)
		}
	}
	if cs := v.contents[id]; len(cs) > 0 {
		st.Size = uint64(cs[len(cs)-1].size)
	}
	return nil
}

// links sets the number of names that a file had at the epoch.
func (v *view) links(id OID, held bool, st *Stat) error {
	n, has, err := v.e.linksAt(v.epoch, v.over, id)
	switch {
	case err != nil:
		return err
	case has:
		st.Nlink = n
	case held && st.Nlink > 0:
		st.Nlink--
	}
	return nil
}

func statxTime(ns int64) unix.StatxTimestamp {
	t := unix.NsecToTimespec(ns)
	return unix.StatxTimestamp{Sec: t.Sec, Nsec: uint32(t.Nsec)}
}

// metaImage is the metadata that the images say an object had.
func (v *view) metaImage(id OID) (meta, bool, error) {
	if m, has := v.metas[id]; has || v.epoch == 0 {
		return m, has, nil
	}
	return v.e.metaAt(v.epoch, id)
}

// meta is the metadata of something in the view.
func (v *view) meta(r *ref) (meta, error) {
	if r.low != nil {
		return v.e.lower.meta(r.low)
	}
	if v.epoch == 0 && r.id != 0 {
		if m, has := v.metas[r.id]; has {
			return m, nil
		}
	}
	fd, err := v.openLive(r, unix.O_PATH)
	if err != nil {
		return meta{}, err
	}
	defer unix.Close(fd)
	var st Stat
	if err := statAt(fd, "", &st); err != nil {
		return meta{}, err
	}
	live, err := readMeta(fd, &st)
	id, err2 := v.oid(r)
	if err2 != nil {
		return live, err2
	}
	if id != 0 {
		if m, has, err := v.metaImage(id); has || err != nil {
			return m, err
		}
	}
	return live, err
}

// reader reads a file of the view. One at an epoch is read as Engine.lower does: with gate held for each call.
func (v *view) reader(r *ref) (io.ReaderAt, int64, func(), error) {
	if r.low != nil {
		return v.e.lower.reader(r.low)
	}
	live, size, done, err := v.liveReader(r)
	if err != nil {
		return nil, 0, nil, err
	}
	id, err := v.oid(r)
	if err != nil {
		done()
		return nil, 0, nil, err
	}
	l := &layer{e: v.e, live: live, size: size}
	if v.epoch != 0 {
		if id != 0 {
			at, has, err := v.e.sizeAt(v.epoch, id)
			if err != nil {
				done()
				return nil, 0, nil, err
			}
			if has {
				l.size = at
			}
		}
		l.frozen, l.r = v, r
	}
	if id != 0 {
		for _, c := range v.contents[id] {
			l = &layer{e: v.e, below: l, c: c, size: c.size}
		}
	}
	return l, l.size, done, nil
}

// liveReader reads the bytes that are in a file now: in a fork perhaps the lower's.
func (v *view) liveReader(r *ref) (io.ReaderAt, int64, func(), error) {
	id, err := v.oid(r)
	if err != nil {
		return nil, 0, nil, err
	}
	o, _, err := v.e.originOf(id)
	if err != nil {
		return nil, 0, nil, err
	}
	if o != nil && o.hollow.Load() {
		return v.e.lower.reader(o.ref)
	}
	fd, err := v.openLive(r, unix.O_RDONLY)
	if err != nil {
		return nil, 0, nil, err
	}
	var st Stat
	if err := statAt(fd, "", &st); err != nil {
		unix.Close(fd)
		return nil, 0, nil, err
	}
	return fdReader(fd), int64(st.Size), func() { unix.Close(fd) }, nil
}

// layer is the bytes of a file: live ones, perhaps as they were at an epoch, or an image over another layer.
type layer struct {
	e      *Engine
	below  *layer
	live   io.ReaderAt
	frozen *view // with live: as they were at its epoch
	r      *ref
	c      *content
	size   int64
}

// ReadAt is io.ReaderAt.
func (l *layer) ReadAt(b []byte, off int64) (int, error) {
	if off >= l.size {
		return 0, io.EOF
	}
	short := false
	if int64(len(b)) > l.size-off {
		b, short = b[:l.size-off], true
	}
	if err := l.fill(b, off); err != nil {
		return 0, err
	}
	if short {
		return len(b), io.EOF
	}
	return len(b), nil
}

func (l *layer) fill(b []byte, off int64) error {
	if l.live == nil {
		n, err := l.below.ReadAt(b, off)
		if err != nil && err != io.EOF {
			return err
		}
		clear(b[n:])
		return l.e.overlay(l.c, b, off)
	}
	n, err := l.live.ReadAt(b, off)
	if err != nil && err != io.EOF {
		return err
	}
	clear(b[n:])
	if l.frozen == nil {
		return nil
	}
	id, err := l.frozen.oid(l.r)
	if err != nil || id == 0 {
		return err
	}
	all, err := l.e.contentsAt(l.frozen.epoch, id, off, off+int64(len(b)))
	if err != nil {
		return err
	}
	for _, c := range all {
		if past := c.size - off; past < int64(len(b)) {
			clear(b[max(0, past):])
		}
		if err := l.e.overlay(c, b, off); err != nil {
			return err
		}
	}
	return nil
}

// overlay puts the bytes of an image over those of a file from off on.
func (e *Engine) overlay(c *content, b []byte, off int64) error {
	for i := range c.pieces {
		p := &c.pieces[i]
		from, to := max(off, p.off), min(off+int64(len(b)), p.off+p.size)
		if from >= to {
			continue
		}
		r, err := e.openPiece(p)
		if err != nil {
			return err
		}
		_, err = r.ReadAt(b[from-off:to-off], from-p.off)
		r.close()
		if err != nil && err != io.EOF {
			return storeError("read the bytes before", err)
		}
	}
	return nil
}

// readlink is the target of a link in the view; no task can change it.
func (v *view) readlink(r *ref) ([]byte, error) {
	if r.low != nil {
		return v.e.lower.readlink(r.low)
	}
	fd, err := v.openLive(r, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return readlink(fd)
}

// copyTo makes an empty file what a file of a view at an epoch is: its bytes are shared where the filesystem can, and
// then what has changed since is put back.
func (v *view) copyTo(r *ref, to int) error {
	if r.low != nil {
		return v.e.lower.copyTo(r.low, to)
	}
	id, err := v.oid(r)
	if err != nil {
		return err
	}
	o, _, err := v.e.originOf(id)
	if err != nil {
		return err
	}
	if o != nil && o.hollow.Load() {
		err = v.e.lower.copyTo(o.ref, to)
	} else {
		err = v.copyLive(r, to)
	}
	if err != nil {
		return err
	}
	if id, err = v.oid(r); err != nil || id == 0 {
		return err
	}
	all, err := v.e.contentsAt(v.epoch, id, 0, 1<<62)
	if err != nil {
		return err
	}
	for _, c := range append(all, v.contents[id]...) {
		if err := v.e.restore(to, c, -1); err != nil {
			return err
		}
	}
	return nil
}

func (v *view) copyLive(r *ref, to int) error {
	fd, err := v.openLive(r, unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st Stat
	if err := statAt(fd, "", &st); err != nil {
		return err
	}
	size := int64(st.Size)
	if unix.IoctlFileClone(to, fd) == nil {
		return unix.Ftruncate(to, size)
	}
	if err := unix.Ftruncate(to, size); err != nil {
		return err
	}
	return extents(fd, 0, size, func(s span, hole bool) error {
		if hole {
			return nil
		}
		err := copyBytes(fd, s.from, to, s.from, s.to-s.from)
		if err == io.ErrUnexpectedEOF {
			return nil // it became shorter meanwhile: what it was then is in an image
		}
		return err
	})
}
