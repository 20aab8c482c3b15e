package fs

import (
	"sync/atomic"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/ttfs/ttfs/fs/overlay"
	"golang.org/x/sys/unix"
)

// fakeBase is the first node id of objects that a replay removes and that the kernel knew no node of. Each is used once.
const fakeBase = uint64(1) << 63

// showing is the step that the child is making.
type showing struct {
	step showStep
	sp   *space
	dir  overlay.NodeID
	name string
	was  overlay.NodeID // what was there, 0: nobody knows it
	// replaced: there is something else at the name by now.
	replaced bool
	// answered: the child was told that the removed name is there, or that it has made the name. What it asks after that
	// is answered as it is. The kernel keeps the directory locked between the lookup and the removal, so that what it
	// removes is what it was told.
	answered atomic.Bool
}

func (s *showing) at(dir uint64, name string) bool {
	return s != nil && s.sp != nil && s.sp.id(s.dir) == dir && s.name == name
}

// by says whether a request is the child's.
func (r *replay) by(h *fuse.InHeader) bool {
	pid := r.pid.Load()
	return pid != 0 && pid == h.Pid
}

// lookup tells the child that a name is still there which it is to remove, and that one is not yet there which it is to
// make. Nothing of it is kept: whoever else asks is told the truth.
func (r *replay) lookup(h *fuse.InHeader, name string, out *fuse.EntryOut) (fuse.Status, bool) {
	if !r.by(h) {
		return fuse.OK, false
	}
	s := r.now.Load()
	if !s.at(h.NodeId, name) {
		return fuse.OK, false
	}
	switch s.step.Op {
	case showCreate:
		if s.answered.Load() {
			return fuse.OK, false
		}
		out.NodeId = 0
		return fuse.OK, true
	case showDelete:
		if ent, err := s.sp.e.Lookup(s.dir, name); err == nil {
			s.sp.e.Forget(ent.Node, 1)
			if !s.replaced {
				return fuse.OK, false // somebody has made it meanwhile
			}
		}
		r.fake(s, out)
		s.answered.Store(true)
		return fuse.OK, true
	}
	return fuse.OK, false
}

// fake answers with what was at the name: its own node, so that watchers of the file itself hear of it, or one that
// never was. A directory is always the latter: the kernel marks the one that it removes as dead for good.
func (r *replay) fake(s *showing, out *fuse.EntryOut) {
	if s.was != 0 && s.step.Kind != unix.S_IFDIR {
		if ent, err := s.sp.e.LookupNode(s.was); err == nil {
			if uint32(ent.Stat.Mode)&unix.S_IFMT != unix.S_IFDIR {
				ent.Stat.Nlink++ // the kernel takes it away again
				r.f.entryOut(s.sp.id(s.dir), &ent, out)
				out.SetEntryTimeout(0)
				out.SetAttrTimeout(0)
				return
			}
			s.sp.e.Forget(ent.Node, 1)
		}
	}
	out.NodeId, out.Generation = fakeBase+r.fakes.Add(1), 1
	out.Attr = fuse.Attr{Ino: out.NodeId, Mode: s.step.Kind | 0o700, Nlink: 1, Owner: r.f.owner}
}

// removed answers unlink and rmdir. Only what the child was told of goes.
func (r *replay) removed(h *fuse.InHeader, name string) fuse.Status {
	if s := r.now.Load(); s.at(h.NodeId, name) && s.step.Op == showDelete && s.answered.Load() {
		return fuse.OK
	}
	return fuse.EBUSY
}

// made answers what makes a name: with what is there.
func (r *replay) made(h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	s := r.now.Load()
	if !s.at(h.NodeId, name) || s.step.Op != showCreate {
		return fuse.EBUSY
	}
	ent, err := s.sp.e.Lookup(s.dir, name)
	if err != nil {
		return r.f.status("lookup", err)
	}
	if uint32(ent.Stat.Mode)&unix.S_IFMT != s.step.Kind {
		s.sp.e.Forget(ent.Node, 1)
		return fuse.EBUSY
	}
	s.answered.Store(true)
	r.f.entryOut(h.NodeId, &ent, out)
	return fuse.OK
}

// created is made, and open.
func (r *replay) created(h *fuse.InHeader, name string, out *fuse.CreateOut) fuse.Status {
	s := r.made(h, name, &out.EntryOut)
	if !s.Ok() {
		return s
	}
	return r.opened(out.EntryOut.NodeId, &out.OpenOut)
}

// inert is a file that the child has open: nothing is read or written by it.
type inert struct {
	of     backingKey
	backed bool
}

// opened answers an open. Where the kernel has a backing file for the inode already, every open must have it.
func (r *replay) opened(id uint64, out *fuse.OpenOut) fuse.Status {
	h := &inert{of: backingKey{r.f.space(id), node(id)}}
	out.OpenFlags = fuse.FOPEN_DIRECT_IO | fuse.FOPEN_NOFLUSH
	if backing, ok := r.f.backings.attachAgain(h.of); ok {
		h.backed = true
		out.OpenFlags, out.BackingID = fuse.FOPEN_PASSTHROUGH|fuse.FOPEN_NOFLUSH, backing
	}
	out.Fh = r.f.handles.add(h)
	return fuse.OK
}

// released ends such a file.
func (r *replay) released(h *inert) {
	if h.backed {
		r.f.detach(h.of)
	}
}

// attachAgain counts one more open of a node that is open for passthrough.
func (t *backingTable) attachAgain(k backingKey) (backing int32, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.ids[k]
	if b == nil {
		return 0, false
	}
	b.opens++
	return b.id, true
}

// setAttr answers with the attributes as they are.
func (r *replay) setAttr(in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	st, err := r.f.of(in.NodeId).GetAttr(node(in.NodeId), nil)
	if err != nil {
		return r.f.status("getattr", err)
	}
	r.f.attrTimeout(in.NodeId, out)
	attr(&st, &out.Attr)
	return fuse.OK
}
