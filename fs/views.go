package fs

import (
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/ttfs/ttfs/fs/control"
	"github.com/ttfs/ttfs/fs/identity"
	"github.com/ttfs/ttfs/fs/overlay"
	"github.com/ttfs/ttfs/guard"
	"github.com/ttfs/ttfs/tasktree"
)

// A view is the workspace once more, at `.tt/as/NAME`: what is done through it is done as agent NAME, so that several
// agents in one process are told apart. Its nodes are the engine's, with the number of the view above the engine's id:
// for the kernel they are other inodes, with the same content below. The kernel may keep nothing of a view (its timeouts
// are 0), and is told of what a view changes in the main tree.
const (
	viewShift = 40
	viewMask  = 1<<(62-viewShift) - 1
	maxViews  = 4096
)

// node is the engine's id of a node in whatever view.
func node(id uint64) overlay.NodeID { return overlay.NodeID(id & (1<<viewShift - 1)) }

// viewOf is the number of the view that a node is in; 0: the main tree.
func viewOf(id uint64) uint64 {
	if isVirtual(id) {
		return 0
	}
	return id >> viewShift & viewMask
}

// viewTable is the agents that views were opened for.
type viewTable struct {
	mu     sync.RWMutex
	names  []tasktree.Agent // +checklocks:mu the view's number is the index and 1
	byName map[tasktree.Agent]uint64
}

// agent is the agent of a view.
func (t *viewTable) agent(view uint64) tasktree.Agent {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if view == 0 || view > uint64(len(t.names)) {
		return ""
	}
	return t.names[view-1]
}

// number is the view of an agent, given now if it has none; 0 when there are too many.
func (t *viewTable) number(a tasktree.Agent) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.byName[a]; n != 0 {
		return n
	}
	if len(t.names) == maxViews {
		return 0
	}
	if t.byName == nil {
		t.byName = map[tasktree.Agent]uint64{}
	}
	t.names = append(t.names, a)
	t.byName[a] = uint64(len(t.names))
	return t.byName[a]
}

// openView finds `.tt/as/NAME` for a caller. Errors: NoFile for what is no agent's name, NotYours for an agent that is
// neither the caller's own nor of its line.
func (f *face) openView(name string, by control.Caller) (overlay.Entry, uint64, error) {
	a := tasktree.Agent(name)
	if !identity.ValidName(a) || a == tasktree.User {
		return overlay.Entry{}, 0, &control.Error{Op: "as", What: name, Kind: control.NoFile, Detail: "a name has 1 to 64 letters, digits, dots, underlines and hyphens"}
	}
	if by.Agent != tasktree.User && by.Agent != a && !f.ids.Descends(a, by.Agent) && f.e.ParentOf(a) != by.Agent {
		if f.e.Active(a) != 0 || f.views.known(a) {
			return overlay.Entry{}, 0, &control.Error{Op: "as", What: name, Kind: control.NotYours, Detail: "an agent may work as itself and as its sub-agents"}
		}
		f.e.SetParent(a, by.Agent)
	}
	view := f.views.number(a)
	if view == 0 {
		return overlay.Entry{}, 0, &control.Error{Op: "as", What: name, Kind: control.NoSpace, Detail: "there are too many views; mount again"}
	}
	st, err := f.e.GetAttr(overlay.RootNode, nil)
	return overlay.Entry{Node: overlay.RootNode, Stat: st}, view, err
}

func (t *viewTable) known(a tasktree.Agent) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.byName[a] != 0
}

// entryOut encodes what was found or made in the view of a directory.
func (f *face) entryOut(dir uint64, ent *overlay.Entry, out *fuse.EntryOut) {
	entryOut(ent, out)
	if v := viewOf(dir); v != 0 {
		out.NodeId |= v << viewShift
		out.SetEntryTimeout(0)
		out.SetAttrTimeout(0)
	}
}

// attrTimeout is how long the kernel may believe the attributes of a node.
func attrTimeout(id uint64, out *fuse.AttrOut) {
	if viewOf(id) != 0 {
		out.SetTimeout(0)
		return
	}
	out.SetTimeout(timeout)
}

// viewed makes the caller of a request that came through a view the view's agent.
func (f *face) viewed(id uint64, c *overlay.Caller, proc guard.Process) bool {
	v := viewOf(id)
	if v == 0 {
		return false
	}
	c.Agent, c.Proc, c.Entered = f.views.agent(v), proc, 0
	return true
}

// tellLimit bounds the wait for the kernel. Past it, the second ends what the main tree has cached.
const tellLimit = 200 * time.Millisecond

// changed tells the kernel of a name, or with "" of an inode, that was changed through a view: the main tree's dentries
// and attributes are kept for a second. A notification waits for the directory's lock in the main tree; who holds that
// never waits for one.
func (f *face) changed(id uint64, name string) {
	if viewOf(id) == 0 {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		n := notifier{f: f}
		if name != "" {
			n.said("entry", f.server.EntryNotify(uint64(node(id)), name))
		}
		n.said("inode", f.server.InodeNotify(uint64(node(id)), 0, 0))
	}()
	select {
	case <-done:
	case <-time.After(tellLimit):
	}
}
