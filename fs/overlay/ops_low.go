package overlay

import (
	"io"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// The operations of a fork on what it has nothing of its own of yet. They raise nothing.

// lookupMerged is Lookup in a directory that the fork has of the lower.
func (e *Engine) lookupMerged(d *node, name string) (Entry, error) {
	for {
		if !d.low() {
			f, err := e.useDir(d)
			if err != nil {
				return Entry{}, err
			}
			out, err := e.lookupAt(d, f.fd, name)
			e.putDir(f)
			if err != unix.ENOENT || d.from == nil || name == "." || name == ".." {
				return out, err
			}
		}
		low, st, wasLow, err := e.belowNode(d, name)
		if err != nil {
			return Entry{}, err
		}
		out, again, err := e.lookupLow(d, name, low, st)
		if err != nil || !again && d.low() == wasLow {
			return out, err
		}
		if !again {
			e.Forget(out.Node, 1) // d was raised meanwhile, and perhaps what is in it changed
		}
	}
}

// belowNode is what the lower shows at a name of a directory; wasLow says that the directory was not raised. Errors: ENOENT.
func (e *Engine) belowNode(d *node, name string) (low *ref, st Stat, wasLow bool, err error) {
	if d.low() {
		low, st, err = e.lower.lookup(d.from.ref, name)
		return low, st, true, err
	}
	id, err := e.dirOID(d)
	if err != nil {
		return nil, st, false, err
	}
	low, st, err = e.below(id, name)
	return low, st, false, err
}

// lookupLow is the entry of something in the lower, with its state there. again says that it was raised meanwhile: look
// again.
func (e *Engine) lookupLow(d *node, name string, low *ref, st Stat) (out Entry, again bool, err error) {
	out.Stat = st
	if linked, err := e.bringLink(d, name, &out.Stat); linked || err != nil {
		return out, true, err
	}
	n := e.internLow(d, name, low, &out.Stat)
	defer e.unpin(n)
	if !n.low() {
		if err := e.statAny(n, nil, &out.Stat); err != nil {
			return out, false, err
		}
	} else if !d.low() {
		// It may have been raised, and forgotten, after the upper was looked at.
		f, err := e.useDir(d)
		if err != nil {
			return out, false, err
		}
		var st Stat
		err = statAt(f.fd, name, &st)
		e.putDir(f)
		if err == nil && n.low() {
			return out, true, nil
		}
	}
	e.looked(n)
	out.Node, out.Generation = n.id, n.generation()
	return out, false, nil
}

// free says whether nothing of the lower shows at a name that the upper has nothing at. Errors: EEXIST. Preconditions:
// d.dir.mu is held.
func (e *Engine) free(d *node, name string) error {
	if d.from == nil {
		return nil
	}
	_, _, _, err := e.belowNode(d, name)
	switch err {
	case unix.ENOENT:
		return nil
	case nil:
		return unix.EEXIST
	}
	return err
}

// emptyDir says whether a directory, at a name of the upper, has no entries. Preconditions: n.dir.mu is held.
func (e *Engine) emptyDir(n *node, dir int, name string) (bool, error) {
	empty, err := emptyDir(dir, name)
	if err != nil || !empty || n.from == nil {
		return empty, err
	}
	id, err := e.dirOID(n)
	if err != nil {
		return false, err
	}
	all := map[string]Dirent{}
	if err := e.addBelow(-1, id, all); err != nil {
		return false, err
	}
	return len(all) == 0, nil
}

// lowMeta is the metadata of a node that is not raised; low is false for others.
func (e *Engine) lowMeta(id NodeID) (m meta, low bool, err error) {
	if e.lower == nil {
		return m, false, nil
	}
	n, err := e.pin(id)
	if err != nil {
		return m, true, err
	}
	defer e.unpin(n)
	pass, err := e.enterOn("", target{n: n})
	if err != nil {
		return m, true, err
	}
	defer pass.leave()
	if !n.low() {
		return m, false, nil
	}
	m, err = e.lower.meta(n.from.ref)
	return m, true, err
}

// lowFile is a file open for reading whose bytes are the lower's when it is opened. Once the fork has changed it, its own
// are read.
type lowFile struct {
	size  int64
	mtime unix.StatxTimestamp

	mu   sync.Mutex
	low  io.ReaderAt // +checklocks:mu of the lower; nil: nobody has read from it, since the kernel has it all
	done func()      // +checklocks:mu
	own  int         // +checklocks:mu the fork's own file; -1: not opened
}

// openLow opens a hollow file for reading.
func (e *Engine) openLow(c Caller, h *Handle) (*Handle, error) {
	n := h.n
	h.fd = -1
	var st Stat
	if err := e.statAny(n, nil, &st); err != nil {
		return nil, err
	}
	l := &lowFile{size: int64(st.Size), mtime: st.Mtime, own: -1}
	n.mu.Lock()
	defer n.mu.Unlock()
	h.low = l
	h.how = opening{flags: h.flags, passthrough: e.passthrough.Load(), direct: n.file.direct > 0, size: l.size, guarded: e.guarded(&c), low: true}.how()
	e.opened(h)
	e.learnOpen(&c, h, false)
	return h, nil
}

// Unchanging says that the file cannot have changed since it was last open: what the kernel has cached of it stays right.
func (h *Handle) Unchanging() bool { return h.low != nil && h.n.hollow() }

// pread reads from an open file.
func (h *Handle) pread(e *Engine, b []byte, off int64) (int, error) {
	if h.low == nil {
		return preadFull(h.fd, b, off)
	}
	if !h.n.hollow() {
		fd, err := h.ownFD(e)
		if err != nil {
			return 0, err
		}
		return preadFull(fd, b, off)
	}
	rd, err := h.lowReader(e)
	if err != nil {
		return 0, err
	}
	n, err := rd.ReadAt(b, off)
	if err == io.EOF {
		err = nil
	}
	return n, err
}

// lowReader reads the file of the lower. It stays what it was at the fork, whenever it is opened.
func (h *Handle) lowReader(e *Engine) (io.ReaderAt, error) {
	l := h.low
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.low == nil {
		rd, _, done, err := e.lower.reader(h.n.from.ref)
		if err != nil {
			return nil, err
		}
		l.low, l.done = rd, done
	}
	return l.low, nil
}

func (h *Handle) ownFD(e *Engine) (int, error) {
	l := h.low
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.own < 0 {
		fd, err := e.openAny(h.n)
		if err != nil {
			return -1, err
		}
		defer unix.Close(fd)
		if l.own, err = openAt(unix.AT_FDCWD, procPath(fd), unix.O_RDONLY|unix.O_NONBLOCK, 0); err != nil {
			l.own = -1
			return -1, err
		}
	}
	return l.own, nil
}

// seekLow is lseek(2): all of the file is data.
func (h *Handle) seekLow(off int64, whence int) (int64, error) {
	switch {
	case off < 0 || off >= h.low.size:
		return 0, unix.ENXIO
	case whence == unix.SEEK_HOLE:
		return h.low.size, nil
	}
	return off, nil
}

// closeFD lets go of what the handle reads.
func (h *Handle) closeFD() {
	if h.low == nil {
		unix.Close(h.fd)
		return
	}
	h.low.mu.Lock()
	defer h.low.mu.Unlock()
	if h.low.low != nil {
		h.low.done()
		h.low.low = nil
	}
	if h.low.own >= 0 {
		unix.Close(h.low.own)
		h.low.own = -1
	}
}

// nextMerged is Next in a directory that the fork has of the lower. The entries are those that there were when the listing
// began; the cookie after one is its number, from 1 on. Preconditions: d.mu is held.
func (e *Engine) nextMerged(d *Dir, after uint64, f func(ent Dirent) bool) error {
	if after == 0 || d.merged == nil {
		var err error
		if d.merged, err = e.mergedDirents(d.n, d.frozen && after != 0); err != nil {
			return err
		}
	}
	for i := after; i < uint64(len(d.merged)); i++ {
		ent := d.merged[i]
		ent.Next = i + 1
		if !f(ent) {
			return nil
		}
		d.names++
	}
	return nil
}

// mergedDirents is the entries of a directory, in the order of their numbers. frozen: as they were before the fork touched it.
func (e *Engine) mergedDirents(n *node, frozen bool) (_ []Dirent, err error) {
	var all map[string]Dirent
	if frozen {
		all, err = e.lower.dirents(n.from.ref)
	} else {
		all, err = e.direntsOf(n)
	}
	if err != nil {
		return nil, err
	}
	up := n
	if p := e.placeOf(n); p.parent != nil {
		up = p.parent
	}
	out := []Dirent{{Name: ".", Ino: n.ident().ino, Type: unix.S_IFDIR}, {Name: "..", Ino: up.ident().ino, Type: unix.S_IFDIR}}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, all[name])
	}
	return out, nil
}

func (e *Engine) direntsOf(n *node) (map[string]Dirent, error) {
	for n.low() {
		all, err := e.lower.dirents(n.from.ref)
		if err != nil || n.low() {
			return all, err
		}
	}
	f, err := e.useDir(n)
	if err != nil {
		return nil, err
	}
	defer e.putDir(f)
	fd, err := openAt(f.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var id OID
	if n.from != nil {
		if id, err = e.dirOID(n); err != nil {
			return nil, err
		}
	}
	all, err := readDirents(fd)
	if err == nil {
		err = e.addBelow(fd, id, all)
	}
	return all, err
}

// syncMerged makes what the upper has of a directory durable.
func (e *Engine) syncMerged(n *node) error {
	if n.low() {
		return nil
	}
	fd, err := e.openNode(n, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return retry(func() error { return unix.Fsync(fd) })
}

// readMerged reads the beginning of a file of a fork; nothing when it cannot.
func (e *Engine) readMerged(path string, limit int) []byte {
	v, err := e.viewOf(nil, 0)
	if err != nil {
		return nil
	}
	r, err := v.resolve(path)
	if err != nil || r.kind != unix.S_IFREG {
		return nil
	}
	rd, size, done, err := v.reader(r)
	if err != nil {
		return nil
	}
	defer done()
	b := make([]byte, min(int64(limit), size))
	n, err := rd.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return nil
	}
	return b[:n]
}
