package fs

import (
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/ttfs/ttfs/fs/overlay"
	"golang.org/x/sys/unix"
)

// made answers a request that makes a name.
func (f *face) made(op string, dir uint64, name string, ent overlay.Entry, err error, out *fuse.EntryOut) fuse.Status {
	if err != nil {
		return f.status(op, err)
	}
	f.entryOut(dir, &ent, out)
	f.changed(dir, name)
	return fuse.OK
}

// isStore says whether a name is the store's own, which nothing can make or remove.
func isStore(dir uint64, name string) bool {
	return !isVirtual(dir) && node(dir) == overlay.RootNode && name == overlay.StoreName
}

// isName says whether a name is one of an entry. The kernel sends no others, and a request that did would reach the
// directory itself, or one outside.
func isName(name string) bool {
	return name != "" && name != "." && name != ".." && strings.IndexByte(name, '/') < 0
}

// fixed refuses names that are none, changes below `.tt`, and of `.tt` itself.
func fixed(dir uint64, name string, making bool) fuse.Status {
	switch {
	case !isName(name):
		return fuse.EINVAL
	case isVirtual(dir):
		return fuse.EROFS
	case isStore(dir, name) && making:
		return fuse.Status(unix.EEXIST)
	case isStore(dir, name):
		return fuse.EPERM
	}
	return fuse.OK
}

// Mknod makes a file, fifo, socket or device.
func (f *face) Mknod(_ <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	if s := fixed(in.NodeId, name, true); !s.Ok() {
		return s
	}
	if f.replay.by(&in.InHeader) {
		return f.replay.made(&in.InHeader, name, out)
	}
	c := f.caller(&in.InHeader)
	c.Umask = in.Umask
	ent, err := f.of(in.NodeId).Mknod(c, node(in.NodeId), name, in.Mode, in.Rdev)
	ent, err = f.madeBefore(&in.InHeader, name, 0, ent, err)
	return f.made("mknod", in.NodeId, name, ent, err, out)
}

// Mkdir makes a directory.
func (f *face) Mkdir(_ <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	if s := fixed(in.NodeId, name, true); !s.Ok() {
		return s
	}
	if f.replay.by(&in.InHeader) {
		return f.replay.made(&in.InHeader, name, out)
	}
	c := f.caller(&in.InHeader)
	c.Umask = in.Umask
	ent, err := f.of(in.NodeId).Mkdir(c, node(in.NodeId), name, in.Mode)
	ent, err = f.madeBefore(&in.InHeader, name, 0, ent, err)
	return f.made("mkdir", in.NodeId, name, ent, err, out)
}

// Symlink makes a symbolic link.
func (f *face) Symlink(_ <-chan struct{}, h *fuse.InHeader, target, name string, out *fuse.EntryOut) fuse.Status {
	if s := fixed(h.NodeId, name, true); !s.Ok() {
		return s
	}
	if f.replay.by(h) {
		return f.replay.made(h, name, out)
	}
	ent, err := f.of(h.NodeId).Symlink(f.caller(h), node(h.NodeId), name, target)
	ent, err = f.madeBefore(h, name, 0, ent, err)
	return f.made("symlink", h.NodeId, name, ent, err, out)
}

// Link gives an inode one more name.
func (f *face) Link(_ <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	if s := fixed(in.NodeId, name, true); !s.Ok() {
		return s
	}
	if isVirtual(in.Oldnodeid) || !f.same(in.Oldnodeid, in.NodeId) {
		return fuse.Status(unix.EXDEV)
	}
	ent, err := f.of(in.NodeId).Link(f.caller(&in.InHeader), node(in.Oldnodeid), node(in.NodeId), name)
	ent, err = f.madeBefore(&in.InHeader, name, node(in.Oldnodeid), ent, err)
	f.changed(in.Oldnodeid, "")
	return f.made("link", in.NodeId, name, ent, err, out)
}

// Unlink removes a name.
func (f *face) Unlink(_ <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	if s := fixed(h.NodeId, name, false); !s.Ok() {
		return s
	}
	if f.replay.by(h) {
		return f.replay.removed(h, name)
	}
	defer f.changed(h.NodeId, name)
	return f.status("unlink", f.removedBefore(h, f.of(h.NodeId).Unlink(f.caller(h), node(h.NodeId), name)))
}

// Rmdir removes an empty directory.
func (f *face) Rmdir(_ <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	if s := fixed(h.NodeId, name, false); !s.Ok() {
		return s
	}
	if f.replay.by(h) {
		return f.replay.removed(h, name)
	}
	defer f.changed(h.NodeId, name)
	return f.status("rmdir", f.removedBefore(h, f.of(h.NodeId).Rmdir(f.caller(h), node(h.NodeId), name)))
}

// Rename is renameat2(2).
func (f *face) Rename(_ <-chan struct{}, in *fuse.RenameIn, old, name string) fuse.Status {
	if s := fixed(in.NodeId, old, false); !s.Ok() {
		return s
	}
	if s := fixed(in.Newdir, name, false); !s.Ok() {
		return s
	}
	if viewOf(in.NodeId) != viewOf(in.Newdir) {
		return fuse.Status(unix.EXDEV)
	}
	defer f.changed(in.NodeId, old)
	defer f.changed(in.Newdir, name)
	if f.exchangeMark(in, old) {
		return fuse.OK
	}
	err := f.of(in.NodeId).Rename(f.caller(&in.InHeader), node(in.NodeId), old, node(in.Newdir), name, uint(in.Flags))
	return f.status("rename", f.renamedBefore(in, old, name, err))
}

// Access is asked only without default_permissions, which every mount has.
func (f *face) Access(<-chan struct{}, *fuse.AccessIn) fuse.Status { return fuse.ENOSYS }
