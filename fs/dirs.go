package fs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/ttfs/ttfs/fs/estate"
	"github.com/ttfs/ttfs/fs/overlay"
)

// OpenDir opens a directory. What the kernel has of its names it keeps where that is true (overlay.Keep).
func (f *face) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if isVirtual(in.NodeId) {
		return f.openDirVirtual(in, out)
	}
	d, keep, err := f.of(in.NodeId).OpenListing(node(in.NodeId), f.kept(in.NodeId))
	if err != nil {
		return f.status("opendir", err)
	}
	switch keep {
	case overlay.KeepAll:
		out.OpenFlags = fuse.FOPEN_CACHE_DIR | fuse.FOPEN_KEEP_CACHE
	case overlay.KeepNew:
		out.OpenFlags = fuse.FOPEN_CACHE_DIR
	}
	out.Fh = f.handles.add(d)
	if f.isKept(in.NodeId) {
		f.keepOther(estate.Handle{FH: out.Fh, Node: in.NodeId, Kind: estate.Dir})
	}
	return fuse.OK
}

// ReadDir lists names.
func (f *face) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	switch d := f.handles.get(in.Fh).(type) {
	case *overlay.Dir:
		return f.status("readdir", f.of(in.NodeId).Next(d, in.Offset, func(ent overlay.Dirent) bool {
			return out.AddDirEntry(fuse.DirEntry{Name: ent.Name, Ino: ent.Ino, Mode: ent.Type, Off: ent.Next})
		}))
	case *virtualDir:
		d.read(in.Offset, out)
		return fuse.OK
	}
	return fuse.EBADF
}

// ReadDirPlus lists names and looks each up. An entry that cannot be looked up is listed all the same.
func (f *face) ReadDirPlus(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	d, ok := f.handles.get(in.Fh).(*overlay.Dir)
	if !ok {
		return f.readDirPlusVirtual(in, out)
	}
	var found []string
	var slots []*fuse.EntryOut
	err := f.of(in.NodeId).Next(d, in.Offset, func(ent overlay.Dirent) bool {
		slot := out.AddDirLookupEntry(fuse.DirEntry{Name: ent.Name, Ino: ent.Ino, Mode: ent.Type, Off: ent.Next})
		if slot == nil {
			return false
		}
		if ent.Name != "." && ent.Name != ".." {
			found, slots = append(found, ent.Name), append(slots, slot)
		}
		return true
	})
	if err != nil {
		return f.status("readdirplus", err)
	}
	if !f.of(in.NodeId).Attributes(d, in.Offset, f.kept(in.NodeId)) {
		return fuse.OK
	}
	for i, name := range found {
		if ent, err := f.of(in.NodeId).LookupIn(d, name); err == nil {
			f.entryOut(in.NodeId, &ent, slots[i])
		}
	}
	return fuse.OK
}

// ReleaseDir ends a listing.
func (f *face) ReleaseDir(in *fuse.ReleaseIn) {
	f.unkeep(in.Fh, false)
	if d, ok := f.handles.drop(in.Fh).(*overlay.Dir); ok {
		f.of(in.NodeId).CloseDir(d)
	}
}

// FsyncDir is fsync(2) of a directory.
func (f *face) FsyncDir(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	if d, ok := f.handles.get(in.Fh).(*overlay.Dir); ok {
		return f.status("fsyncdir", f.of(in.NodeId).SyncDir(d))
	}
	return fuse.OK
}
