package overlay

import "golang.org/x/sys/unix"

// attrFD is a descriptor by which the attributes of a node are read and changed, while the node is locked. Who makes a file
// mostly sets its owner, mode and times before it closes it: then the descriptor is that of the open handle, which nobody
// closes under the lock. Else the node is opened with O_PATH.
type attrFD struct {
	n   *node
	fd  int
	own bool // opened for this
}

// lockAttrs locks a node and gives such a descriptor; done lets both go. h may be nil. Errors: ESTALE. Preconditions: no
// lock of a node is held.
func (e *Engine) lockAttrs(n *node, h *Handle) (attrFD, error) {
	n.lock()
	if fd := n.heldFD(h); fd >= 0 {
		return attrFD{n: n, fd: fd}, nil
	}
	n.unlock() // opening may have to raise the node
	fd, err := e.openAny(n)
	if err != nil {
		return attrFD{}, err
	}
	n.lock()
	return attrFD{n: n, fd: fd, own: true}, nil
}

func (a attrFD) done() {
	a.n.unlock()
	if a.own {
		unix.Close(a.fd)
	}
}

// writable is a descriptor for reading and writing the content, -1 with an error; done closes what was opened for it.
func (a attrFD) writable() (fd int, done func(), err error) {
	if !a.own {
		if flags, err := unix.FcntlInt(uintptr(a.fd), unix.F_GETFL, 0); err == nil && flags&unix.O_ACCMODE == unix.O_RDWR {
			return a.fd, func() {}, nil
		}
	}
	if fd, err = openAt(unix.AT_FDCWD, procPath(a.fd), unix.O_RDWR|unix.O_NONBLOCK, 0); err != nil {
		return -1, func() {}, err
	}
	return fd, func() { unix.Close(fd) }, nil
}

// heldFD is the descriptor of an open handle of a file, of h if it has one; -1: there is none. It is open for as long as the
// lock is held. Preconditions: the node is locked.
func (n *node) heldFD(h *Handle) int {
	switch {
	case n.dir != nil:
		return -1
	case h != nil && h.fd >= 0:
		return h.fd
	case n.from != nil:
		return -1 // a handle may be one of the lower's file
	}
	for h := range n.file.handles {
		if h.fd >= 0 {
			return h.fd
		}
	}
	return -1
}

// withAttrs calls f with a descriptor by which attributes of a node can be read. Before it opens one it asks closed, which may be nil,
// whether it goes without. It waits for nobody who works on the file.
func (e *Engine) withAttrs(id NodeID, closed func(n *node) (done bool, err error), f func(fd int) error) error {
	n, err := e.pin(id)
	if err != nil {
		return err
	}
	defer e.unpin(n)
	pass, err := e.enterOn("", target{n: n})
	if err != nil {
		return err
	}
	defer pass.leave()
	if n.dir == nil && n.mu.TryLock() {
		if fd := n.heldFD(nil); fd >= 0 {
			defer n.mu.Unlock()
			return f(fd)
		}
		n.mu.Unlock()
	}
	if closed != nil {
		if done, err := closed(n); done {
			return err
		}
	}
	fd, err := e.openAny(n)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return f(fd)
}

// The calls below take an open descriptor, which may be one with O_PATH: the kernel refuses those with EBADF, and takes the
// way by /proc, which costs three times as much.

func chmodFD(fd int, mode uint32) error {
	if err := unix.Fchmod(fd, mode); err != unix.EBADF {
		return err
	}
	return unix.Chmod(procPath(fd), mode)
}

func removeXattr(fd int, name string) error {
	if err := unix.Fremovexattr(fd, name); err != unix.EBADF {
		return err
	}
	return unix.Removexattr(procPath(fd), name)
}

func setXattr(fd int, name string, value []byte, flags int) error {
	if err := unix.Fsetxattr(fd, name, value, flags); err != unix.EBADF {
		return err
	}
	return unix.Setxattr(procPath(fd), name, value, flags)
}

// rawXattr is getxattr(2).
func rawXattr(fd int, name string, b []byte) (int, error) {
	if n, err := unix.Fgetxattr(fd, name, b); err != unix.EBADF {
		return n, err
	}
	return unix.Getxattr(procPath(fd), name, b)
}

// rawXattrs is listxattr(2).
func rawXattrs(fd int, b []byte) (int, error) {
	if n, err := unix.Flistxattr(fd, b); err != unix.EBADF {
		return n, err
	}
	return unix.Listxattr(procPath(fd), b)
}
