package overlay

import (
	"golang.org/x/sys/unix"
)

// StoreName is the one name in the root of the workspace that no operation reaches.
const StoreName = ".tt"

// Entry is what a lookup or a making of a name gives.
type Entry struct {
	Node NodeID
	// Generation is another one once the kernel has taken the directory for removed: see dirState.removed.
	Generation uint64
	Stat       Stat
}

func reserved(dir *node, name string) bool { return dir.id == RootNode && name == StoreName }

// Lookup finds a name in a directory and counts it as one lookup of the kernel's. Errors: ENOENT, ENOTDIR, ESTALE.
func (e *Engine) Lookup(dir NodeID, name string) (Entry, error) {
	d, err := e.pin(dir)
	if err != nil {
		return Entry{}, err
	}
	defer e.unpin(d)
	pass, err := e.enterOn("", target{d, name})
	if err != nil {
		return Entry{}, err
	}
	defer pass.leave()
	if reserved(d, name) {
		return Entry{}, unix.ENOENT
	}
	if d.from != nil {
		return e.lookupMerged(d, name)
	}
	f, err := e.useDir(d)
	if err != nil {
		return Entry{}, err
	}
	defer e.putDir(f)
	return e.lookupAt(d, f.fd, name)
}

// LookupNode counts one more lookup of the kernel's of a node that it knows, wherever that is. Errors: ESTALE.
func (e *Engine) LookupNode(id NodeID) (out Entry, err error) {
	n, err := e.pin(id)
	if err != nil {
		return out, err
	}
	defer e.unpin(n)
	pass, err := e.enterOn("", target{n: n})
	if err != nil {
		return out, err
	}
	defer pass.leave()
	if err := e.statAny(n, nil, &out.Stat); err != nil {
		return out, err
	}
	e.looked(n)
	out.Node, out.Generation = n.id, n.generation()
	return out, nil
}

func (e *Engine) lookupAt(d *node, fd int, name string) (out Entry, err error) {
	var n *node
	if name == "." || name == ".." {
		return Entry{}, unix.ENOENT
	}
	names := e.places.at(d)
	names.RLock()
	if err = statAt(fd, name, &out.Stat); err == nil && !e.sameDevice(&out.Stat) {
		err = unix.EXDEV
	}
	if err == nil {
		n = e.intern(d, name, &out.Stat, false)
	}
	names.RUnlock()
	if err != nil {
		return Entry{}, err
	}
	defer e.unpin(n)
	if err := e.see(n, &out.Stat); err != nil {
		return Entry{}, err
	}
	e.looked(n)
	out.Node, out.Generation = n.id, n.generation()
	return out, nil
}

// sameDevice says whether an inode is of the workspace's filesystem. Of what is mounted below the workspace nothing could
// be set aside or brought back: it is not reached through the mount. Only directories tell: overlayfs gives files the
// devices of its layers.
func (e *Engine) sameDevice(st *Stat) bool {
	return kindOf(st) != unix.S_IFDIR || st.Dev_major == e.devMajor && st.Dev_minor == e.devMinor
}

// see turns an inode's state into what programs see: a link in hold is not one of theirs.
func (e *Engine) see(n *node, st *Stat) error {
	if n.low() {
		return nil
	}
	if n.from != nil {
		defer n.from.shows(st)
	}
	if n.dir != nil {
		return nil
	}
	e.nodes.mu.Lock()
	held, asked, inHold := n.held, n.asked, n.inHold
	e.nodes.mu.Unlock()
	if !held && !asked && st.Nlink > 1 {
		id, err := e.oidOf(n)
		if err != nil {
			return err
		}
		if held = id != 0 && e.inHold(id, n.key); held {
			e.nodes.mu.Lock()
			n.held = true
			e.nodes.mu.Unlock()
		}
	}
	if (held || inHold) && st.Nlink > 0 {
		st.Nlink--
	}
	return nil
}

// GetAttr is the state of an inode; h may be nil. Errors: ESTALE.
func (e *Engine) GetAttr(id NodeID, h *Handle) (Stat, error) {
	var st Stat
	n, err := e.pin(id)
	if err != nil {
		return st, err
	}
	defer e.unpin(n)
	pass, err := e.enterOn("", target{n: n})
	if err != nil {
		return st, err
	}
	defer pass.leave()
	return st, e.statAny(n, h, &st)
}

// statAny is the state of a node by a handle, by its place, by any open descriptor of it, or as it was last.
func (e *Engine) statAny(n *node, h *Handle, st *Stat) error {
	if h != nil && h.fd >= 0 {
		if err := statAt(h.fd, "", st); err != nil {
			return err
		}
		return e.see(n, st)
	}
	err := e.statNode(n, st)
	if err == nil {
		return e.see(n, st)
	}
	if fd, e2 := e.anyFD(n); e2 == nil {
		defer unix.Close(fd)
		if err := statAt(fd, "", st); err != nil {
			return err
		}
		return e.see(n, st)
	}
	e.nodes.mu.Lock()
	defer e.nodes.mu.Unlock()
	if n.last != nil {
		*st = *n.last
		return nil
	}
	return err
}

// anyFD duplicates an open descriptor of a node that has no place any more.
func (e *Engine) anyFD(n *node) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for h := range n.file.handles {
		if h.fd >= 0 {
			return unix.FcntlInt(uintptr(h.fd), unix.F_DUPFD_CLOEXEC, 3)
		}
	}
	return -1, unix.ESTALE
}

// openAny opens a node with O_PATH by its place, or gives a duplicate of an open descriptor.
func (e *Engine) openAny(n *node) (int, error) {
	fd, err := e.openNode(n, unix.O_PATH)
	if err == nil {
		return fd, nil
	}
	if fd, e2 := e.anyFD(n); e2 == nil {
		return fd, nil
	}
	return -1, err
}

// Readlink is the target of a symbolic link.
func (e *Engine) Readlink(id NodeID) ([]byte, error) {
	n, err := e.pin(id)
	if err != nil {
		return nil, err
	}
	defer e.unpin(n)
	pass, err := e.enterOn("", target{n: n})
	if err != nil {
		return nil, err
	}
	defer pass.leave()
	if n.low() {
		return e.lower.readlink(n.from.ref)
	}
	fd, err := e.openNode(n, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return readlink(fd)
}

func readlink(fd int) ([]byte, error) {
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", b)
	if err != nil {
		return nil, err
	}
	return b[:n], nil
}

// StatFS is the state of the filesystem that the workspace is on.
func (e *Engine) StatFS() (unix.Statfs_t, error) {
	var st unix.Statfs_t
	pass, err := e.enterOp()
	if err != nil {
		return st, err
	}
	defer pass.leave()
	err = retry(func() error { return unix.Fstatfs(e.root, &st) })
	return st, err
}
