package overlay

import (
	"container/list"

	"golang.org/x/sys/unix"
)

// dirFD is an open descriptor of a directory, shared by those who use it; it is closed when the last lets go of it.
// A descriptor stays right wherever its directory is moved.
type dirFD struct {
	fd    int
	users int // +checklocks:nodeTable.mu the cache counts as one
	elem  *list.Element
	dir   *dirState
}

// dirCache keeps the descriptors used last. Guarded by nodeTable.mu.
type dirCache struct {
	limit int
	order list.List // of *dirFD, latest first
}

func (c *dirCache) letGo(f *dirFD) {
	if f.users--; f.users == 0 {
		unix.Close(f.fd)
	}
}

func (c *dirCache) drop(d *dirState) {
	if f := d.fd; f != nil {
		d.fd = nil
		c.order.Remove(f.elem)
		c.letGo(f)
	}
}

func (c *dirCache) closeAll() {
	for c.order.Len() > 0 {
		c.drop(c.order.Front().Value.(*dirFD).dir)
	}
}

// useDir is a descriptor of a directory, to be given back with putDir. Preconditions: the node is pinned; neither places
// nor nodeTable.mu is held. Errors: ESTALE when the directory is not where it was, ENOTDIR.
func (e *Engine) useDir(n *node) (*dirFD, error) {
	if n.dir == nil {
		return nil, unix.ENOTDIR
	}
	e.nodes.mu.Lock()
	if f := n.dir.fd; f != nil {
		f.users++
		e.nodes.fds.order.MoveToFront(f.elem)
		e.nodes.mu.Unlock()
		return f, nil
	}
	e.nodes.mu.Unlock()
	fd, err := e.openNode(n, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	e.nodes.mu.Lock()
	defer e.nodes.mu.Unlock()
	if f := n.dir.fd; f != nil {
		unix.Close(fd)
		f.users++
		return f, nil
	}
	f := &dirFD{fd: fd, users: 2, dir: n.dir}
	n.dir.fd = f
	f.elem = e.nodes.fds.order.PushFront(f)
	for e.nodes.fds.order.Len() > e.nodes.fds.limit {
		e.nodes.fds.drop(e.nodes.fds.order.Back().Value.(*dirFD).dir)
	}
	return f, nil
}

func (e *Engine) putDir(f *dirFD) {
	e.nodes.mu.Lock()
	e.nodes.fds.letGo(f)
	e.nodes.mu.Unlock()
}

// openNode opens the inode of a node wherever it is; in a fork, after it was raised. The first try takes no lock; when a rename came between, or
// somebody changed the tree around the mount, the second looks while no name changes. Errors: ESTALE.
func (e *Engine) openNode(n *node, flags int) (int, error) {
	var st Stat
	return e.openSeen(n, flags, &st)
}

// openSeen is openNode, and gives the state by which the inode was recognized; st.Mask is 0 where it was not looked at.
func (e *Engine) openSeen(n *node, flags int, st *Stat) (int, error) {
	if n.low() {
		if err := e.raise(n); err != nil {
			return -1, err
		}
	}
	fd, err := e.tryOpen(n, flags, st)
	if err == unix.ESTALE || err == unix.ENOENT || err == unix.ELOOP || err == unix.ENOTDIR {
		// The parent's descriptor is made before the lock is taken, since useDir may come here itself.
		if p := e.placeOf(n); p.parent != nil {
			if f, err := e.useDir(p.parent); err == nil {
				defer e.putDir(f)
			}
		}
		e.places.still()
		fd, err = e.tryOpenCached(n, flags, st)
		e.places.move()
		if err == unix.ENOENT || err == unix.ELOOP || err == unix.ENOTDIR {
			err = unix.ESTALE
		}
		if err == unix.ESTALE {
			if kept, e2 := e.openKept(n, flags); e2 == nil {
				return kept, nil
			}
			if e.resettle(n) {
				return e.tryOpen(n, flags, st)
			}
		}
	}
	return fd, err
}

// openKept opens an inode that has no name any more, by the descriptor that was kept of it.
func (e *Engine) openKept(n *node, flags int) (int, error) {
	e.nodes.mu.Lock()
	defer e.nodes.mu.Unlock()
	switch {
	case n.keep == 0:
		return -1, unix.ESTALE
	case flags&unix.O_PATH != 0:
		return unix.FcntlInt(uintptr(n.keep), unix.F_DUPFD_CLOEXEC, 3)
	}
	return openAt(unix.AT_FDCWD, procPath(int(n.keep)), flags|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
}

func (e *Engine) tryOpen(n *node, flags int, st *Stat) (int, error) {
	p := e.placeOf(n)
	switch {
	case n == e.nodes.root:
		return openAt(e.root, ".", flags|unix.O_NOFOLLOW, 0)
	case p.inHold:
		return e.openChecked(e.hold, holdName(p.oid), n, flags, st)
	case p.parent == nil:
		return -1, unix.ESTALE
	}
	f, err := e.useDir(p.parent)
	if err != nil {
		return -1, err
	}
	defer e.putDir(f)
	return e.openChecked(f.fd, p.name, n, flags, st)
}

// tryOpenCached is tryOpen with the parent's descriptor as it is in the cache: it takes no lock but nodeTable.mu.
func (e *Engine) tryOpenCached(n *node, flags int, st *Stat) (int, error) {
	p := e.placeOf(n)
	if n == e.nodes.root || p.inHold || p.parent == nil {
		return e.tryOpen(n, flags, st)
	}
	e.nodes.mu.Lock()
	f := p.parent.dir.fd
	if f != nil {
		f.users++
	}
	e.nodes.mu.Unlock()
	if f == nil {
		return -1, unix.ESTALE
	}
	defer e.putDir(f)
	return e.openChecked(f.fd, p.name, n, flags, st)
}

func (e *Engine) openChecked(dir int, name string, n *node, flags int, st *Stat) (int, error) {
	fd, err := openAt(dir, name, flags|unix.O_NOFOLLOW|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	if err := statAt(fd, "", st); err != nil || keyOf(st) != n.key {
		st.Mask = 0
		unix.Close(fd)
		return -1, unix.ESTALE
	}
	return fd, nil
}

// statNode is the state of the inode of a node. Errors: ESTALE.
func (e *Engine) statNode(n *node, st *Stat) (err error) {
	if n.low() {
		*st, err = e.lower.stat(n.from.ref)
		return err
	}
	p := e.placeOf(n)
	if p.parent != nil {
		if f, err := e.useDir(p.parent); err == nil {
			err = statAt(f.fd, p.name, st)
			e.putDir(f)
			if err == nil && keyOf(st) == n.key {
				return nil
			}
		}
	}
	st.Mask = 0
	fd, err := e.openSeen(n, unix.O_PATH, st)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if st.Mask != 0 {
		return nil
	}
	return statAt(fd, "", st)
}
