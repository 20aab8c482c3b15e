package estate

import (
	"sync/atomic"

	"github.com/ttfs/ttfs/fs/overlay"
)

const (
	nodeSize   = 64
	nameInline = 64 - 48
	nameMore   = 64 - 12
	// more is the first word of a record that goes on with a name.
	more = ^uint64(0)

	flagHold  = 1
	flagGone  = 2
	flagStale = 4 // another record of the node is about to be taken
)

// nodeRecord is one node, with the beginning of its name.
type nodeRecord struct {
	id      atomic.Uint64
	ino     uint64
	born    int64
	up      uint64
	lookups atomic.Uint32
	flags   atomic.Uint32
	next    uint32 // where the name goes on; 0: nowhere
	kind    uint16
	length  uint16
	name    [nameInline]byte
}

// nameRecord is more of a name.
type nameRecord struct {
	word atomic.Uint64
	next uint32
	name [nameMore]byte
}

func (e *Estate) node(i uint32) *nodeRecord { return (*nodeRecord)(e.nodes.at(i)) }

func (e *Estate) name(i uint32) *nameRecord { return (*nameRecord)(e.nodes.at(i)) }

// PutNode keeps a node, in the place of an older record of it (0: none), and gives the record's number; 0 when there is no
// room, and then nothing is kept of the node.
func (e *Estate) PutNode(old uint32, n *overlay.KeptNode) uint32 {
	for next := e.head.nextNode.Load(); next <= uint64(n.ID); next = e.head.nextNode.Load() {
		e.head.nextNode.CompareAndSwap(next, uint64(n.ID)+1)
	}
	i := e.nodes.take()
	if i == 0 {
		if old != 0 {
			e.DropNode(old)
		}
		return 0
	}
	r := e.node(i)
	r.ino, r.born, r.up, r.kind = n.Ino, n.Born, n.Up, uint16(n.Kind)
	flags := uint32(0)
	if n.InHold {
		flags |= flagHold
	}
	if n.Gone {
		flags |= flagGone
	}
	r.flags.Store(flags)
	r.lookups.Store(uint32(min(n.Lookups, 1<<32-1)))
	r.length, r.next = uint16(len(n.Name)), 0
	rest := n.Name[copy(r.name[:], n.Name):]
	for at := &r.next; rest != ""; {
		k := e.nodes.take()
		if k == 0 {
			r.id.Store(more) // what was taken of it is freed as a whole
			e.DropNode(i)
			if old != 0 {
				e.DropNode(old)
			}
			return 0
		}
		m := e.name(k)
		m.next = 0
		rest = rest[copy(m.name[:], rest):]
		m.word.Store(more)
		*at = k
		at = &m.next
	}
	if old != 0 {
		e.node(old).flags.Store(e.node(old).flags.Load() | flagStale)
	}
	r.id.Store(uint64(n.ID))
	if old != 0 {
		e.DropNode(old)
	}
	return i
}

// LookedNode keeps how often the kernel has looked a node up.
func (e *Estate) LookedNode(i uint32, lookups uint64) {
	e.node(i).lookups.Store(uint32(min(lookups, 1<<32-1)))
}

// DropNode forgets a node.
func (e *Estate) DropNode(i uint32) {
	next := e.node(i).next
	e.nodes.drop(i)
	for e.goesOn(next) {
		after := e.name(next).next
		e.nodes.drop(next)
		next = after
	}
}

// goesOn says whether a name goes on in a record. What was left may be anything: a record that is no part of a name ends it.
func (e *Estate) goesOn(i uint32) bool {
	return i != 0 && i < e.nodes.most && e.node(i).id.Load() == more
}

// NextNode is above all ids that nodes had.
func (e *Estate) NextNode() overlay.NodeID { return overlay.NodeID(e.head.nextNode.Load()) }

// Nodes gives every node that was kept, with its record's number. Of two records of a node the stale one is dropped, and so is
// what a death left of a name.
func (e *Estate) Nodes(f func(i uint32, n overlay.KeptNode)) {
	best := map[uint64]uint32{}
	names := map[uint32]bool{}
	var stale []uint32
	e.nodes.each(func(i uint32) {
		r := e.node(i)
		id := r.id.Load()
		if id == more {
			return
		}
		if other, has := best[id]; has {
			if r.flags.Load()&flagStale != 0 {
				stale = append(stale, i)
				return
			}
			stale = append(stale, other)
		}
		best[id] = i
	})
	for _, i := range stale {
		e.DropNode(i)
	}
	for id, i := range best {
		r := e.node(i)
		r.flags.Store(r.flags.Load() &^ flagStale)
		flags := r.flags.Load()
		n := overlay.KeptNode{
			ID: overlay.NodeID(id), Ino: r.ino, Born: r.born, Kind: uint32(r.kind), Up: r.up, Lookups: uint64(r.lookups.Load()),
			InHold: flags&flagHold != 0, Gone: flags&flagGone != 0,
		}
		name := append(make([]byte, 0, r.length), r.name[:min(int(r.length), nameInline)]...)
		for next := r.next; e.goesOn(next) && len(name) < int(r.length); next = e.name(next).next {
			names[next] = true
			name = append(name, e.name(next).name[:min(int(r.length)-len(name), nameMore)]...)
		}
		n.Name = string(name)
		f(i, n)
	}
	e.nodes.each(func(i uint32) {
		if e.node(i).id.Load() == more && !names[i] {
			e.nodes.drop(i)
		}
	})
}
