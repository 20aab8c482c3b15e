package overlay

import (
	"github.com/ttfs/ttfs/journal"
	"github.com/ttfs/ttfs/tasktree"
)

// kParent is the letter of the keys of sub-agents: the agent's name to the end; the value is its parent's name.
const kParent = 'U'

func (e *Engine) loadParents() error {
	return storeError("open", e.j.Scan([]byte{kParent}, func(k, v []byte) error {
		e.tasks.parents[tasktree.Agent(k[1:])] = tasktree.Agent(v)
		return nil
	}))
}

// SetParent ties a sub-agent to its parent, for good: its tasks hang under the parent's active one; "" unties it.
// Durability: that of the journal's records; where the journal refuses, it holds until the next mount.
func (e *Engine) SetParent(a, parent tasktree.Agent) {
	t := &e.tasks
	t.turn.Lock()
	defer t.turn.Unlock()
	if e.ParentOf(a) == parent {
		return
	}
	var b journal.Batch
	k := append([]byte{kParent}, a...)
	t.mu.Lock()
	if parent == "" {
		delete(t.parents, a)
		b.Delete(k)
	} else {
		t.parents[a] = parent
		b.Put(k, []byte(parent))
	}
	t.mu.Unlock()
	if e.opt.ReadOnly {
		return
	}
	if err := e.j.Commit(&b); err != nil {
		e.log.Warn("whose sub-agent an agent is could not be kept; it is known until the next mount", "agent", a, "parent", parent, "err", err)
	}
}

// ParentOf is the agent that a sub-agent was tied to; "" for none.
func (e *Engine) ParentOf(a tasktree.Agent) tasktree.Agent {
	e.tasks.mu.Lock()
	defer e.tasks.mu.Unlock()
	return e.tasks.parents[a]
}

// underLocked is the task under which an agent's next one hangs: the active one of the nearest agent above it that has one.
//
// +checklocks:t.mu
func (t *taskTable) underLocked(a tasktree.Agent) tasktree.TaskID {
	for range len(t.parents) + 1 {
		if a = t.parents[a]; a == "" {
			return 0
		}
		id, moves := t.heading[a]
		if !moves {
			id = t.tree.Active(a)
		}
		if id != 0 {
			return id
		}
	}
	return 0
}

// claimLines claims all agents that a move moves. From then on, until unclaimLines, no task of anybody else begins under one
// that the move takes back or does again. Errors: those of claimAgents; those of the plan are for the move to tell.
func (e *Engine) claimLines(op string, a tasktree.Agent, plan func(*tasktree.Tree) (tasktree.Plan, error)) (*claim, error) {
	t := &e.tasks
	agents := []tasktree.Agent{a}
	for {
		own, err := e.claimAgents(op, true, agents...)
		if err != nil {
			return nil, err
		}
		t.turn.Lock() // nothing begins now under what it takes back
		t.mu.Lock()
		p, err := plan(t.tree)
		all := true
		if err == nil {
			agents = agents[:0]
			for _, l := range p.Lines() {
				_, has := own.agents[l.Agent]
				agents, all = append(agents, l.Agent), all && has
			}
		}
		if all {
			t.headLocked(p.Lines())
			t.mu.Unlock()
			t.turn.Unlock()
			return own, nil
		}
		t.mu.Unlock()
		t.turn.Unlock()
		e.unclaim(own)
	}
}

func (e *Engine) unclaimLines(own *claim) {
	e.tasks.mu.Lock()
	for a := range own.agents {
		delete(e.tasks.heading, a)
	}
	e.tasks.mu.Unlock()
	e.unclaim(own)
}

// headLocked keeps of each line the newest task that is done before the move and after it.
//
// +checklocks:t.mu
func (t *taskTable) headLocked(lines []tasktree.Line) {
	for _, l := range lines {
		t.heading[l.Agent] = t.tree.Meet(l.From, l.To)
	}
}
