package overlay

import (
	"github.com/ttfs/ttfs/guard"
	"golang.org/x/sys/unix"
)

// fate is what becomes of an inode that loses a name.
type fate uint8

const (
	// fateHold moves the name into hold.
	fateHold fate = iota
	// fateFree removes it: the task made the inode, and nobody can want it back.
	fateFree
	// fateOther removes the name: the inode is known by another, or is in hold already.
	fateOther
)

// removal is a name that is about to go.
type removal struct {
	dir   *node
	fd    int
	name  string
	n     *node // of what is there, pinned
	st    Stat
	fate  fate
	id    OID
	other place
}

// look finds what is at a name that is to be removed. Preconditions: dir.dir.mu is held.
func (e *Engine) look(dir *node, fd int, name string) (*removal, error) {
	r := &removal{dir: dir, fd: fd, name: name}
	if err := e.bring(dir, fd, name); err != nil {
		return nil, err
	}
	names := e.places.at(dir)
	names.RLock()
	err := statAt(fd, name, &r.st)
	if err == nil && !e.sameDevice(&r.st) {
		err = unix.EXDEV
	}
	if err == nil {
		r.n = e.intern(dir, name, &r.st, false)
	}
	names.RUnlock()
	if err != nil {
		return nil, err
	}
	if r.n.low() { // it is just being raised
		if err := e.raise(r.n); err != nil {
			e.unpin(r.n)
			return nil, err
		}
	}
	return r, nil
}

// remove decides what becomes of the inode and puts into the change what must be known of it. Preconditions: r.n.mu is
// held, for a directory r.n.dir.mu. comes is the node of what will be at the name, nil for nothing.
func (ch *change) remove(r *removal, comes *node) error {
	e := ch.e
	if err := ch.entry(r.dir, r.name, r.n, comes); err != nil {
		return err
	}
	id, err := e.oidOf(r.n)
	if err != nil {
		return err
	}
	for _, k := range ch.numbers {
		if k.n == r.n {
			id = k.id
		}
	}
	if id == 0 && r.n.bornIn(ch.run.id) && (r.n.dir != nil || r.st.Nlink == 1) {
		r.fate = fateFree
		return nil
	}
	if r.n.dir == nil && r.st.Nlink > 1 {
		if id != 0 && e.inHold(id, r.n.key) {
			r.fate, r.id = fateOther, id
			return nil
		}
		if alt, has := e.otherPlace(r.n, r.dir, r.name); has {
			r.fate, r.id, r.other = fateOther, id, alt
			if id == 0 {
				return nil
			}
			d, err := e.dirOID(alt.parent)
			if err != nil {
				return err
			}
			o, found, err := e.getObject(id)
			if err != nil {
				return err
			}
			if !found {
				o = object{id: id, kind: r.n.kind, key: r.n.key}
			}
			o.was, o.at = o.at, spot{d, alt.name}
			putObject(&ch.b, &o)
			return nil
		}
	}
	if id == 0 {
		// In a directory that the task made, but itself from before it, or with names that are not known.
		d, err := e.dirOID(r.dir)
		if err != nil {
			return err
		}
		if id, err = ch.number(r.n, d, r.name); err != nil {
			return err
		}
	}
	r.fate, r.id = fateHold, id
	return nil
}

// otherPlace is another name by which a node is known, checked. Preconditions: dir.dir.mu of the name is held.
func (e *Engine) otherPlace(n, dir *node, name string) (place, bool) {
	e.nodes.mu.Lock()
	var p place
	if n.alt != nil {
		p = *n.alt
	}
	here := p.parent == dir && p.name == name
	e.nodes.mu.Unlock()
	if p.parent == nil || here {
		return place{}, false
	}
	f, err := e.useDir(p.parent)
	if err != nil {
		return place{}, false
	}
	defer e.putDir(f)
	var st Stat
	if statAt(f.fd, p.name, &st) != nil || keyOf(&st) != n.key {
		return place{}, false
	}
	return p, true
}

// maxKept bounds the descriptors of inodes without a name. The kernel forgets nearly all of them at once.
const maxKept = 1024

// keep opens an inode that is about to lose its last name: a program may have looked the name up before, and open it
// after. Without it, that fails with ESTALE.
func (r *removal) keep(e *Engine) {
	if r.fate != fateFree || r.n.dir != nil {
		return
	}
	e.nodes.mu.Lock()
	full := e.nodes.kept >= maxKept || r.n.keep > 0
	e.nodes.mu.Unlock()
	for h := range r.n.file.handles {
		e.entrust(r.n, h.fd)
		break
	}
	if full {
		return
	}
	fd, err := openAt(r.fd, r.name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	e.nodes.mu.Lock()
	defer e.nodes.mu.Unlock()
	r.n.keep = int32(fd)
	e.nodes.kept++
}

// apply removes the name.
func (r *removal) apply(e *Engine) error {
	if err := e.point("remove"); err != nil {
		return err
	}
	r.keep(e)
	names := e.places.at(r.dir)
	names.Lock()
	defer names.Unlock()
	defer r.dir.steady()()
	switch {
	case r.fate == fateHold:
		if err := renameAt(r.fd, r.name, e.hold, holdName(r.id), unix.RENAME_NOREPLACE); err != nil {
			return err
		}
		e.held(r.n, r.id)
		return nil
	case r.n.dir != nil:
		if err := unlinkAt(r.fd, r.name, unix.AT_REMOVEDIR); err != nil {
			return err
		}
	default:
		if err := unlinkAt(r.fd, r.name, 0); err != nil {
			return err
		}
	}
	e.lostName(r)
	return nil
}

// held moves a node to its name in hold. Preconditions: places is held for writing, of the directory that it was in.
func (e *Engine) held(n *node, id OID) {
	e.nodes.mu.Lock()
	defer e.nodes.mu.Unlock()
	e.setPlaceLocked(n, nil, "")
	n.oid, n.asked = id, true
	n.inHold = true
	n.held = n.dir == nil
	e.keptLocked(n)
}

// lostName says that a name of a node is gone, and it is not in hold by that name.
func (e *Engine) lostName(r *removal) {
	e.nodes.mu.Lock()
	defer e.nodes.mu.Unlock()
	switch {
	case r.fate == fateOther && r.other.parent != nil:
		e.setPlaceLocked(r.n, r.other.parent, r.other.name)
	case r.fate == fateOther:
		e.setPlaceLocked(r.n, nil, "")
		r.n.inHold, r.n.held = true, true
		e.keptLocked(r.n)
	default:
		e.setPlaceLocked(r.n, nil, "")
		last := r.st
		last.Nlink = 0
		r.n.last = &last
	}
	e.setAltLocked(r.n, nil, "")
}

// Unlink removes a name that is not a directory's.
func (e *Engine) Unlink(c Caller, dir NodeID, name string) error {
	return e.removeName(c, dir, name, false)
}

// Rmdir removes an empty directory.
func (e *Engine) Rmdir(c Caller, dir NodeID, name string) error {
	return e.removeName(c, dir, name, true)
}

func (e *Engine) removeName(c Caller, dir NodeID, name string, isDir bool) error {
	d, err := e.pin(dir)
	if err != nil {
		return err
	}
	defer e.unpin(d)
	return unlessMet(func() error { return e.removeOnce(c, d, name, isDir) })
}

func (e *Engine) removeOnce(c Caller, d *node, name string, isDir bool) error {
	pass, err := e.enterOn(c.Agent, target{d, name})
	if err != nil {
		return err
	}
	defer pass.leave()
	if reserved(d, name) {
		return unix.EPERM
	}
	fd, err := e.useDir(d)
	if err != nil {
		return err
	}
	defer e.putDir(fd)
	if isDir {
		// A directory is locked after its parent. A rename, which locks two in another order, excludes that.
		e.renames.RLock()
		defer e.renames.RUnlock()
	}
	d.dir.mu.Lock()
	defer d.dir.mu.Unlock()
	r, err := e.look(d, fd.fd, name)
	if err != nil {
		return err
	}
	defer e.unpin(r.n)
	if err := e.meet(r.n); err != nil {
		return err
	}
	if isDir != (r.n.dir != nil) {
		if isDir {
			return unix.ENOTDIR
		}
		return unix.EISDIR
	}
	if isDir {
		r.n.dir.mu.Lock()
		defer r.n.dir.mu.Unlock()
		if empty, err := e.emptyDir(r.n, fd.fd, name); err != nil || !empty {
			if err == nil {
				err = unix.ENOTEMPTY
			}
			return err
		}
	} else {
		r.n.mu.Lock()
		defer r.n.mu.Unlock()
	}
	var path guard.Path
	follows := e.follows(&c)
	if follows {
		path = e.pathAt(d, name)
	}
	if !isDir {
		if err := e.judge(&c, guard.Question{Op: guard.Unlink, Path: path}, r.n, &r.st); err != nil {
			return err
		}
	}
	ch, err := e.begin(c)
	if err != nil {
		return err
	}
	ch.removes = true
	if err := ch.remove(r, nil); err != nil {
		return err
	}
	if err := ch.commit(); err != nil {
		return err
	}
	if err := r.apply(e); err != nil {
		return err
	}
	if isDir {
		r.n.dir.dead = true
		e.removedByKernel(r.n)
	}
	if follows {
		e.learn(&c, func(s *guard.State, a guard.Actor) { s.Removed(a, fileOf(r.n.ident()), path) })
	}
	return nil
}
