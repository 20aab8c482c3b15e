package fs

import (
	"path"
	"slices"
	"sort"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/ttfs/ttfs/fs/control"
	"github.com/ttfs/ttfs/fs/estate"
	"github.com/ttfs/ttfs/fs/overlay"
	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// virtualBase is the first id of nodes below `.tt`.
const virtualBase = uint64(1) << 62

func isVirtual(id uint64) bool { return id >= virtualBase }

// virtual is a name below `.tt`: one of control's, or one of the workspace as it was.
type virtual struct {
	id      uint64
	path    string // from the root of the mount
	key     string // in the table
	lookups uint64

	n     control.Node   // nil inside a tree
	tree  *overlay.Tree  // the tree that n is the root of, or that this is in
	in    string         // the path in the tree
	agent tasktree.Agent // whose tree it is: trees of task 0 differ
	view  uint64         // the view that this `.tt` is in
	as    bool           // `.tt/as`
	link  string         // a symbolic link's target: the kernel keeps it by the node, so another target is another node
	space *space         // `.tt/forks/NAME/tree`: it is this one's root
	by    uint32         // the thread that looked `.tt/ctl` up: the kernel lets one write at a time to an inode, and no command is to wait for others'
}

func (f *face) who(h *fuse.InHeader) control.Caller {
	if f.replay.by(h) {
		return control.Caller{Agent: tasktree.User, PID: int(h.Pid)} // it only walks to the tree that it is to show
	}
	w := f.ids.Resolve(h.Pid)
	c := control.Caller{Agent: w.Agent, PID: w.Proc.PID}
	number := viewOf(h.NodeId)
	if v := f.virtuals.get(h.NodeId); v != nil {
		number = v.view
	}
	if v, ok := f.views.at(number); ok {
		c.Agent = f.through(v, number<<viewShift, w.Agent)
	}
	return c
}

// lookupVirtual finds `.tt` or a name below it. What is asked by one agent may not be there for another: nothing is
// cached.
func (f *face) lookupVirtual(h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	var v virtual
	if !isVirtual(h.NodeId) {
		v = virtual{path: overlay.StoreName, n: control.Tree(f.space(h.NodeId).back), view: viewOf(h.NodeId)}
	} else {
		dir := f.virtuals.get(h.NodeId)
		if dir == nil {
			return fuse.Status(unix.ESTALE)
		}
		if dir.as {
			ent, view, err := f.openView(f.spaceOf(dir.view), name, f.who(h))
			if err != nil {
				return f.status("lookup", err)
			}
			f.entryOut(view<<viewShift, &ent, out)
			return fuse.OK
		}
		var err error
		if v, err = f.below(dir, name, f.who(h)); err != nil {
			return f.status("lookup", err)
		}
		if v.space != nil {
			return f.lookupFork(v.space, out)
		}
	}
	st, err := f.statVirtual(&v)
	if err != nil {
		return f.status("lookup", err)
	}
	if uint32(st.Mode)&unix.S_IFMT == unix.S_IFLNK {
		target, err := f.targetOf(&v, f.who(h))
		if err != nil {
			return f.status("lookup", err)
		}
		v.link = string(target)
	}
	if v.n != nil && v.n.Kind() == control.Ctl {
		v.by = h.Pid
	}
	n := f.virtuals.intern(v)
	out.NodeId, out.Generation = n.id, 1
	st.Ino = n.id
	attr(&st, &out.Attr)
	return fuse.OK
}

func (f *face) below(dir *virtual, name string, c control.Caller) (virtual, error) {
	v := virtual{path: path.Join(dir.path, name), view: dir.view}
	if dir.path == overlay.StoreName && name == "as" {
		v.as = true
		return v, nil
	}
	if dir.tree != nil {
		v.tree, v.in, v.agent = dir.tree, strings.TrimPrefix(dir.in+"/"+name, "/"), dir.agent
		_, err := v.tree.Stat(v.in)
		return v, err
	}
	n, err := dir.n.Lookup(name)
	if err != nil {
		return v, err
	}
	v.n = n
	if gate, ok := n.(control.Gate); ok {
		if err := gate.Enter(c); err != nil {
			return v, err
		}
	}
	if n.Kind() == control.Foreign {
		what, err := n.Open(c)
		if err != nil {
			return v, err
		}
		if tree, ok := what.(*overlay.Tree); ok {
			v.tree, v.agent = tree, c.Agent
		}
		v.space, _ = what.(*space)
	}
	return v, nil
}

// statVirtual is what stat(2) says of a name below `.tt`. Files made at open have no size.
func (f *face) statVirtual(v *virtual) (st overlay.Stat, err error) {
	if v.tree != nil {
		if st, err = v.tree.Stat(v.in); err == nil {
			if v.in == "" {
				st.Mode = unix.S_IFDIR | 0o500
				st.Uid, st.Gid = f.owner.Uid, f.owner.Gid
			}
			st.Nlink = 1
		}
		return st, err
	}
	if v.as {
		// Nothing is listed in it: who removes `.tt` must not come to the workspace by it.
		st.Mode, st.Nlink, st.Uid, st.Gid, st.Blksize = unix.S_IFDIR|0o500, 1, f.owner.Uid, f.owner.Gid, 4096
		return st, nil
	}
	st.Mode = uint16(v.n.Mode())
	switch v.n.Kind() {
	case control.Dir:
		st.Mode |= unix.S_IFDIR
	case control.Symlink:
		st.Mode |= unix.S_IFLNK
	default:
		st.Mode |= unix.S_IFREG
	}
	st.Nlink, st.Uid, st.Gid, st.Blksize = 1, f.owner.Uid, f.owner.Gid, 4096
	if v.n.Kind() == control.Foreign {
		if what, err := v.n.Open(control.Caller{}); err == nil {
			if log, ok := what.(*eventLog); ok {
				st.Size = uint64(log.bytes())
			}
		}
	}
	return st, nil
}

func (f *face) getAttrVirtual(h *fuse.InHeader, out *fuse.AttrOut) fuse.Status {
	v := f.virtuals.get(h.NodeId)
	if v == nil {
		return fuse.Status(unix.ESTALE)
	}
	st, err := f.statVirtual(v)
	if err != nil {
		return f.status("getattr", err)
	}
	st.Ino = v.id
	attr(&st, &out.Attr)
	return fuse.OK
}

func (f *face) isCtl(id uint64) bool {
	v := f.virtuals.get(id)
	return v != nil && v.n != nil && v.n.Kind() == control.Ctl
}

func (f *face) readlinkVirtual(h *fuse.InHeader) ([]byte, fuse.Status) {
	v := f.virtuals.get(h.NodeId)
	if v == nil {
		return nil, fuse.Status(unix.ESTALE)
	}
	b, err := f.targetOf(v, f.who(h))
	return b, f.status("readlink", err)
}

func (f *face) targetOf(v *virtual, c control.Caller) ([]byte, error) {
	if v.tree != nil {
		return v.tree.Readlink(v.in)
	}
	return v.n.Content(c)
}

// virtualFile is an open file below `.tt`: its content as of the open, a session of ctl, a file of a tree, or the log.
type virtualFile struct {
	content []byte
	active  func() tasktree.TaskID // of a session's agent
	session *control.Session
	tree    *overlay.Tree
	in      string
	log     *eventLog
	check   *check
}

func (v *virtualFile) close() {
	if v.check != nil {
		v.check.close()
	}
}

func (v *virtualFile) read(cancel <-chan struct{}, b []byte, off int64) (int, error) {
	switch {
	case v.check != nil:
		return v.check.read(cancel, b, off)
	case v.session != nil:
		return v.session.Read(b), nil
	case v.tree != nil:
		return v.tree.ReadAt(v.in, b, off)
	case v.log != nil:
		return v.log.readAt(b, off)
	case off >= int64(len(v.content)):
		return 0, nil
	}
	return copy(b, v.content[off:]), nil
}

// seek is lseek(2) for SEEK_DATA and SEEK_HOLE: all is data. What is said as it is asked for has no end yet.
func (v *virtualFile) seek(off int64, whence int) (int64, error) {
	size := int64(len(v.content))
	switch {
	case v.check != nil, v.session != nil:
		return 0, syscall.ESPIPE
	case v.tree != nil:
		st, err := v.tree.Stat(v.in)
		if err != nil {
			return 0, err
		}
		size = int64(st.Size)
	case v.log != nil:
		size = v.log.bytes()
	}
	switch {
	case off < 0 || off >= size:
		return 0, syscall.ENXIO
	case whence == unix.SEEK_HOLE:
		return size, nil
	}
	return off, nil
}

func (v *virtualFile) write(b []byte) (int, error) {
	if v.session == nil {
		return 0, syscall.EBADF
	}
	return v.session.Write(slices.Clone(b))
}

func (f *face) openVirtual(in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	v := f.virtuals.get(in.NodeId)
	if v == nil {
		return fuse.Status(unix.ESTALE)
	}
	c := f.who(&in.InHeader)
	h, writes, err := f.openVirtualFile(v, c, in.Flags)
	if err != nil {
		return f.status("open", err)
	}
	if writes {
		return fuse.EROFS
	}
	out.Fh = f.handles.add(h)
	if v.tree == nil {
		out.OpenFlags = fuse.FOPEN_DIRECT_IO | fuse.FOPEN_NOFLUSH
		f.keepVirtual(v, out.Fh, estate.Virtual, in.Flags, c)
	}
	return fuse.OK
}

// openVirtualFile opens a name below `.tt`. writes: it was to be written to, and cannot be.
func (f *face) openVirtualFile(v *virtual, c control.Caller, flags uint32) (h *virtualFile, writes bool, err error) {
	h = &virtualFile{}
	writes = flags&unix.O_ACCMODE != unix.O_RDONLY
	switch {
	case v.tree != nil:
		h.tree, h.in = v.tree, v.in
	case v.n.Kind() == control.Ctl:
		sp := f.spaceOf(v.view)
		h.session, writes = control.NewSession(sp.back, c), false
		h.active = func() tasktree.TaskID { return sp.e.Active(c.Agent) }
	case v.n.Kind() == control.Foreign:
		var what any
		if what, err = v.n.Open(c); err == nil {
			h.log, _ = what.(*eventLog)
			if file, ok := what.(*checkFile); ok && !writes {
				h.check, err = file.open()
			}
		}
	default:
		h.content, err = v.n.Content(c)
	}
	return h, writes, err
}

// keepVirtual keeps what is open below the workspace's own `.tt`.
func (f *face) keepVirtual(v *virtual, fh uint64, kind estate.HandleKind, flags uint32, c control.Caller) {
	if v.view == 0 && v.tree == nil && !v.as {
		f.keepOther(estate.Handle{FH: fh, Node: v.id, Kind: kind, Flags: flags, PID: uint32(c.PID), Agent: string(c.Agent), Path: v.path})
	}
}

// virtualDir is an open directory below `.tt`, as it was at the open.
type virtualDir struct {
	entries []fuse.DirEntry
}

func (d *virtualDir) read(off uint64, out *fuse.DirEntryList) {
	for i := off; i < uint64(len(d.entries)); i++ {
		ent := d.entries[i]
		ent.Off = i + 1
		if !out.AddDirEntry(ent) {
			return
		}
	}
}

// readDirPlusVirtual lists without looking up: the kernel does that when it needs to.
func (f *face) readDirPlusVirtual(in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	d, ok := f.handles.get(in.Fh).(*virtualDir)
	if !ok {
		return fuse.EBADF
	}
	for i := in.Offset; i < uint64(len(d.entries)); i++ {
		ent := d.entries[i]
		ent.Off = i + 1
		if out.AddDirLookupEntry(ent) == nil {
			break
		}
	}
	return fuse.OK
}

func (f *face) openDirVirtual(in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	v := f.virtuals.get(in.NodeId)
	if v == nil {
		return fuse.Status(unix.ESTALE)
	}
	d, s := f.listVirtual(v)
	if !s.Ok() {
		return s
	}
	out.Fh = f.handles.add(d)
	f.keepVirtual(v, out.Fh, estate.VirtualDir, 0, f.who(&in.InHeader))
	return fuse.OK
}

// listVirtual lists a directory below `.tt`.
func (f *face) listVirtual(v *virtual) (*virtualDir, fuse.Status) {
	d := &virtualDir{entries: []fuse.DirEntry{{Name: ".", Mode: unix.S_IFDIR}, {Name: "..", Mode: unix.S_IFDIR}}}
	switch {
	case v.as:
	case v.tree != nil:
		entries, err := v.tree.List(v.in)
		if err != nil {
			return nil, f.status("opendir", err)
		}
		for _, ent := range entries {
			d.entries = append(d.entries, fuse.DirEntry{Name: ent.Name, Mode: ent.Type})
		}
	default:
		nodes, err := v.n.List()
		if err != nil {
			return nil, f.status("opendir", err)
		}
		for _, n := range nodes {
			d.entries = append(d.entries, fuse.DirEntry{Name: path.Base(n.Path())})
		}
		if v.path == overlay.StoreName {
			d.entries = append(d.entries, fuse.DirEntry{Name: "as"})
		}
	}
	sort.Slice(d.entries[2:], func(i, j int) bool { return d.entries[2+i].Name < d.entries[2+j].Name })
	return d, fuse.OK
}
