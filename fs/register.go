package fs

import (
	"fmt"
	"slices"

	"github.com/ttfs/ttfs/fs/control"
	"github.com/ttfs/ttfs/fs/overlay"
	"github.com/ttfs/ttfs/tasktree"
)

// Isolates says that Register knows a mode.
func (b *backend) Isolates(mode string) bool {
	return mode == string(overlay.IsolateRO) || mode == string(overlay.IsolateFork)
}

// Register ties a process to an agent, and gives the agent its isolation. The isolation comes first: there is no moment
// at which a process is the agent and may do more than it is to.
func (b *backend) Register(by control.Caller, r control.Registration) error {
	if r.Parent != "" && r.Parent != tasktree.User && !b.knows(r.Parent) {
		return &control.Error{Op: "agent", What: string(r.Parent), Kind: control.NoAgent, Detail: "register the parent first"}
	}
	mode, err := b.isolation(by, &r)
	if err != nil {
		return err
	}
	pid := r.PID
	if pid == 0 {
		pid = by.PID
	}
	made := false
	if mode == overlay.IsolateFork {
		if made, err = b.isolateFork(by, &r); err != nil {
			return err
		}
	}
	done := false
	defer func() {
		if made && !done {
			if e := b.Discard(control.Caller{Agent: tasktree.User}, r.Name, true); e != nil {
				b.logger.Warn("the fork of an agent that was not registered stays", "agent", r.Name, "err", e)
			}
		}
	}()
	var was overlay.Isolation
	if mode != "" {
		if was, err = b.Engine.Isolate(r.Name, mode); err != nil {
			return controlError("agent", err)
		}
	}
	// What it inherits counts from the first moment, too.
	fresh := r.Parent != "" && r.Parent != tasktree.User && !b.knows(r.Name) && b.Engine.ParentOf(r.Name) == ""
	if fresh {
		b.Engine.SetParent(r.Name, r.Parent)
	}
	takeBack := func() {
		if fresh {
			b.Engine.SetParent(r.Name, "")
		}
		if mode != "" {
			if _, e := b.Engine.Isolate(r.Name, was); e != nil {
				b.logger.Warn("an agent that was not registered keeps its isolation", "agent", r.Name, "err", e)
			}
		}
	}
	if err := b.ids.RegisterFor(uint32(by.PID), pid, r.Name, r.Parent); err != nil {
		takeBack()
		return controlError("agent", err)
	}
	if err := b.f.carry.saveOne(pid); err != nil {
		b.ids.Unregister(pid, r.Name)
		takeBack()
		return controlError("agent", err)
	}
	if p := b.ids.Parent(r.Name); p != "" {
		b.Engine.SetParent(r.Name, p)
	}
	if mode != overlay.IsolateFork {
		b.ids.Activated(r.Name, b.Engine.Active(r.Name))
	}
	b.Engine.AgentBegan(r.Name, b.ids.Parent(r.Name), pid)
	done = true
	return nil
}

// isolation is the mode that a registration gives its agent. Who is isolated makes sub-agents only, and nobody gives
// himself, or who is below him, a weaker mode than his own: only who is above an agent lets it do more. A weaker mode is
// refused and never made a stronger one in silence. "": the agent keeps its own.
func (b *backend) isolation(by control.Caller, r *control.Registration) (overlay.Isolation, error) {
	refuse := func(format string, args ...any) error {
		return &control.Error{Op: "agent", What: string(r.Name), Kind: control.NotYours, Detail: fmt.Sprintf(format, args...)}
	}
	own := b.Engine.IsolationOf(by.Agent)
	if own != overlay.IsolateNone && by.Agent != r.Name && by.Agent != tasktree.User {
		switch {
		case b.below(by.Agent, r.Name):
			return "", refuse("it is above %s", by.Agent)
		case r.Parent == "":
			r.Parent = by.Agent
		case r.Parent != by.Agent && !b.below(r.Parent, by.Agent):
			return "", refuse("%s works with isolation=%s and registers sub-agents of its own only", by.Agent, own)
		}
	}
	was := b.Engine.IsolationOf(r.Name)
	want := overlay.Isolation(r.Isolation) // "": it keeps its own
	if want == "" {
		return "", nil
	}
	if want.Weaker(was) && by.Agent != tasktree.User && (by.Agent == r.Name || b.below(by.Agent, r.Name)) {
		return "", refuse("its isolation is %s, and only who is above it lets it do more", was)
	}
	above := b.Engine.IsolationOf(r.Parent)
	if r.Parent == "" {
		above = b.Engine.IsolationOf(b.Engine.ParentOf(r.Name))
	}
	if own != overlay.IsolateNone && above.Weaker(own) {
		above = own
	}
	if want.Weaker(above) {
		return "", refuse("the isolation of those above it is %s, and so is its own", above)
	}
	return want, nil
}

// below says whether an agent is a sub-agent of another, at any depth, by registration or by what the engine was told.
func (b *backend) below(a, of tasktree.Agent) bool {
	if b.ids.Descends(a, of) {
		return true
	}
	seen := map[tasktree.Agent]bool{}
	for a = b.Engine.ParentOf(a); a != "" && !seen[a]; a = b.Engine.ParentOf(a) {
		if a == of {
			return true
		}
		seen[a] = true
	}
	return false
}

// knows says whether an agent is registered or has tasks.
func (b *backend) knows(a tasktree.Agent) bool {
	return slices.Contains(b.ids.Agents(), a) || slices.Contains(b.Engine.Agents(), a)
}

// End lets an agent's registrations go. An isolated agent does not end itself: its processes would belong to whom they
// belonged before, who may do more.
func (b *backend) End(by control.Caller, a tasktree.Agent) error {
	if m := b.Engine.IsolationOf(a); m != overlay.IsolateNone && (by.Agent == a || b.below(by.Agent, a)) {
		return &control.Error{Op: "end", What: string(a), Kind: control.NotYours,
			Detail: fmt.Sprintf("its isolation is %s: it ends with its last process, or by who is above it", m)}
	}
	b.ids.End(a)
	b.f.endAgent(a)
	b.f.carry.trySave()
	return nil
}

// endAgent lets go what an agent knows, in every tree.
func (f *face) endAgent(a tasktree.Agent) {
	for _, sp := range f.spaces() {
		sp.e.EndAgent(a)
	}
}
