package fs

import (
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/ttfs/ttfs/fs/control"
	"github.com/ttfs/ttfs/fs/identity"
	"github.com/ttfs/ttfs/fs/overlay"
	"github.com/ttfs/ttfs/tasktree"
)

// forkPath is where the tree of a fork is below the mount. Shape of name: the names from the workspace's fork down, with
// slashes.
func forkPath(name string) string {
	p := ""
	for part := range strings.SplitSeq(name, "/") {
		p = path.Join(p, overlay.StoreName, "forks", part, "tree")
	}
	return p
}

// forkNotifier is who hears of moves in a fork: the engine asks for it before the fork is served.
type forkNotifier struct {
	f    *face
	name string
}

// Changed tells the kernel what it may have kept of the fork's tree. While the fork is not served it has kept nothing.
func (n *forkNotifier) Changed(c overlay.Changes) {
	if sp := n.f.fork(n.name); sp != nil {
		(&notifier{f: n.f, sp: sp}).Changed(c)
	}
}

// fork is a fork that is served, by its whole name; nil when there is none.
func (f *face) fork(name string) *space {
	sp, _ := f.forks.Load(name)
	found, _ := sp.(*space)
	return found
}

// serveFork gives a fork its place below the mount, and its own forks theirs. Errors: NoSpace.
func (f *face) serveFork(up *space, e *overlay.Engine, info overlay.ForkInfo) (*space, error) {
	sp := &space{e: e, up: up, name: path.Join(up.name, string(info.Name)), agent: info.Agent}
	sp.path = forkPath(sp.name)
	back := *up.back
	back.Engine, back.sp = e, sp
	back.info.Fork = sp.name
	sp.back = &back
	if !f.views.own(sp) {
		return nil, &control.Error{Op: "fork", What: sp.name, Kind: control.NoSpace, Detail: "there are too many views; mount again"}
	}
	f.forks.Store(sp.name, sp)
	for _, a := range e.Agents() {
		f.ids.Activated(a, e.Active(a))
	}
	return sp, f.serveForks(sp)
}

// serveForks serves the forks of a space. One that could not be opened is left out; the engine has said so.
func (f *face) serveForks(sp *space) error {
	for _, i := range sp.e.Forks() {
		if e, info, ok := sp.e.ForkOf(i.Name); ok {
			if _, err := f.serveFork(sp, e, info); err != nil {
				return err
			}
		}
	}
	return nil
}

// unserve takes a fork's place below the mount away, and its own forks'. What the kernel still asks of its nodes is ESTALE.
func (f *face) unserve(sp *space) {
	f.forks.Range(func(name, other any) bool {
		if name == sp.name || strings.HasPrefix(name.(string), sp.name+"/") {
			other.(*space).gone.Store(true)
			f.forks.Delete(name)
		}
		return true
	})
	// The kernel lets go what it has of the tree, and the engine's nodes go with it.
	if dir := f.virtuals.find(path.Join(overlay.StoreName, "forks"), sp.up.view); dir != 0 {
		f.tell(func() { (&notifier{f: f, sp: sp}).said("entry", f.server.EntryNotify(dir, path.Base(sp.name))) })
	}
}

// spaces are all that are served, the workspace first.
func (f *face) spaces() []*space {
	all := []*space{f.main}
	f.forks.Range(func(_, sp any) bool {
		all = append(all, sp.(*space))
		return true
	})
	return all
}

// child is one of the forks of this tree; nil when there is none of that name.
func (b *backend) child(name string) *space { return b.f.fork(path.Join(b.sp.name, name)) }

// Fork makes a fork of this tree, for an agent of that name, which is new or of the caller's line.
func (b *backend) Fork(by control.Caller, name tasktree.Agent, at *tasktree.TaskID) error {
	_, err := b.fork(by, by.Agent, name, at)
	return err
}

func (b *backend) fork(by control.Caller, parent, name tasktree.Agent, at *tasktree.TaskID) (*space, error) {
	refuse := func(k control.Kind, detail string) error {
		return &control.Error{Op: "fork", What: string(name), Kind: k, Detail: detail}
	}
	if err := b.Engine.MayChange("fork", by.Agent); err != nil {
		return nil, controlError("fork", err)
	}
	switch {
	case !identity.ValidName(name) || name == tasktree.User || name == by.Agent:
		return nil, refuse(control.Invalid, "a fork is for a sub-agent: name one")
	case by.Agent != tasktree.User && b.knows(name) && !b.below(name, by.Agent):
		return nil, refuse(control.NotYours, "an agent of that name is there, and it is not your sub-agent; choose another name")
	}
	e, err := b.Engine.Fork(overlay.ForkOptions{Name: overlay.ForkName(name), Agent: name, Parent: parent, At: at})
	if err != nil {
		return nil, controlError("fork", err)
	}
	_, info, _ := b.Engine.ForkOf(overlay.ForkName(name))
	sp, err := b.f.serveFork(b.sp, e, info)
	if err != nil {
		return nil, errors.Join(err, b.Engine.Discard(overlay.ForkName(name), true))
	}
	if parent != tasktree.User && parent != "" && b.Engine.ParentOf(name) == "" {
		b.Engine.SetParent(name, parent)
	}
	return sp, nil
}

// isolateFork is what a registration with isolation=fork needs: the agent's fork, made now if it has none. made says so.
func (b *backend) isolateFork(by control.Caller, r *control.Registration) (made bool, err error) {
	if sp := b.child(string(r.Name)); sp != nil {
		return false, b.EnterFork(by, string(r.Name))
	}
	parent := r.Parent
	if parent == "" {
		parent = by.Agent
	}
	_, err = b.fork(by, parent, r.Name, nil)
	return err == nil, err
}

// Discard takes a fork away, with all that was done in it. It is refused while a process is in it.
func (b *backend) Discard(by control.Caller, name tasktree.Agent, force bool) error {
	sp, err := b.owned("discard", by, name)
	if err != nil {
		return err
	}
	if !force {
		if pids := b.f.processesIn(sp); len(pids) > 0 {
			return &control.Error{Op: "discard", What: string(name), Kind: control.Busy,
				Detail: fmt.Sprintf("processes %s are in it; end them, or use force", numbers(pids))}
		}
	}
	if err := b.Engine.Discard(overlay.ForkName(name), force); err != nil {
		return controlError("discard", err)
	}
	b.f.unserve(sp)
	return nil
}

// Merge brings what a fork changed into this tree, as a task of the caller's.
func (b *backend) Merge(by control.Caller, name tasktree.Agent, how control.Merging) (control.Moved, error) {
	if _, err := b.owned("merge", by, name); err != nil {
		return control.Moved{}, err
	}
	r, err := b.Engine.Merge(overlay.ForkName(name), overlay.MergeOptions{
		Agent: by.Agent, Strict: how.Strict, Force: overlay.Prefer(how.Prefer), DryRun: how.DryRun,
	})
	if err == nil && (how.DryRun || r.To == 0) {
		return control.Moved{From: r.From, To: r.To, Paths: changes(r.Paths)}, nil // nobody's task has changed
	}
	return b.moved("merge", by.Agent, r, err)
}

// owned is a fork that the caller may merge and discard: one of his own line, but not the fork's agent himself.
func (b *backend) owned(op string, by control.Caller, name tasktree.Agent) (*space, error) {
	sp := b.child(string(name))
	if sp == nil {
		return nil, &control.Error{Op: op, What: string(name), Kind: control.NoFork, Detail: "see .tt/forks"}
	}
	if err := b.Engine.MayChange(op, by.Agent); err != nil {
		return nil, controlError(op, err)
	}
	_, info, _ := b.Engine.ForkOf(overlay.ForkName(name))
	if by.Agent != tasktree.User && by.Agent != info.Parent && !b.below(info.Agent, by.Agent) {
		return nil, &control.Error{Op: op, What: string(name), Kind: control.NotYours, Detail: fmt.Sprintf("it is for %s, who made it, and those above it", info.Parent)}
	}
	return sp, nil
}

// EnterFork says whether a caller may go into a fork: its agent, that one's sub-agents, those above it, and the user.
func (b *backend) EnterFork(by control.Caller, name string) error {
	_, info, ok := b.Engine.ForkOf(overlay.ForkName(name))
	if !ok {
		return &control.Error{Op: "fork", What: name, Kind: control.NoFile, Detail: "see .tt/forks"}
	}
	a := info.Agent
	if by.Agent == tasktree.User || by.Agent == a || by.Agent == info.Parent || b.below(a, by.Agent) || b.below(by.Agent, a) {
		return nil
	}
	return &control.Error{Op: "fork", What: name, Kind: control.NotYours, Detail: fmt.Sprintf("it is %s's, of another line", a)}
}

// HasFork says whether this tree has a fork of that name.
func (b *backend) HasFork(name string) bool { return b.child(name) != nil }

// ForkTree is the fork's *space.
func (b *backend) ForkTree(_ control.Caller, name string) (any, error) {
	if sp := b.child(name); sp != nil {
		return sp, nil
	}
	return nil, &control.Error{Op: "fork", What: name, Kind: control.NoFile}
}

// Forks are those of this tree.
func (b *backend) Forks() []control.ForkInfo {
	var out []control.ForkInfo
	for _, i := range b.Engine.Forks() {
		c := control.ForkInfo{Name: string(i.Name), Agent: i.Agent, Parent: i.Parent, Under: i.Under, At: i.At, Created: i.Created}
		if sp := b.child(c.Name); sp != nil {
			c.PIDs = b.ForkPIDs(c.Name)
			if all, err := b.Engine.ForkChanges(i.Name); err == nil {
				c.Changed = len(all)
			}
		}
		out = append(out, c)
	}
	return out
}

// ForkPIDs are the processes in a fork.
func (b *backend) ForkPIDs(name string) []int {
	if sp := b.child(name); sp != nil {
		return b.f.processesIn(sp)
	}
	return nil
}

// DiffFork writes what a merge of a fork would bring.
func (b *backend) DiffFork(w io.Writer, name string) error {
	if b.child(name) == nil {
		return &control.Error{Op: "fork", What: name, Kind: control.NoFile}
	}
	return controlError("diff", b.Engine.DiffFork(w, overlay.ForkName(name)))
}

// ForkFiles are the paths that a merge of a fork would bring.
func (b *backend) ForkFiles(name string) ([]control.Change, error) {
	if b.child(name) == nil {
		return nil, &control.Error{Op: "fork", What: name, Kind: control.NoFile}
	}
	all, err := b.Engine.ForkChanges(overlay.ForkName(name))
	out := make([]control.Change, len(all))
	for i, c := range all {
		out[i] = control.Change{Op: c.Op, Path: c.Path}
	}
	return out, controlError("list", err)
}

// ForkParent is the agent that made a fork.
func (b *backend) ForkParent(name string) (tasktree.Agent, error) {
	_, info, ok := b.Engine.ForkOf(overlay.ForkName(name))
	if !ok {
		return "", &control.Error{Op: "fork", What: name, Kind: control.NoFile}
	}
	return info.Parent, nil
}

// ForkConflicts are why the last merge of a fork was refused.
func (b *backend) ForkConflicts(name string) []control.ConflictEntry {
	return conflicts(b.Engine.MergeConflicts(overlay.ForkName(name)))
}
