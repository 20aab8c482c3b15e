package overlay

import (
	"sync"
	"sync/atomic"

	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// NodeID names an inode that the kernel knows. The root is 1. An id is given once.
type NodeID uint64

// RootNode is the workspace's own directory.
const RootNode NodeID = 1

// node is one inode that the kernel knows, or that something here holds on to. There are as many as the kernel has inodes of
// the mount: what few of them need is behind a pointer (TestNodeIsSmall).
type node struct {
	id   NodeID
	kind uint32 // S_IFMT bits

	// key is of the inode. Of a node of a fork that is not raised it is not set yet.
	key inoKey
	// from is what the inode is in the tree that the fork was made of; nil for what is the fork's own, and everywhere but
	// in a fork. Until raised is set there is nothing of it in the fork's own tree.
	from   *origin
	raised atomic.Bool

	// dir is locked by whoever changes entries of this directory; nil for others.
	dir *dirState
	// mu is locked by whoever changes content or metadata, and orders reads against it.
	mu   sync.Mutex
	file fileState // +checklocks:mu

	// told says that the record of this directory tells its place.
	told atomic.Bool
	// born is the task that made this inode, as far as that is remembered.
	born atomic.Uint64
	// epoch is the run of the newest epoch at that time.
	epoch atomic.Uint64

	// Guarded by nodeTable.mu.
	lookups uint64 // what the kernel holds
	parent  *node  // nil: root, in hold, or nowhere
	name    string
	alt     *place // another name by which it was seen, where it has more than one link; nil: none
	last    *Stat  // as it was when its last name went; nil: it has one
	oid     OID
	pins    int32 // children, handles, operations
	keep    int32 // a descriptor (O_PATH) of an inode whose last name went, for who still comes by its node; 0: none
	inHold  bool  // its place is hold/oid
	held    bool  // hold/oid is one of its links: programs see one less
	asked   bool  // the journal was asked for oid
	// restored: it is of a daemon before this one, and was not looked for where its record says. entrusted: the keeper has a
	// descriptor of it.
	restored, entrusted bool
	record              uint32 // the keeper's of it; 0: none
}

type dirState struct {
	mu   sync.Mutex
	dead bool // +checklocks:mu removed, or in hold: nothing can be made in it
	fd   *dirFD
	// times is held while an entry of a fork's directory comes or goes, and while something is raised into it, which leaves
	// its times as they were. A leaf: under it are system calls alone.
	times sync.Mutex
	// heard is what the kernel keeps of the names.
	heard heard
	// removed counts how often the kernel itself has removed this directory (rmdir, a rename over it). Its inode stays dead then, for
	// as long as somebody is in it or has a file open that was in it, though a move brings the directory back; so it is to make
	// another one then.
	removed atomic.Uint32
}

// steady keeps what is raised into a directory from setting its times back while they change.
func (n *node) steady() (release func()) {
	if n.from == nil || n.dir == nil {
		return func() {}
	}
	n.dir.times.Lock()
	return n.dir.times.Unlock
}

// place is where a node is.
type place struct {
	parent *node // nil: in hold, or nowhere
	name   string
	inHold bool
	oid    OID
}

type nodeTable struct {
	mu    sync.Mutex
	root  *node
	byID  map[NodeID]*node
	byIno map[inoKey]*node
	next  NodeID
	fds   dirCache
	kept  int // nodes with keep
}

func (e *Engine) initNodes(st *Stat) {
	root := &node{id: RootNode, key: keyOf(st), kind: unix.S_IFDIR, dir: &dirState{}, oid: rootOID, asked: true, lookups: 1}
	root.told.Store(true)
	limit := e.opt.DirFDs
	if limit == 0 {
		limit = 2048
	}
	e.crowd.init(e.opt.Nodes, e.opt.Notify)
	e.nodes = nodeTable{root: root, byID: map[NodeID]*node{RootNode: root}, byIno: map[inoKey]*node{root.key: root}, next: RootNode + 1, fds: dirCache{limit: limit}}
}

func (e *Engine) placeOf(n *node) place {
	e.nodes.mu.Lock()
	defer e.nodes.mu.Unlock()
	return place{parent: n.parent, name: n.name, inHold: n.inHold, oid: n.oid}
}

// pin finds a node by its id and keeps it until unpin. Errors: Stale as ESTALE for an id that the kernel no longer holds.
func (e *Engine) pin(id NodeID) (*node, error) {
	e.nodes.mu.Lock()
	defer e.nodes.mu.Unlock()
	n := e.nodes.byID[id]
	if n == nil {
		return nil, unix.ESTALE
	}
	n.pins++
	return n, nil
}

func (e *Engine) unpin(n *node) {
	e.nodes.mu.Lock()
	n.pins--
	e.dropLocked(n)
	e.nodes.mu.Unlock()
}

// dropLocked frees a node that nobody holds, and then perhaps its parents.
func (e *Engine) dropLocked(n *node) {
	for n != nil && n.lookups == 0 && n.pins == 0 && n != e.nodes.root {
		delete(e.nodes.byID, n.id)
		for _, k := range []inoKey{n.key, n.ident()} {
			if e.nodes.byIno[k] == n {
				delete(e.nodes.byIno, k)
			}
		}
		if n.keep > 0 {
			unix.Close(int(n.keep))
			n.keep = 0
			e.nodes.kept--
		}
		if n.dir != nil {
			e.nodes.fds.drop(n.dir)
		}
		e.unkeptLocked(n)
		if alt := n.alt; alt != nil {
			n.alt = nil
			alt.parent.pins--
			e.dropLocked(alt.parent)
		}
		up := n.parent
		n.parent = nil
		if up != nil {
			up.pins--
		}
		n = up
	}
}

// Forget takes back what the kernel held of a node.
func (e *Engine) Forget(id NodeID, lookups uint64) {
	e.nodes.mu.Lock()
	defer e.nodes.mu.Unlock()
	n := e.nodes.byID[id]
	if n == nil || n == e.nodes.root {
		return
	}
	n.lookups -= min(lookups, n.lookups)
	if n.record != 0 {
		e.opt.Keeper.LookedNode(n.record, n.lookups)
	}
	if n.lookups == 0 && n.parent != nil {
		n.parent.dir.heard.told.Store(0)
	}
	e.dropLocked(n)
}

// setPlaceLocked moves a node to a name. Preconditions: places is held for writing, or the node is new.
func (e *Engine) setPlaceLocked(n, parent *node, name string) {
	if n.parent != parent {
		if parent != nil {
			parent.pins++
		}
		if up := n.parent; up != nil {
			up.pins--
			defer e.dropLocked(up)
		}
		n.parent = parent
	}
	n.name, n.inHold = name, false
	e.keptLocked(n)
}

// setAltLocked remembers another name of a node; a nil parent forgets it.
func (e *Engine) setAltLocked(n, parent *node, name string) {
	old := n.alt
	n.alt = nil
	if parent != nil {
		parent.pins++
		n.alt = &place{parent: parent, name: name}
	}
	if old != nil {
		old.parent.pins--
		e.dropLocked(old.parent)
	}
}

// intern is the node of an inode that was just seen at a name, pinned once. Preconditions: places is held.
func (e *Engine) intern(parent *node, name string, st *Stat, fresh bool) *node {
	k := keyOf(st)
	var from *origin
	if e.lower != nil && !fresh {
		from = e.originOfNew(k)
	}
	e.nodes.mu.Lock()
	defer e.nodes.mu.Unlock()
	n := e.nodes.byIno[k]
	if n == nil && from != nil {
		n = e.nodes.byIno[from.ident] // it is just being raised
	}
	if n == nil {
		n = e.newNodeLocked(kindOf(st), from)
		n.key, n.asked = k, fresh
		n.raised.Store(from != nil)
		e.nodes.byIno[k] = n
	}
	e.seenAtLocked(n, parent, name, st)
	return n
}

// newNodeLocked makes a node. Preconditions: nodes.mu is held.
func (e *Engine) newNodeLocked(kind uint32, from *origin) *node {
	n := &node{id: e.nodes.next, kind: kind, from: from}
	if n.kind == unix.S_IFDIR {
		n.dir = &dirState{}
	}
	e.nodes.next++
	e.nodes.byID[n.id] = n
	if from != nil {
		e.nodes.byIno[from.ident] = n
	}
	return n
}

// seenAtLocked pins a node that was seen at a name. Preconditions: nodes.mu is held.
func (e *Engine) seenAtLocked(n, parent *node, name string, st *Stat) {
	if n == e.nodes.root {
		n.pins++
		return
	}
	n.pins++
	if parent != nil && !(n.parent == parent && n.name == name) {
		// The latest name seen is the one to go by: the earlier may be gone already.
		if n.dir == nil && st.Nlink > 1 && n.parent != nil {
			e.setAltLocked(n, n.parent, n.name)
		}
		e.setPlaceLocked(n, parent, name)
	}
}

// known is the node of an inode if there is one, pinned; nil else.
func (e *Engine) known(k inoKey) *node {
	e.nodes.mu.Lock()
	defer e.nodes.mu.Unlock()
	n := e.nodes.byIno[k]
	if n != nil {
		n.pins++
	}
	return n
}

// removedByKernel notes that the kernel takes a directory for removed.
func (e *Engine) removedByKernel(n *node) {
	e.nodes.mu.Lock()
	defer e.nodes.mu.Unlock()
	n.dir.removed.Store((n.dir.removed.Load() + 1) &^ unix.S_IFMT)
	e.keptLocked(n)
}

// generation tells the inodes that the kernel has had of a node one from another.
func (n *node) generation() uint64 {
	if n.dir == nil {
		return 1
	}
	return 1 + uint64(n.dir.removed.Load())
}

// looked counts one lookup of the kernel's.
func (e *Engine) looked(n *node) {
	e.nodes.mu.Lock()
	n.lookups++
	nodes := len(e.nodes.byID)
	if n.record != 0 {
		e.opt.Keeper.LookedNode(n.record, n.lookups)
	} else {
		e.keptLocked(n)
	}
	e.nodes.mu.Unlock()
	e.crowd.grown(nodes)
}

// lock locks what guards the metadata of a node: of a directory, its entries as well.
func (n *node) lock() {
	if n.dir != nil {
		n.dir.mu.Lock()
	} else {
		n.mu.Lock()
	}
}

func (n *node) unlock() {
	if n.dir != nil {
		n.dir.mu.Unlock()
	} else {
		n.mu.Unlock()
	}
}

// shared says that a task changes a file: if another made it, what that does to it from now on is recorded as well, since
// it is not the only one any more. Preconditions: n.mu is held.
func (n *node) shared(t tasktree.TaskID) {
	if b := n.born.Load(); b != 0 && b != uint64(t) {
		n.born.Store(0)
	}
}

// bornIn says whether the node's inode was made in the task.
func (n *node) bornIn(t tasktree.TaskID) bool { return t != 0 && n.born.Load() == uint64(t) }

func (e *Engine) closeNodes() {
	e.nodes.mu.Lock()
	defer e.nodes.mu.Unlock()
	e.nodes.fds.closeAll()
}
