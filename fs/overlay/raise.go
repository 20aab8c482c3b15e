package overlay

import (
	"errors"

	"github.com/ttfs/ttfs/journal"
	"golang.org/x/sys/unix"
)

// raise makes something of the lower in the fork's own tree, with the directories that lead to it. It is made in hold,
// recorded, and then brought to its place: what is in the upper goes before the lower, so nothing shows of it until it is
// whole. A file is made hollow, a sparse file of its size: its bytes are the lower's until fill. Preconditions: none of
// raising, places for writing, and the locks below them in the order is held.
func (e *Engine) raise(n *node) error {
	e.raising.Lock()
	defer e.raising.Unlock()
	return e.raiseLocked(n, 0)
}

func (e *Engine) raiseLocked(n *node, depth int) error {
	if !n.low() {
		return nil
	}
	if e.opt.ReadOnly {
		return fail("change", "", ReadOnly, nil)
	}
	p := e.placeOf(n)
	if p.parent == nil || depth > maxDepth {
		return unix.ESTALE
	}
	if err := e.raiseLocked(p.parent, depth+1); err != nil {
		return err
	}
	f, err := e.useDir(p.parent)
	if err != nil {
		return err
	}
	defer e.putDir(f)
	d, err := e.dirOID(p.parent)
	if err != nil {
		return err
	}
	r := &raising{e: e, n: n, from: n.from, up: p.parent, dir: f.fd, at: spot{d, p.name}}
	id, err := e.raisedAs(n.from.ident)
	if err != nil {
		return err
	}
	if id == 0 {
		err = r.make()
	} else {
		err = r.adopt(id)
	}
	if err != nil {
		return storeError("make it in the fork", err)
	}
	return nil
}

// raising is one inode that is being raised to a name.
type raising struct {
	e    *Engine
	n    *node
	from *origin
	up   *node // the directory
	dir  int   // of the upper
	at   spot
}

// make makes the inode.
func (r *raising) make() error {
	e := r.e
	st, err := e.lower.stat(r.from.ref)
	if err != nil {
		return err
	}
	m, err := e.lower.meta(r.from.ref)
	if err != nil {
		return err
	}
	at, err := e.lower.number(r.from.ref)
	if err != nil {
		return err
	}
	id, err := e.newOID()
	if err != nil {
		return err
	}
	if err := e.point("raise"); err != nil {
		return err
	}
	hold := holdName(id)
	switch r.n.kind {
	case unix.S_IFDIR:
		err = unix.Mkdirat(e.hold, hold, 0o700)
	case unix.S_IFREG:
		err = e.makeHollow(hold, int64(st.Size))
	case unix.S_IFLNK:
		var target []byte
		if target, err = e.lower.readlink(r.from.ref); err == nil {
			err = unix.Symlinkat(string(target), e.hold, hold)
		}
	default:
		err = unix.Mknodat(e.hold, hold, m.mode, int(unix.Mkdev(st.Rdev_major, st.Rdev_minor)))
	}
	if err != nil {
		return err
	}
	own, err := r.dress(hold, &m)
	if err == nil {
		r.from.size = int64(st.Size)
		r.from.hollow.Store(r.n.kind == unix.S_IFREG && st.Size > 0)
		if r.n.dir == nil && st.Nlink > 1 {
			r.from.many, r.from.last = true, r.at
			r.from.links.Store(int32(st.Nlink) - 1)
		}
		var b journal.Batch
		putObject(&b, &object{id: id, kind: r.n.kind, key: own, at: r.at})
		putRaised(&b, id, r.from, at)
		if err = e.point("record a raise"); err == nil {
			err = e.j.Commit(&b)
		}
	}
	if err != nil {
		flags := 0
		if r.n.dir != nil {
			flags = unix.AT_REMOVEDIR
		}
		return errors.Join(err, unlinkAt(e.hold, hold, flags))
	}
	return r.place(id, own, func() error { return renameAt(e.hold, hold, r.dir, r.at.name, unix.RENAME_NOREPLACE) })
}

func (e *Engine) makeHollow(name string, size int64) error {
	fd, err := openAt(e.hold, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Ftruncate(fd, size)
}

// dress gives an inode in hold its attributes.
func (r *raising) dress(name string, m *meta) (inoKey, error) {
	fd, err := openAt(r.e.hold, name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return inoKey{}, err
	}
	defer unix.Close(fd)
	if err := applyMeta(fd, m); err != nil {
		return inoKey{}, err
	}
	var st Stat
	err = statAt(fd, "", &st)
	return keyOf(&st), err
}

// adopt gives the name to an inode that was raised before: by another of its names, or before a death.
func (r *raising) adopt(id OID) error {
	e := r.e
	o, found, err := e.getObject(id)
	if err != nil || !found {
		return fail("raise", r.at.name, Damaged, err)
	}
	was, at, err := e.originOf(id)
	if err != nil || was == nil {
		return fail("raise", r.at.name, Damaged, err)
	}
	r.from.size, r.from.many = was.size, was.many
	r.from.hollow.Store(was.hollow.Load())
	r.from.links.Store(was.links.Load())
	if o.kind == unix.S_IFDIR {
		return r.place(id, o.key, func() error { return renameAt(e.hold, holdName(id), r.dir, r.at.name, unix.RENAME_NOREPLACE) })
	}
	var st Stat
	if there := statAt(r.dir, r.at.name, &st) == nil && keyOf(&st) == o.key; was.many && !there {
		r.from.links.Add(-1)
		r.from.last = r.at
		var b journal.Batch
		b.Put(originKey(id), r.from.encode(at))
		if err := e.point("record a raise"); err != nil {
			return err
		}
		if err := e.j.Commit(&b); err != nil {
			return err
		}
	}
	return r.place(id, o.key, func() error {
		dir, name, done, err := e.locate(id)
		if err != nil {
			return err
		}
		defer done()
		var st Stat
		if err := statAt(dir, name, &st); err != nil {
			return err
		}
		if dir == e.hold && o.at == r.at && st.Nlink == 1 { // a death kept it from where it was on its way to
			return renameAt(dir, name, r.dir, r.at.name, unix.RENAME_NOREPLACE)
		}
		return linkAt(dir, name, r.dir, r.at.name)
	})
}

// place brings the inode to its name, and leaves the times of the directory as they were.
func (r *raising) place(id OID, own inoKey, bring func() error) error {
	e := r.e
	if err := e.point("place"); err != nil {
		return r.missed(err)
	}
	if err := r.unseen(own, bring); err != nil {
		return err
	}
	held := r.n != nil && r.n.dir == nil && e.inHold(id, own)
	e.nodes.mu.Lock()
	defer e.nodes.mu.Unlock()
	if r.n == nil || r.n.raised.Load() {
		return nil
	}
	r.n.key, r.n.oid, r.n.asked, r.n.held = own, id, true, held
	e.nodes.byIno[own] = r.n
	r.n.raised.Store(true)
	return nil
}

// unseen brings the inode to its name and sets the times of the directory back.
func (r *raising) unseen(own inoKey, bring func() error) error {
	defer r.up.steady()()
	var st, dir Stat
	if err := statAt(r.dir, "", &dir); err != nil {
		return r.missed(err)
	}
	if statAt(r.dir, r.at.name, &st) == nil && keyOf(&st) == own {
		return nil
	}
	if err := bring(); err != nil {
		return r.missed(err)
	}
	ts := []unix.Timespec{{Sec: dir.Atime.Sec, Nsec: int64(dir.Atime.Nsec)}, {Sec: dir.Mtime.Sec, Nsec: int64(dir.Mtime.Nsec)}}
	return unix.UtimesNanoAt(r.dir, "", ts, unix.AT_EMPTY_PATH)
}

// missed says that the name did not come to the upper.
func (r *raising) missed(err error) error {
	if r.from.many && r.from.last == r.at {
		r.from.links.Add(1)
		r.from.last = spot{}
	}
	return err
}

// bring raises what the lower has at a name of a directory that is raised, so that it can be renamed or removed.
// Preconditions: dir.dir.mu is held; places is not.
func (e *Engine) bring(dir *node, fd int, name string) error {
	var st Stat
	if e.lower == nil || dir.from == nil || statAt(fd, name, &st) != unix.ENOENT {
		return nil
	}
	d, err := e.dirOID(dir)
	if err != nil {
		return err
	}
	low, st, err := e.below(d, name)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	if linked, err := e.bringLink(dir, name, &st); linked || err != nil {
		return err
	}
	n := e.internLow(dir, name, low, &st)
	defer e.unpin(n)
	return e.raise(n)
}

// bringLink gives a file of the lower that was raised by another of its names this one as well: all are one inode, and the
// kernel may find it by any. linked is false for what is not raised.
func (e *Engine) bringLink(dir *node, name string, st *Stat) (linked bool, err error) {
	if kindOf(st) == unix.S_IFDIR || st.Nlink < 2 {
		return false, nil
	}
	id, err := e.raisedAs(keyOf(st))
	if err != nil || id == 0 {
		return false, err
	}
	f, err := e.useDir(dir)
	if err != nil {
		return false, err
	}
	defer e.putDir(f)
	d, err := e.dirOID(dir)
	if err != nil {
		return false, err
	}
	e.raising.Lock()
	defer e.raising.Unlock()
	r := &raising{e: e, n: e.known(keyOf(st)), up: dir, dir: f.fd, at: spot{d, name}}
	if r.n != nil {
		defer e.unpin(r.n)
		r.from = r.n.from
	} else if r.from, _, err = e.originOf(id); err != nil {
		return false, err
	}
	return true, storeError("make it in the fork", r.adopt(id))
}

// internLow is the node of something in the lower that was just seen, pinned.
func (e *Engine) internLow(dir *node, name string, low *ref, st *Stat) *node {
	names := e.places.at(dir)
	names.RLock()
	defer names.RUnlock()
	e.nodes.mu.Lock()
	defer e.nodes.mu.Unlock()
	k := keyOf(st)
	n := e.nodes.byIno[k]
	if n == nil {
		n = e.newNodeLocked(kindOf(st), &origin{ref: low, ident: k})
		n.asked = true
	}
	e.seenAtLocked(n, dir, name, st)
	return n
}
