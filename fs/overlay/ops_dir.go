package overlay

import (
	"encoding/binary"
	"sync"

	"golang.org/x/sys/unix"
)

// Dir is an open directory.
type Dir struct {
	n      *node
	mu     sync.Mutex
	fd     int
	at     uint64   // the cookie after the last entry read
	merged []Dirent // the entries, where a fork has some of the lower
	b      []byte   // entries read and not given yet
	c      *listing // where they are read into; nil: nothing was yet
	end    bool     // the last call came to the end

	keep     Keep  // as the kernel was told
	state    int64 // of the directory then
	heard    bool  // something was read by it
	names    int32 // how many entries were
	unopened bool  // there is no fd yet
	frozen   bool  // of a fork that had nothing of its own there: the entries are those of the lower
}

// listing is a buffer for entries. Directories are opened far more often than many are open at once.
type listing [32 << 10]byte

var listings = sync.Pool{New: func() any { return new(listing) }}

// Dirent is one entry of a directory.
type Dirent struct {
	Name string
	Ino  uint64
	Type uint32 // S_IFMT bits; 0: unknown
	Next uint64 // the cookie to go on after it
}

// OpenDir opens a directory for listing.
func (e *Engine) OpenDir(id NodeID) (*Dir, error) {
	n, err := e.pin(id)
	if err != nil {
		return nil, err
	}
	d, err := e.newDir(n, false)
	if err != nil {
		e.unpin(n)
	}
	return d, err
}

// newDir opens a directory, or, later, when it is first read.
func (e *Engine) newDir(n *node, later bool) (*Dir, error) {
	if n.dir == nil {
		return nil, unix.ENOTDIR
	}
	d := &Dir{n: n, fd: -1}
	switch {
	case e.lower != nil:
		d.frozen = n.low()
	case later:
		d.unopened = true
	default:
		var err error
		if d.fd, err = e.openList(n); err != nil {
			return nil, err
		}
	}
	e.opens.Add(1)
	return d, nil
}

func (e *Engine) openList(n *node) (int, error) {
	pass, err := e.enterOn("", target{n: n})
	if err != nil {
		return -1, err
	}
	defer pass.leave()
	return e.openEntered(n)
}

func (e *Engine) openEntered(n *node) (int, error) {
	f, err := e.useDir(n)
	if err != nil {
		return -1, err
	}
	defer e.putDir(f)
	return openAt(f.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
}

// CloseDir ends a listing.
func (e *Engine) CloseDir(d *Dir) {
	e.opens.Add(-1)
	d.unhear()
	if d.fd >= 0 {
		unix.Close(d.fd)
	}
	if d.c != nil {
		listings.Put(d.c)
	}
	e.unpin(d.n)
}

// SyncDir makes the entries of a directory durable, and the records of what they were.
func (e *Engine) SyncDir(d *Dir) error {
	pass, err := e.enterOp()
	if err != nil {
		return err
	}
	pass.leave() // the disk is waited for outside
	if err := e.j.Sync(); err != nil {
		return storeError("sync", err)
	}
	if e.lower != nil {
		return e.syncMerged(d.n)
	}
	if err := e.laterOn(d); err != nil {
		if vanished(err) {
			return nil
		}
		return err
	}
	return retry(func() error { return unix.Fsync(d.fd) })
}

// Next gives the entry after a cookie (0: the first) to f, and goes on until f returns false or there is none left.
// The entry that f refused comes again.
func (e *Engine) Next(d *Dir, after uint64, f func(ent Dirent) bool) error {
	pass, err := e.enterOn("", target{n: d.n})
	if err != nil {
		return err
	}
	defer pass.leave()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hear()
	if e.lower != nil {
		return e.nextMerged(d, after, f)
	}
	if err := e.later(d); err != nil {
		if vanished(err) {
			return nil
		}
		return err
	}
	if after != d.at {
		if _, err := unix.Seek(d.fd, int64(after), unix.SEEK_SET); err != nil {
			return err
		}
		d.b, d.at, d.end = nil, after, false
	}
	if d.c == nil {
		d.c = listings.Get().(*listing)
	}
	if d.end {
		d.end = false // whoever asks after that may see what has been made since
		return nil
	}
	for {
		if len(d.b) == 0 {
			n, err := unix.Getdents(d.fd, d.c[:])
			if err == unix.EINTR {
				continue
			}
			if err == unix.ENOENT {
				return nil // the directory is removed
			}
			if err != nil || n <= 0 {
				d.end = err == nil // the kernel asks once more, to hear this again
				return err
			}
			d.b = d.c[:n]
		}
		ent, size := parseDirent(d.b)
		if !(d.n.id == RootNode && ent.Name == StoreName) && !f(ent) {
			return nil
		}
		d.b, d.at = d.b[size:], ent.Next
		d.names++
	}
}

// parseDirent reads one struct linux_dirent64: ino, off, reclen, type, name.
func parseDirent(b []byte) (Dirent, int) {
	size := int(binary.NativeEndian.Uint16(b[16:]))
	name := b[19:size]
	for i, c := range name {
		if c == 0 {
			name = name[:i]
			break
		}
	}
	return Dirent{
		Name: string(name),
		Ino:  binary.NativeEndian.Uint64(b),
		Next: binary.NativeEndian.Uint64(b[8:]),
		Type: uint32(b[18]) << 12,
	}, size
}

// LookupIn is Lookup of an entry of an open directory.
func (e *Engine) LookupIn(d *Dir, name string) (Entry, error) {
	pass, err := e.enterOn("", target{d.n, name})
	if err != nil {
		return Entry{}, err
	}
	defer pass.leave()
	if e.lower != nil {
		return e.lookupMerged(d.n, name)
	}
	return e.lookupAt(d.n, d.fd, name)
}

// emptyDir says whether an open directory has no entries.
func emptyDir(dir int, name string) (bool, error) {
	fd, err := openAt(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	empty := true
	err = eachDirent(fd, 4<<10, func(Dirent) bool {
		empty = false
		return false
	})
	return empty && err == nil, err
}

// listBytes is what is read of a directory at once, where all of it is.
const listBytes = 32 << 10

// eachDirent calls f for the entries of an open directory that were not read yet, but for "." and "..", until it says false.
// So many bytes are read at once.
func eachDirent(fd, bytes int, f func(ent Dirent) bool) error {
	b := make([]byte, bytes)
	for {
		n, err := unix.Getdents(fd, b)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return err
		}
		for at := b[:n]; len(at) > 0; {
			ent, size := parseDirent(at)
			at = at[size:]
			if ent.Name != "." && ent.Name != ".." && !f(ent) {
				return nil
			}
		}
	}
}
