package fs

import (
	"sync"
	"sync/atomic"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/ttfs/ttfs/fs/estate"
	"github.com/ttfs/ttfs/fs/overlay"
	"github.com/ttfs/ttfs/tasktree"
)

// A space is one tree that the face serves: the workspace itself, or a fork, which has an engine, nodes and a `.tt` of its
// own.
type space struct {
	e    *overlay.Engine
	back *backend
	// view is that of its own tree: 0 for the workspace.
	view uint64
	// name and agent are the fork's, "" for the workspace; path is where its tree is below the mount, "" for the workspace.
	name  string
	agent tasktree.Agent
	path  string
	up    *space // what it is a fork of; nil for the workspace
	gone  atomic.Bool
	// trimming: the kernel is being asked to drop inodes.
	trimming atomic.Bool
}

// id is the kernel's number of a node of the space's own tree.
func (sp *space) id(n overlay.NodeID) uint64 { return sp.view<<viewShift | uint64(n) }

// A view is a space as one agent. Its nodes are those of the space's engine, with the number of the view above the
// engine's id: for the kernel they are other inodes, with the same content below.
//
// A space's own tree is its first view: 0 is the workspace as whoever asks, a fork's `tree` is the fork as its agent. What
// the kernel may keep of names and attributes it keeps of these alone, and it is told of what changes in them. Of the other
// views, `.tt/as/NAME`, it may keep nothing (their timeouts are 0): what is done through one is done as agent NAME, so that
// several agents in one process are told apart.
type view struct {
	sp    *space
	agent tasktree.Agent
}

const (
	viewShift = 40
	viewMask  = 1<<(62-viewShift) - 1
	// maxViews bounds the views of a mount. Their numbers are not used again: the kernel may hold nodes of a fork that has
	// gone.
	maxViews = 1 << 16
)

// node is the engine's id of a node in whatever view.
func node(id uint64) overlay.NodeID { return overlay.NodeID(id & (1<<viewShift - 1)) }

// viewOf is the number of the view that a node is in; 0: the workspace.
func viewOf(id uint64) uint64 {
	if isVirtual(id) {
		return 0
	}
	return id >> viewShift & viewMask
}

// viewTable is the views that were opened. The zero value has only the workspace's.
type viewTable struct {
	all    atomic.Pointer[[]view]  // the view's number is the index and 1; only ever appended to
	shared atomic.Bool             // there is one of `.tt/as`
	keep   func(*estate.View) bool // nil: views are not kept
	mu     sync.Mutex
	byName map[viewKey]uint64 // +checklocks:mu of `.tt/as`
}

type viewKey struct {
	sp    *space
	agent tasktree.Agent
}

// at is a view by its number; false for the workspace's own and for what is none.
func (t *viewTable) at(number uint64) (view, bool) {
	all := t.all.Load()
	if number == 0 || all == nil || number > uint64(len(*all)) {
		return view{}, false
	}
	return (*all)[number-1], true
}

// add is a new view's number; 0 when there are too many.
//
// +checklocks:t.mu
func (t *viewTable) addLocked(v view) uint64 {
	var all []view
	if old := t.all.Load(); old != nil {
		all = *old
	}
	if len(all) == maxViews {
		return 0
	}
	all = append(all[:len(all):len(all)], v)
	if t.keep != nil && !t.keep(&estate.View{Number: uint64(len(all)), Space: v.sp.name, Own: v.sp.name != "" && v.agent == v.sp.agent, Agent: string(v.agent)}) {
		return 0 // the daemon that follows would give its number to another
	}
	t.all.Store(&all)
	return uint64(len(all))
}

// restore gives the numbers that daemons before this one gave. What is not a view of the workspace is lost.
func (t *viewTable) restore(main, lost *space, kept []estate.View) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []view
	for _, k := range kept {
		for uint64(len(all)) < k.Number {
			all = append(all, view{sp: lost})
		}
		if a := tasktree.Agent(k.Agent); k.Space == "" {
			all[k.Number-1] = view{sp: main, agent: a}
			if t.byName == nil {
				t.byName = map[viewKey]uint64{}
			}
			t.byName[viewKey{main, a}] = k.Number
			t.shared.Store(true)
		}
	}
	t.all.Store(&all)
}

// number is the view of a space as an agent, given now if there is none; 0 when there are too many.
func (t *viewTable) number(sp *space, a tasktree.Agent) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := viewKey{sp, a}
	if n := t.byName[k]; n != 0 {
		return n
	}
	n := t.addLocked(view{sp: sp, agent: a})
	if n != 0 {
		t.shared.Store(true)
		if t.byName == nil {
			t.byName = map[viewKey]uint64{}
		}
		t.byName[k] = n
	}
	return n
}

// own gives a fork its tree's view. False: there are too many.
func (t *viewTable) own(sp *space) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	sp.view = t.addLocked(view{sp: sp, agent: sp.agent})
	return sp.view != 0
}

// known says whether a view was opened for an agent.
func (t *viewTable) known(a tasktree.Agent) bool {
	all := t.all.Load()
	if all == nil {
		return false
	}
	for _, v := range *all {
		if v.agent == a && !v.sp.gone.Load() {
			return true
		}
	}
	return false
}

// space is that of a node, which is not one below `.tt`.
func (f *face) space(id uint64) *space { return f.spaceOf(viewOf(id)) }

// spaceOf is the space of a view. The kernel has no number that was not given to it.
func (f *face) spaceOf(number uint64) *space {
	if v, ok := f.views.at(number); ok {
		return v.sp
	}
	return f.main
}

// of is the engine of a node, which is not one below `.tt`.
func (f *face) of(id uint64) *overlay.Engine {
	if viewOf(id) == 0 {
		return f.main.e
	}
	return f.space(id).e
}

// isOwn says whether a node is in the own tree of its space: what the kernel keeps of those it is told of.
func (f *face) isOwn(id uint64) bool {
	v := viewOf(id)
	return v == 0 || f.spaceOf(v).view == v
}

// same says whether two nodes are of one engine.
func (f *face) same(a, b uint64) bool { return f.space(a) == f.space(b) }

// lookupFork answers with the root of a fork. The entry is not kept: the fork may be discarded.
func (f *face) lookupFork(sp *space, out *fuse.EntryOut) fuse.Status {
	st, err := sp.e.GetAttr(overlay.RootNode, nil)
	if err != nil {
		return f.status("lookup", err)
	}
	f.entryOut(sp.id(overlay.RootNode), &overlay.Entry{Node: overlay.RootNode, Stat: st}, out)
	out.SetEntryTimeout(0)
	return fuse.OK
}
