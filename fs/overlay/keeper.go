package overlay

import (
	"github.com/ttfs/ttfs/guard"
	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// A Keeper keeps, outside of this process, what the kernel knows of nodes, for the daemon that follows when this one is
// killed. It is called under nodeTable.mu, and returns at once.
type Keeper interface {
	// PutNode keeps a node, in the place of an older record of it (0: none), and gives the record's number; 0: it is not kept.
	PutNode(old uint32, n *KeptNode) uint32
	LookedNode(record uint32, lookups uint64)
	DropNode(record uint32)
	// Hold keeps the descriptor of an inode that has no name any more, until Unhold.
	Hold(id NodeID, fd int)
	Unhold(id NodeID)
	// Held gives, of an inode that an earlier daemon had held, a descriptor of its own; false when there is none.
	Held(id NodeID) (fd int, ok bool)
}

// KeptNode is what is kept of a node.
type KeptNode struct {
	ID      NodeID
	Ino     uint64
	Born    int64
	Kind    uint32 // S_IFMT bits, and below them, of a directory, how often the kernel has removed it (dirState.removed)
	Lookups uint64
	// Up is the directory that it is in, by the name Name; of one in hold, its object.
	Up   uint64
	Name string
	// InHold: its place is in hold. Gone: it has no place.
	InHold, Gone bool
}

// keptLocked tells the keeper where a node is by now, if the kernel knows it. Preconditions: nodes.mu is held.
func (e *Engine) keptLocked(n *node) {
	if e.opt.Keeper != nil && (n.record != 0 || n.lookups > 0) {
		e.keepLocked(n)
	}
}

func (e *Engine) keepLocked(n *node) {
	if n == e.nodes.root || n.from != nil {
		return
	}
	k := KeptNode{ID: n.id, Ino: n.key.ino, Born: n.key.born, Kind: n.kind | uint32(n.generation()-1)&^unix.S_IFMT, Lookups: n.lookups}
	switch {
	case n.parent != nil:
		k.Up, k.Name = uint64(n.parent.id), n.name
		if n.parent.record == 0 {
			e.keepLocked(n.parent) // the kernel does not know it, but what is in it
		}
	case n.inHold:
		k.Up, k.InHold = uint64(n.oid), true
	default:
		k.Gone = true
	}
	n.record = e.opt.Keeper.PutNode(n.record, &k)
}

// unkeptLocked tells the keeper that a node is no more.
func (e *Engine) unkeptLocked(n *node) {
	if n.record != 0 {
		e.opt.Keeper.DropNode(n.record)
		n.record = 0
	}
	if n.entrusted {
		n.entrusted = false
		e.opt.Keeper.Unhold(n.id)
	}
}

// entrust gives the keeper the descriptor of an inode that has no name, or is about to lose its last one, while it is open:
// with this process it would be gone.
func (e *Engine) entrust(n *node, fd int) {
	if e.opt.Keeper == nil || n.from != nil {
		return
	}
	e.nodes.mu.Lock()
	defer e.nodes.mu.Unlock()
	if !n.entrusted {
		n.entrusted = true
		e.opt.Keeper.Hold(n.id, fd)
	}
}

// RestoreNodes gives the engine the nodes that the kernel has of a daemon before this one. next is above all their ids.
// Preconditions: no operation has begun.
func (e *Engine) RestoreNodes(next NodeID, each func(f func(record uint32, n KeptNode))) {
	t := &e.nodes
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next = max(t.next, next)
	var all []KeptNode
	each(func(record uint32, k KeptNode) {
		n := &node{id: k.ID, kind: k.Kind & unix.S_IFMT, key: inoKey{k.Ino, k.Born}, lookups: k.Lookups, record: record, restored: true}
		if n.kind == unix.S_IFDIR {
			n.dir = &dirState{dead: k.InHold || k.Gone}
			n.dir.removed.Store(k.Kind &^ unix.S_IFMT)
		}
		switch {
		case k.InHold:
			n.oid, n.asked, n.inHold, n.held = OID(k.Up), true, true, n.dir == nil
		case k.Gone:
			n.last = &Stat{Mask: unix.STATX_BASIC_STATS, Mode: uint16(n.kind), Ino: k.Ino}
		}
		if fd, ok := e.opt.Keeper.Held(k.ID); ok { // it may have lost its name after its record was written
			n.keep, n.entrusted = int32(fd), true
			t.kept++
		}
		t.byID[k.ID] = n
		if t.byIno[n.key] == nil {
			t.byIno[n.key] = n
		}
		all = append(all, k)
	})
	for _, k := range all {
		n := t.byID[k.ID]
		if k.InHold || k.Gone {
			continue
		}
		if up := t.byID[NodeID(k.Up)]; up != nil && up.dir != nil && up != n {
			n.parent, n.name = up, k.Name
			up.pins++
		}
	}
	for _, k := range all {
		if n := t.byID[k.ID]; n != nil {
			e.dropLocked(n) // a directory that was kept for what is in it no more
		}
	}
}

// resettle finds a node of before this daemon which is not where it was said to be: a death came between a change and the
// note of it, or a move was completed since. It says whether it has a place. Preconditions: neither places nor nodes.mu is held.
func (e *Engine) resettle(n *node) bool {
	e.nodes.mu.Lock()
	restored := n.restored
	n.restored = false
	e.nodes.mu.Unlock()
	if !restored {
		return false
	}
	id, err := e.findOID(n.key)
	if err != nil || id == 0 {
		return false
	}
	e.setOID(n, id)
	if e.inHold(id, n.key) {
		defer e.places.lock(nil, nil).unlock()
		e.held(n, id)
		return true
	}
	o, found, err := e.getObject(id)
	if err != nil || !found {
		return false
	}
	for _, at := range []spot{o.at, o.was} {
		if at.dir == 0 {
			continue
		}
		up := (&step{mover: &mover{e: e}}).dirNode(at.dir, 0)
		if up == nil {
			continue
		}
		seen := e.seenAgain(up, at.name, n.key)
		e.unpin(up)
		if seen {
			return true
		}
	}
	return false
}

// seenAgain gives an inode its place, if it is there.
func (e *Engine) seenAgain(up *node, name string, k inoKey) bool {
	f, err := e.useDir(up)
	if err != nil {
		return false
	}
	defer e.putDir(f)
	names := e.places.at(up)
	names.RLock()
	defer names.RUnlock()
	var st Stat
	if statAt(f.fd, name, &st) != nil || keyOf(&st) != k {
		return false
	}
	e.unpin(e.intern(up, name, &st, false))
	return true
}

// KeptHandle is what is kept of an open file.
type KeptHandle struct {
	Node                         NodeID
	Flags                        uint32
	Mode                         Mode
	Backed, Privileged, Rewrites bool
	Agent                        tasktree.Agent
	Proc                         guard.Process
}

// Kept is what is to be kept of an open file. Preconditions: it was just opened.
func (h *Handle) Kept() KeptHandle {
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	return KeptHandle{Node: h.n.id, Flags: h.flags, Mode: h.how.mode, Backed: h.how.backed, Privileged: h.privileged, Rewrites: h.rewrites, Agent: h.agent, Proc: h.proc}
}

// OnEnd has f called when nothing is left of an open file: after its release, and after the last mapping that outlived that.
// Preconditions: the kernel does not know of the handle yet.
func (h *Handle) OnEnd(f func()) { h.ended = f }

// Reopen opens a file as a daemon before this one had it open: nothing is judged, kept or emptied once more. Errors: ESTALE for an
// inode that is gone, EACCES where the daemon may not open what it could open then.
func (e *Engine) Reopen(k KeptHandle) (*Handle, error) {
	n, err := e.pin(k.Node)
	if err != nil {
		return nil, err
	}
	h := &Handle{n: n, fd: -1, flags: k.Flags, agent: k.Agent, proc: k.Proc, privileged: k.Privileged, how: how{mode: k.Mode, backed: k.Backed}}
	access := unix.O_RDONLY
	if h.writes() {
		access = unix.O_RDWR
	}
	fd, err := e.openNode(n, access|backingFlags(k.Flags))
	if err == unix.EACCES && access == unix.O_RDWR {
		fd, err = e.openNode(n, int(k.Flags&unix.O_ACCMODE)|backingFlags(k.Flags))
	}
	if err != nil {
		e.unpin(n)
		return nil, err
	}
	h.fd = fd
	var st Stat
	if statAt(fd, "", &st) == nil {
		h.stamp = leftAs(&st)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	e.opened(h)
	if k.Rewrites {
		c := Caller{Agent: k.Agent, Proc: k.Proc}
		e.learn(&c, func(s *guard.State, a guard.Actor) { s.BeginRewrite(fileOf(n.ident()), a) })
		h.rewrites = true
	}
	return h, nil
}
