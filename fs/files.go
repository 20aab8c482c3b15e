package fs

import (
	"errors"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/ttfs/ttfs/fs/overlay"
	"golang.org/x/sys/unix"
)

// handleTable is everything that is open, by the number that the kernel gives back.
type handleTable struct {
	mu      sync.RWMutex
	records map[uint64]uint32 // of the estate
	next    uint64
	all     map[uint64]any // *overlay.Handle, *overlay.Dir, *virtualFile, *virtualDir
}

func (t *handleTable) add(h any) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[uint64]any{}
	}
	t.next++
	t.all[t.next] = h
	return t.next
}

// put is add of what has its number from a daemon before this one.
func (t *handleTable) put(fh uint64, h any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[uint64]any{}
	}
	t.all[fh] = h
}

func (t *handleTable) record(fh uint64, record uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.records == nil {
		t.records = map[uint64]uint32{}
	}
	t.records[fh] = record
}

func (t *handleTable) unrecord(fh uint64) uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	record := t.records[fh]
	delete(t.records, fh)
	return record
}

func (t *handleTable) get(fh uint64) any {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.all[fh]
}

func (t *handleTable) drop(fh uint64) any {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.all[fh]
	delete(t.all, fh)
	return h
}

// file is an open file of the engine, nil for anything else.
func (t *handleTable) file(fh uint64) *overlay.Handle {
	h, _ := t.get(fh).(*overlay.Handle)
	return h
}

// backingTable is the ids under which the kernel knows the backing files of nodes that are open for passthrough: all
// opens of an inode must use one.
type backingTable struct {
	mu  sync.Mutex
	ids map[backingKey]*backing
}

// backingKey is an inode: node ids are an engine's own.
type backingKey struct {
	sp   *space
	node overlay.NodeID
}

type backing struct {
	id    int32
	opens int
}

// attach gives the kernel the backing file of an open, or its id if it has it. False: the kernel will not have it.
func (f *face) attach(k backingKey, h *overlay.Handle) (int32, bool) {
	t := &f.backings
	t.mu.Lock()
	defer t.mu.Unlock()
	if b := t.ids[k]; b != nil {
		b.opens++
		return b.id, true
	}
	id, code := f.server.RegisterBackingFd(&fuse.BackingMap{Fd: int32(h.FD())})
	if code != 0 {
		f.log.Debug("the kernel does not pass a file through", "err", code)
		return 0, false
	}
	if t.ids == nil {
		t.ids = map[backingKey]*backing{}
	}
	t.ids[k] = &backing{id: id, opens: 1}
	return id, true
}

// again counts an open file that the kernel has a backing file for since before this daemon.
func (t *backingTable) again(k backingKey, id int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if b := t.ids[k]; b != nil {
		b.opens++
		return
	}
	if t.ids == nil {
		t.ids = map[backingKey]*backing{}
	}
	t.ids[k] = &backing{id: id, opens: 1}
}

func (f *face) detach(k backingKey) {
	t := &f.backings
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.ids[k]
	if b == nil {
		return
	}
	if b.opens--; b.opens == 0 {
		delete(t.ids, k)
		if code := f.server.UnregisterBackingFd(b.id); code != 0 {
			f.log.Warn("a backing file could not be taken back from the kernel", "err", code)
		}
	}
}

// opened tells the kernel how to serve an open file; id is a node of the view that it was opened in.
func (f *face) opened(id uint64, h *overlay.Handle, flags uint32, out *fuse.OpenOut) {
	if f.mapped.opened(id, flags) {
		// What it was told of the file before, it would believe for long.
		f.server.InodeNotify(id, -1, 0)
	}
	reads := flags&unix.O_ACCMODE == unix.O_RDONLY
	if h.Backed() {
		if backing, ok := f.attach(backingKey{f.space(id), h.Node()}, h); ok {
			out.OpenFlags, out.BackingID = fuse.FOPEN_PASSTHROUGH|fuse.FOPEN_NOFLUSH, backing
		} else {
			f.of(id).NotPassed(h)
		}
	}
	if h.Mode() == overlay.Direct {
		out.OpenFlags |= fuse.FOPEN_DIRECT_IO | fuse.FOPEN_NOFLUSH
	}
	switch {
	case reads:
		out.OpenFlags |= fuse.FOPEN_NOFLUSH // there is nothing to tell at close
	case h.Mode() == overlay.Passthrough && f.of(id).Follows():
		out.OpenFlags &^= fuse.FOPEN_NOFLUSH // what was written is told at close, before anybody can read it
	}
	if h.Mode() == overlay.Cached && h.Unchanging() {
		out.OpenFlags |= fuse.FOPEN_KEEP_CACHE | fuse.FOPEN_NOFLUSH // what a fork has not touched is read once
	}
	out.Fh = f.handles.add(h)
	f.keepFile(id, out.Fh, h, out.BackingID)
}

// Open opens a file.
func (f *face) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if isVirtual(in.NodeId) {
		return f.openVirtual(in, out)
	}
	if f.replay.by(&in.InHeader) {
		return f.replay.opened(in.NodeId, out)
	}
	h, err := f.of(in.NodeId).Open(f.caller(&in.InHeader), node(in.NodeId), in.Flags, in.Mode&fuse.OPEN_KILL_SUIDGID != 0, cancel)
	if err != nil {
		return f.status("open", err)
	}
	f.opened(in.NodeId, h, in.Flags, out)
	return fuse.OK
}

// Create makes a file and opens it. What came there since the kernel was told that there is nothing is not opened here: nobody
// has asked whether the caller may. The kernel looks the name up anew after ESTALE, asks, and opens.
func (f *face) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	if s := fixed(in.NodeId, name, true); !s.Ok() {
		return s
	}
	if f.replay.by(&in.InHeader) {
		return f.replay.created(&in.InHeader, name, out)
	}
	c := f.caller(&in.InHeader)
	c.Umask = in.Umask
	ent, h, err := f.of(in.NodeId).Create(c, node(in.NodeId), name, in.Flags, in.Mode)
	if f.begun(&in.InHeader, err, unix.EEXIST) {
		// It was made by a daemon that has died: what the open itself does to it is done now.
		if ent, err = f.of(in.NodeId).Lookup(node(in.NodeId), name); err == nil {
			if h, err = f.of(in.NodeId).Open(c, ent.Node, in.Flags&^(unix.O_CREAT|unix.O_EXCL), in.OpenFlags&fuse.OPEN_KILL_SUIDGID != 0, cancel); err != nil {
				f.of(in.NodeId).Forget(ent.Node, 1)
			} else if st, err := f.of(in.NodeId).GetAttr(ent.Node, h); err == nil {
				ent.Stat = st // the open may have emptied it
			}
		}
	} else if errors.Is(err, unix.EEXIST) && in.Flags&unix.O_EXCL == 0 {
		return fuse.Status(unix.ESTALE)
	}
	if err != nil {
		return f.status("create", err)
	}
	f.entryOut(in.NodeId, &ent, &out.EntryOut)
	f.changed(in.NodeId, name)
	f.opened(out.NodeId, h, in.Flags, &out.OpenOut)
	return fuse.OK
}

// Tmpfile is open(2) with O_TMPFILE.
func (f *face) Tmpfile(_ <-chan struct{}, in *fuse.CreateIn, out *fuse.CreateOut) fuse.Status {
	if isVirtual(in.NodeId) {
		return fuse.EROFS
	}
	c := f.caller(&in.InHeader)
	c.Umask = in.Umask
	ent, h, err := f.of(in.NodeId).Tmpfile(c, node(in.NodeId), in.Flags, in.Mode)
	if err != nil {
		return f.status("tmpfile", err)
	}
	f.entryOut(in.NodeId, &ent, &out.EntryOut)
	f.opened(out.NodeId, h, in.Flags, &out.OpenOut)
	return fuse.OK
}

// Release ends an open file.
func (f *face) Release(_ <-chan struct{}, in *fuse.ReleaseIn) {
	h := f.handles.drop(in.Fh)
	_, file := h.(*overlay.Handle)
	f.unkeep(in.Fh, file)
	switch h := h.(type) {
	case *overlay.Handle:
		if h.Backed() {
			f.detach(backingKey{f.space(in.NodeId), h.Node()})
		}
		f.of(in.NodeId).Release(h)
		f.changed(in.NodeId, "")
	case *virtualFile:
		h.close()
	case *inert:
		f.replay.released(h)
	}
}

// Read comes for files that are not passed through.
func (f *face) Read(cancel <-chan struct{}, in *fuse.ReadIn, b []byte) (fuse.ReadResult, fuse.Status) {
	switch h := f.handles.get(in.Fh).(type) {
	case *overlay.Handle:
		n, err := f.of(in.NodeId).Read(h, b[:min(len(b), int(in.Size))], int64(in.Offset))
		return fuse.ReadResultData(b[:n]), f.status("read", err)
	case *virtualFile:
		n, err := h.read(cancel, b[:min(len(b), int(in.Size))], int64(in.Offset))
		return fuse.ReadResultData(b[:n]), f.status("read", err)
	}
	return nil, fuse.EBADF
}

// Write comes for files that are not passed through. What the kernel writes back from its cache has its offset; what a
// program appends goes to the file's end as it is by now.
func (f *face) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	switch h := f.handles.get(in.Fh).(type) {
	case *overlay.Handle:
		atEnd := in.Flags&unix.O_APPEND != 0 && in.WriteFlags&fuse.WRITE_CACHE == 0
		kill := in.WriteFlags&fuse.WRITE_KILL_SUIDGID != 0
		off, atEnd := f.appendMark(in, h, int64(in.Offset), atEnd)
		n, err := f.of(in.NodeId).Write(f.caller(&in.InHeader), h, data, off, atEnd, kill)
		if kill && h.Privileged() {
			// The kernel keeps the mode otherwise, and would run the file as its owner. It takes no lock for attributes alone.
			f.server.InodeNotify(in.NodeId, -1, 0)
		}
		f.changed(in.NodeId, "")
		return uint32(n), f.status("write", err)
	case *virtualFile:
		if !f.commandMark(in, h, data) {
			return 0, fuse.EIO
		}
		n, err := h.write(data)
		return uint32(n), f.status("write", err)
	}
	return 0, fuse.EBADF
}

// Writev is not used: Write is called.
func (f *face) Writev(<-chan struct{}, *fuse.WriteIn, [][]byte) (uint32, fuse.Status) {
	return 0, fuse.ENOSYS
}

// CopyFileRange is copy_file_range(2).
func (f *face) CopyFileRange(_ <-chan struct{}, in *fuse.CopyFileRangeIn) (uint32, fuse.Status) {
	from, to := f.handles.file(in.FhIn), f.handles.file(in.FhOut)
	if from == nil || to == nil || !f.same(in.NodeId, in.NodeIdOut) {
		return 0, fuse.Status(unix.EXDEV) // the kernel then copies by reading and writing
	}
	n, err := f.of(in.NodeId).CopyRange(f.caller(&in.InHeader), from, int64(in.OffIn), to, int64(in.OffOut), int(min(in.Len, 1<<30)))
	f.changed(in.NodeIdOut, "")
	return uint32(n), f.status("copy_file_range", err)
}

// Fallocate is fallocate(2).
func (f *face) Fallocate(_ <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	h := f.handles.file(in.Fh)
	if h == nil {
		return fuse.EBADF
	}
	defer f.changed(in.NodeId, "")
	err := f.of(in.NodeId).Fallocate(f.caller(&in.InHeader), h, in.Mode, int64(in.Offset), int64(in.Length))
	if h.Privileged() {
		f.server.InodeNotify(in.NodeId, -1, 0) // as after a write
	}
	return f.status("fallocate", err)
}

// Lseek is lseek(2) for SEEK_DATA and SEEK_HOLE.
func (f *face) Lseek(_ <-chan struct{}, in *fuse.LseekIn, out *fuse.LseekOut) fuse.Status {
	var off int64
	err := error(unix.EBADF) // never ENOSYS: the kernel would ask of no file any more
	switch h := f.handles.get(in.Fh).(type) {
	case *overlay.Handle:
		off, err = f.of(in.NodeId).Seek(h, int64(in.Offset), int(in.Whence))
	case *virtualFile:
		off, err = h.seek(int64(in.Offset), int(in.Whence))
	}
	out.Offset = uint64(off)
	return f.status("lseek", err)
}

// Flush comes at every close of a descriptor.
func (f *face) Flush(_ <-chan struct{}, in *fuse.FlushIn) fuse.Status {
	if h := f.handles.file(in.Fh); h != nil {
		err := f.of(in.NodeId).Flush(h)
		f.changed(in.NodeId, "")
		return f.status("flush", err)
	}
	return fuse.OK
}

// Fsync is fsync(2) and fdatasync(2).
func (f *face) Fsync(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	if h := f.handles.file(in.Fh); h != nil {
		return f.status("fsync", f.of(in.NodeId).Sync(h, in.FsyncFlags&1 != 0))
	}
	return fuse.OK
}
