package overlay

import "sync"

// places keeps a name of an inode, and the node's place, together: a lock for each directory, by its node. It is held for
// writing by who takes names away from a directory or brings them there, of both directories where there are two, and for
// reading by who looks at a name and says then where the node is. So who looks finds an inode where it is said to be, or its
// name has gone. Names of one inode in other directories are true as well. Hold has none: nobody looks names up there.
type places struct {
	of [placeLocks]placeLock
}

const placeLocks = 32

type placeLock struct {
	sync.RWMutex
	_ [40]byte // two processors seldom write to one line of memory
}

// at is the lock of a directory; nil is one that nobody looks into.
func (p *places) at(dir *node) *sync.RWMutex { return &p.of[p.index(dir)].RWMutex }

func (p *places) index(dir *node) NodeID {
	if dir == nil {
		return 0
	}
	return dir.id % placeLocks
}

// placing are the locks from one to another, by steps of some, held for writing.
type placing struct {
	p              *places
	from, to, step NodeID
}

func (h placing) lock() placing {
	for i := h.from; i <= h.to; i += h.step {
		h.p.of[i].Lock()
	}
	return h
}

func (h placing) unlock() {
	for i := h.from; i <= h.to; i += h.step {
		h.p.of[i].Unlock()
	}
}

// lock is for who takes a name from one directory to another, or within one.
func (p *places) lock(from, to *node) placing {
	a, b := p.index(from), p.index(to)
	a, b = min(a, b), max(a, b)
	return placing{p, a, b, max(b-a, 1)}.lock()
}

// lockMove is for a move that takes something away from a directory, by its inode, or brings it there; far: from anywhere.
func (e *Engine) lockMove(dir inoKey, far bool) placing {
	p := &e.places
	if far {
		return placing{p, 0, placeLocks - 1, 1}.lock()
	}
	e.nodes.mu.Lock()
	at := p.index(e.nodes.byIno[dir])
	e.nodes.mu.Unlock()
	return placing{p, at, at, 1}.lock()
}

// still lets no name change anywhere, until move.
func (p *places) still() {
	for i := range p.of {
		p.of[i].RLock()
	}
}

func (p *places) move() {
	for i := range p.of {
		p.of[i].RUnlock()
	}
}
