package overlay

import (
	"errors"
	"os"

	"github.com/ttfs/ttfs/journal"
	"golang.org/x/sys/unix"
)

// fill gives a hollow file the bytes of the lower, before they change or may be passed through. Until that is recorded
// they are read from the lower. Preconditions: n is raised, and n.mu is held.
func (e *Engine) fill(n *node) error {
	if n.from == nil || !n.from.hollow.Load() {
		return nil
	}
	path, err := e.openAnyLocked(n)
	if err != nil {
		return err
	}
	defer unix.Close(path)
	id, err := e.oidOf(n)
	if err != nil {
		return err
	}
	return e.fillFD(id, n.from, path)
}

// fillFD is fill for an object that is open with O_PATH.
func (e *Engine) fillFD(id OID, from *origin, path int) error {
	var st Stat
	if err := statAt(path, "", &st); err != nil {
		return err
	}
	m, err := readMeta(path, &st)
	if err != nil {
		return storeError("copy what the fork was made of", err)
	}
	_, at, err := e.originOf(id)
	if err != nil {
		return err
	}
	var b journal.Batch
	b.Put(key(kFilling, uint64(id)), m.encode())
	if err := e.j.Commit(&b); err != nil {
		return storeError("copy what the fork was made of", err)
	}
	if err := e.copyLower(from, path); err != nil {
		return storeError("copy what the fork was made of", errors.Join(err, applyMeta(path, &m)))
	}
	// Writing has taken rights away, and set the time.
	if err := applyMeta(path, &m); err != nil {
		return storeError("copy what the fork was made of", err)
	}
	from.hollow.Store(false)
	b.Reset()
	b.Put(originKey(id), from.encode(at))
	b.Delete(key(kFilling, uint64(id)))
	if err = e.point("filled"); err == nil {
		err = e.j.Commit(&b)
	}
	if err != nil {
		from.hollow.Store(true)
	}
	return storeError("copy what the fork was made of", err)
}

// copyLower copies the bytes of the lower into an inode of the upper that is open with O_PATH.
func (e *Engine) copyLower(from *origin, path int) error {
	fd, err := openAt(unix.AT_FDCWD, procPath(path), unix.O_RDWR|unix.O_NONBLOCK, 0)
	if err == unix.EACCES && unix.Chmod(procPath(path), 0o600) == nil {
		fd, err = openAt(unix.AT_FDCWD, procPath(path), unix.O_RDWR|unix.O_NONBLOCK, 0)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := e.point("fill"); err != nil {
		return err
	}
	// A try that failed may have left something.
	if err := unix.Ftruncate(fd, 0); err != nil {
		return err
	}
	if err := e.lower.copyTo(from.ref, fd); err != nil {
		return err
	}
	if e.opt.Power {
		return unix.Fdatasync(fd)
	}
	return nil
}

// endFills gives the files that a death left half filled their attributes back; their bytes are still the lower's.
func (e *Engine) endFills() error {
	var b journal.Batch
	err := e.j.Scan([]byte{kFilling}, func(k, v []byte) error {
		m, err := decodeMeta(v)
		if err != nil {
			return err
		}
		b.Delete(k)
		dir, name, done, err := e.locate(OID(keyNum(k, 0)))
		if errors.Is(err, Gone) {
			return nil
		}
		if err != nil {
			return err
		}
		defer done()
		fd, err := openAt(dir, name, unix.O_PATH|unix.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return applyMeta(fd, &m)
	})
	if err != nil || b.Empty() {
		return storeError("open a fork", err)
	}
	return storeError("open a fork", e.j.Commit(&b))
}

// openAnyLocked opens the inode of a node wherever it is. Preconditions: n.mu is held.
func (e *Engine) openAnyLocked(n *node) (int, error) {
	fd, err := e.openNode(n, unix.O_PATH)
	if err == nil {
		return fd, nil
	}
	for h := range n.file.handles {
		if h.fd >= 0 {
			return unix.FcntlInt(uintptr(h.fd), unix.F_DUPFD_CLOEXEC, 3)
		}
	}
	return -1, err
}

// lowerBytes is a file without a name that has the bytes of a hollow one, to keep them when it is emptied: its own inode need
// not have them for that.
func (e *Engine) lowerBytes(from *origin) (*os.File, error) {
	fd, err := -1, error(nil)
	if from.size <= smallBytes {
		fd, err = unix.MemfdCreate("lower", unix.MFD_CLOEXEC)
	} else {
		fd, err = openAt(e.hold, ".", unix.O_RDWR|unix.O_TMPFILE, 0o600)
	}
	if err != nil {
		return nil, storeError("keep the bytes before", err)
	}
	f := os.NewFile(uintptr(fd), "lower")
	if err := e.lower.copyTo(from.ref, fd); err != nil {
		return nil, errors.Join(storeError("keep the bytes before", err), f.Close())
	}
	return f, nil
}

// emptied says that a hollow file, whose inode is empty now, is what it shows. Until that is recorded it shows the bytes of the
// lower. Preconditions: n.mu is held.
func (e *Engine) emptied(n *node) error {
	id, err := e.oidOf(n)
	if err != nil {
		return err
	}
	_, at, err := e.originOf(id)
	if err != nil {
		return err
	}
	if err := e.point("emptied"); err != nil {
		return storeError("empty a file", err)
	}
	n.from.hollow.Store(false)
	var b journal.Batch
	b.Put(originKey(id), n.from.encode(at))
	if err := e.j.Commit(&b); err != nil {
		n.from.hollow.Store(true)
		return storeError("empty a file", err)
	}
	return nil
}
