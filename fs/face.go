package fs

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/ttfs/ttfs/fs/identity"
	"github.com/ttfs/ttfs/fs/overlay"
	"github.com/ttfs/ttfs/guard"
	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// face answers the kernel.
type face struct {
	fuse.RawFileSystem // what is not here is ENOSYS; GetLk, SetLk, SetLkw: the kernel keeps locks itself; Ioctl: see below

	main   *space // the workspace itself
	ids    *identity.Resolver
	carry  *carrier
	log    *slog.Logger
	server kernel
	owner  fuse.Owner // of the workspace: everything below .tt is its

	handles  handleTable
	backings backingTable
	virtuals virtualTable
	views    viewTable
	mapped   mappedTable
	closing  atomic.Bool
	forks    sync.Map // of *space by the fork's whole name
	replay   replay
	legacy   *legacy // nil: the mount ends with this daemon
	past     past    // nil: as legacy
}

var _ fuse.RawFileSystem = (*face)(nil)

// String names the filesystem in logs.
func (f *face) String() string { return "ttfs" }

// caller is on whose behalf a request comes.
func (f *face) caller(h *fuse.InHeader) overlay.Caller {
	who := f.ids.Resolve(h.Pid)
	c := overlay.Caller{Agent: who.Agent, UID: h.Uid, GID: h.Gid, Proc: guard.Process{PID: who.Proc.PID, Start: who.Proc.Start}}
	e := f.main.e
	if v, ok := f.views.at(viewOf(h.NodeId)); ok {
		if c.Agent = f.through(v, h.NodeId, who.Agent); c.Agent != who.Agent || !f.isOwn(h.NodeId) {
			return c
		}
		e = v.sp.e
	}
	if !who.Root && who.Agent != tasktree.User {
		c.Entered = f.ids.EnteredTask(h.Pid, e.Active(who.Agent))
	}
	return c
}

func attr(st *overlay.Stat, out *fuse.Attr) {
	out.Ino, out.Size, out.Blocks = st.Ino, st.Size, st.Blocks
	out.Atime, out.Atimensec = uint64(st.Atime.Sec), st.Atime.Nsec
	out.Mtime, out.Mtimensec = uint64(st.Mtime.Sec), st.Mtime.Nsec
	out.Ctime, out.Ctimensec = uint64(st.Ctime.Sec), st.Ctime.Nsec
	out.Mode, out.Nlink = uint32(st.Mode), st.Nlink
	out.Uid, out.Gid = st.Uid, st.Gid
	out.Rdev = uint32(unix.Mkdev(st.Rdev_major, st.Rdev_minor))
	out.Blksize = st.Blksize
}

func entryOut(ent *overlay.Entry, out *fuse.EntryOut) {
	out.NodeId, out.Generation = uint64(ent.Node), ent.Generation
	attr(&ent.Stat, &out.Attr)
}

// Lookup is called for a name that the kernel does not know. A name that is not there is told as well.
func (f *face) Lookup(_ <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if !isName(name) {
		return fuse.EINVAL
	}
	if s, answered := f.replay.lookup(h, name, out); answered {
		return s
	}
	if isVirtual(h.NodeId) || isStore(h.NodeId, name) {
		return f.lookupVirtual(h, name, out)
	}
	ent, err := f.of(h.NodeId).Lookup(node(h.NodeId), name)
	if err == unix.ENOENT && f.isOwn(h.NodeId) {
		out.NodeId = 0
		out.SetEntryTimeout(f.kept(h.NodeId))
		return fuse.OK
	}
	if err != nil {
		return f.status("lookup", err)
	}
	f.entryOut(h.NodeId, &ent, out)
	return fuse.OK
}

// Forget takes back lookups.
func (f *face) Forget(id, n uint64) {
	if isVirtual(id) {
		f.virtuals.forget(id, n)
		return
	}
	f.of(id).Forget(node(id), n)
}

// GetAttr is stat(2).
func (f *face) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	if isVirtual(in.NodeId) {
		return f.getAttrVirtual(&in.InHeader, out)
	}
	var h *overlay.Handle
	if in.Flags()&fuse.FUSE_GETATTR_FH != 0 {
		h = f.handles.file(in.Fh())
	}
	st, err := f.of(in.NodeId).GetAttr(node(in.NodeId), h)
	if err != nil {
		return f.status("getattr", err)
	}
	f.attrTimeout(in.NodeId, out)
	attr(&st, &out.Attr)
	return fuse.OK
}

// SetAttr is chmod, chown, truncate and utimens.
func (f *face) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	if isVirtual(in.NodeId) {
		// Opening ctl with O_TRUNC does nothing, and so does truncating it.
		if in.Valid&^(fuse.FATTR_SIZE|fuse.FATTR_FH|fuse.FATTR_LOCKOWNER|fuse.FATTR_KILL_SUIDGID|fuse.FATTR_CTIME|fuse.FATTR_MTIME|fuse.FATTR_MTIME_NOW) == 0 && f.isCtl(in.NodeId) {
			return f.getAttrVirtual(&in.InHeader, out)
		}
		return fuse.EROFS
	}
	if f.replay.by(&in.InHeader) {
		return f.replay.setAttr(in, out)
	}
	var s overlay.SetAttr
	if in.Valid&fuse.FATTR_MODE != 0 {
		s.Mode = &in.Mode
	}
	if in.Valid&fuse.FATTR_UID != 0 {
		s.UID = &in.Uid
	}
	if in.Valid&fuse.FATTR_GID != 0 {
		s.GID = &in.Gid
	}
	if in.Valid&fuse.FATTR_SIZE != 0 {
		size := int64(in.Size)
		s.Size = &size
	}
	s.Atime = setTime(in.Valid, fuse.FATTR_ATIME, fuse.FATTR_ATIME_NOW, in.Atime, in.Atimensec)
	s.Mtime = setTime(in.Valid, fuse.FATTR_MTIME, fuse.FATTR_MTIME_NOW, in.Mtime, in.Mtimensec)
	s.KillPriv = in.Valid&fuse.FATTR_KILL_SUIDGID != 0
	var h *overlay.Handle
	if in.Valid&fuse.FATTR_FH != 0 {
		h = f.handles.file(in.Fh)
	}
	st, err := f.of(in.NodeId).SetAttributes(f.caller(&in.InHeader), node(in.NodeId), h, s)
	if err != nil {
		return f.status("setattr", err)
	}
	f.changed(in.NodeId, "")
	f.attrTimeout(in.NodeId, out)
	attr(&st, &out.Attr)
	return fuse.OK
}

func setTime(valid, set, now uint32, sec uint64, nsec uint32) *time.Time {
	switch {
	case valid&set == 0:
		return nil
	case valid&now != 0:
		return &time.Time{}
	}
	t := time.Unix(int64(sec), int64(nsec))
	return &t
}

// Readlink is readlink(2).
func (f *face) Readlink(_ <-chan struct{}, h *fuse.InHeader) ([]byte, fuse.Status) {
	if isVirtual(h.NodeId) {
		return f.readlinkVirtual(h)
	}
	target, err := f.of(h.NodeId).Readlink(node(h.NodeId))
	return target, f.status("readlink", err)
}

// StatFs is statfs(2).
func (f *face) StatFs(_ <-chan struct{}, h *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	id := h.NodeId
	if isVirtual(id) {
		id = fuse.FUSE_ROOT_ID
	}
	st, err := f.of(id).StatFS()
	if err != nil {
		return f.status("statfs", err)
	}
	out.Blocks, out.Bfree, out.Bavail = st.Blocks, st.Bfree, st.Bavail
	out.Files, out.Ffree = st.Files, st.Ffree
	out.Bsize, out.NameLen, out.Frsize = uint32(st.Bsize), uint32(st.Namelen), uint32(st.Frsize)
	return fuse.OK
}

// Ioctl is refused: the daemon would do it with its own privileges.
func (f *face) Ioctl(_ <-chan struct{}, _ *fuse.IoctlIn, _ []byte, _ *fuse.IoctlOut, _ []byte) fuse.Status {
	return fuse.Status(unix.ENOTTY)
}

// GetXAttr is getxattr(2).
func (f *face) GetXAttr(_ <-chan struct{}, h *fuse.InHeader, name string, dest []byte) (uint32, fuse.Status) {
	if isVirtual(h.NodeId) {
		return 0, fuse.ENODATA
	}
	v, err := f.of(h.NodeId).GetXattr(node(h.NodeId), name)
	if err != nil {
		return 0, f.status("getxattr", err)
	}
	return fill(dest, v)
}

// ListXAttr is listxattr(2).
func (f *face) ListXAttr(_ <-chan struct{}, h *fuse.InHeader, dest []byte) (uint32, fuse.Status) {
	if isVirtual(h.NodeId) {
		return 0, fuse.OK
	}
	v, err := f.of(h.NodeId).ListXattr(node(h.NodeId))
	if err != nil {
		return 0, f.status("listxattr", err)
	}
	return fill(dest, v)
}

func fill(dest, v []byte) (uint32, fuse.Status) {
	if len(dest) < len(v) {
		return uint32(len(v)), fuse.ERANGE
	}
	return uint32(copy(dest, v)), fuse.OK
}

// SetXAttr is setxattr(2).
func (f *face) SetXAttr(_ <-chan struct{}, in *fuse.SetXAttrIn, name string, data []byte) fuse.Status {
	if isVirtual(in.NodeId) {
		return fuse.EROFS
	}
	kill := in.SetXAttrFlags&fuse.SETXATTR_ACL_KILL_SGID != 0
	defer f.changed(in.NodeId, "")
	err := f.of(in.NodeId).SetXattr(f.caller(&in.InHeader), node(in.NodeId), name, data, int(in.Flags), kill)
	if f.begun(&in.InHeader, err, unix.EEXIST) {
		err = nil
	}
	return f.status("setxattr", err)
}

// RemoveXAttr is removexattr(2).
func (f *face) RemoveXAttr(_ <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	if isVirtual(h.NodeId) {
		return fuse.EROFS
	}
	defer f.changed(h.NodeId, "")
	err := f.of(h.NodeId).RemoveXattr(f.caller(h), node(h.NodeId), name)
	if f.begun(h, err, unix.ENODATA) {
		err = nil
	}
	return f.status("removexattr", err)
}
