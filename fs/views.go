package fs

import (
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/ttfs/ttfs/fs/control"
	"github.com/ttfs/ttfs/fs/identity"
	"github.com/ttfs/ttfs/fs/overlay"
	"github.com/ttfs/ttfs/tasktree"
)

// openView finds `.tt/as/NAME` of a space for a caller. Errors: NoFile for what is no agent's name, NotYours for an agent that is
// neither the caller's own nor of its line.
func (f *face) openView(sp *space, name string, by control.Caller) (overlay.Entry, uint64, error) {
	a := tasktree.Agent(name)
	if !identity.ValidName(a) || a == tasktree.User {
		return overlay.Entry{}, 0, &control.Error{Op: "as", What: name, Kind: control.NoFile, Detail: "a name has 1 to 64 letters, digits, dots, underlines and hyphens"}
	}
	if by.Agent != tasktree.User && by.Agent != a && !f.ids.Descends(a, by.Agent) && sp.e.ParentOf(a) != by.Agent {
		if sp.e.Active(a) != 0 || f.views.known(a) {
			return overlay.Entry{}, 0, &control.Error{Op: "as", What: name, Kind: control.NotYours, Detail: "an agent may work as itself and as its sub-agents"}
		}
		sp.e.SetParent(a, by.Agent)
	}
	view := f.views.number(sp, a)
	if view == 0 {
		return overlay.Entry{}, 0, &control.Error{Op: "as", What: name, Kind: control.NoSpace, Detail: "there are too many views; mount again"}
	}
	st, err := sp.e.GetAttr(overlay.RootNode, nil)
	return overlay.Entry{Node: overlay.RootNode, Stat: st}, view, err
}

// entryOut encodes what was found or made in the view of a directory.
func (f *face) entryOut(dir uint64, ent *overlay.Entry, out *fuse.EntryOut) {
	entryOut(ent, out)
	out.NodeId |= viewOf(dir) << viewShift
	out.SetEntryTimeout(f.kept(dir))
	out.SetAttrTimeout(f.attrKept(out.NodeId))
}

// through is the agent of a request that came through a view. It is the view's; but in a fork's own tree the sub-agents of
// the fork's agent are told apart by their processes, as they are in the workspace, and who is of another line, and came
// in by /proc or by an inherited descriptor, does not become the fork's agent by that.
func (f *face) through(v view, id uint64, caller tasktree.Agent) tasktree.Agent {
	if caller == v.agent || caller == tasktree.User || !f.isOwn(id) || f.ids.Descends(v.agent, caller) {
		return v.agent
	}
	return caller
}

// tellLimit bounds the wait for the kernel. Past it, the timeout ends what the space's own tree has cached, or the kernel hears of
// it after all.
const tellLimit = 200 * time.Millisecond

// changed tells the kernel of a name, or with "" of an inode, that was changed through a view that is not its space's own:
// of that, dentries and attributes are kept for a second. A notification waits for the directory's lock in the own tree; who
// holds that never waits for one.
func (f *face) changed(id uint64, name string) {
	if f.isOwn(id) {
		return
	}
	sp := f.space(id)
	f.tell(func() {
		n := notifier{f: f, sp: sp}
		if name != "" {
			n.said("entry", f.server.EntryNotify(sp.id(node(id)), name))
		}
		n.said("inode", f.server.InodeNotify(sp.id(node(id)), 0, 0))
	})
}

// tell notifies the kernel by a goroutine of its own, and waits for it, but not for long.
func (f *face) tell(notify func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.server.Tell(notify)
	}()
	select {
	case <-done:
	case <-time.After(tellLimit):
	}
}
