package fs

import (
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// How long the kernel may believe what it was told of names and attributes. What is changed through the mount, or by a move,
// it knows or is told at once; the rest is what is changed around the mount, and what a mapping changes.
const (
	// timeout is for what may change without the kernel's noticing: attributes of files that may be mapped for writing (their
	// times are the backing file's, which the kernel does not look at), and everything while several views of one tree are in
	// use (as/NAME), where notifications may come late.
	timeout = time.Second
	// longTimeout is for the rest. It bounds how late a change around the mount is seen.
	longTimeout = 10 * time.Second
)

// mostMapped bounds the table of mappable nodes. When it is full it begins anew: some attributes are then believed for long
// that a mapping may change.
const mostMapped = 1 << 16

// mappedTable is the nodes that were opened for reading and writing, without which nothing can be mapped for writing. A mapping
// outlives the open file.
type mappedTable struct {
	mu    sync.RWMutex
	nodes map[uint64]struct{} // +checklocks:mu
}

// opened says whether this is the first open of the node by which it can be mapped for writing.
func (t *mappedTable) opened(id uint64, flags uint32) (first bool) {
	if flags&unix.O_ACCMODE != unix.O_RDWR || t.has(id) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.nodes == nil || len(t.nodes) >= mostMapped {
		t.nodes = map[uint64]struct{}{}
	}
	t.nodes[id] = struct{}{}
	return true
}

func (t *mappedTable) has(id uint64) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	_, has := t.nodes[id]
	return has
}

// kept is how long a name, there or not, may be believed in the view of a node.
func (f *face) kept(id uint64) time.Duration {
	switch {
	case !f.isOwn(id):
		return 0
	case f.views.shared.Load():
		return timeout
	}
	return longTimeout
}

// attrKept is how long the attributes of a node may be believed.
func (f *face) attrKept(id uint64) time.Duration {
	if d := f.kept(id); d < timeout || !f.mapped.has(id) {
		return d
	}
	return timeout
}

// attrTimeout encodes it.
func (f *face) attrTimeout(id uint64, out *fuse.AttrOut) { out.SetTimeout(f.attrKept(id)) }
