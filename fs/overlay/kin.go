package overlay

import "github.com/ttfs/ttfs/tasktree"

// Agents of one family work in the same files at once, and a move can take all of them back together. The images of one
// task of a file are then to be of one moment, that at which it touched the file first: else no order of whole files would
// be right. So when a member is about to change bytes that another member's task, still under way, has not kept although it
// has touched the file before, they are kept for that one too. Strangers never move together, and pay nothing.

// kin keeps for the family what was just kept for the change's own task: all of it, which is more than what changes, since
// of what its own task has it asks no more. Preconditions: n.mu is held.
func (ch *change) kin(n *node, fd int, from, to int64) error {
	for _, p := range ch.contents[len(ch.contents)-1].pieces {
		if from >= to {
			from, to = p.off, p.off+p.size
		}
		from, to = min(from, p.off), max(to, p.off+p.size)
	}
	id, err := ch.self(n)
	if err != nil || id == 0 {
		return err
	}
	family, err := ch.e.kinOf(ch.run)
	if err != nil {
		return err
	}
	for _, r := range family {
		if !r.hasMeta(id) && r.coverage(id) == nil {
			continue
		}
		t := &firsts{run: r}
		ch.family = append(ch.family, t)
		if err := ch.contentOf(t, n, fd, from, to); err != nil {
			return err
		}
	}
	return nil
}

// kinOf are what the active tasks of an agent's family have touched, but its own.
func (e *Engine) kinOf(own *run) ([]*run, error) {
	t := &e.tasks
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.parents) == 0 {
		return nil, nil
	}
	head := t.firstLocked(own.agent)
	var out []*run
	for _, a := range t.tree.Agents() {
		if a == own.agent || t.firstLocked(a) != head {
			continue
		}
		k, has := t.tree.Get(t.tree.Active(a))
		if !has || k.Sealed {
			continue
		}
		r, err := e.runLocked(k.ID, a)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// firstLocked is the agent at the head of an agent's family; of one without parents, itself.
//
// +checklocks:t.mu
func (t *taskTable) firstLocked(a tasktree.Agent) tasktree.Agent {
	for range len(t.parents) {
		if t.parents[a] == "" {
			return a
		}
		a = t.parents[a]
	}
	return a
}

// related says whether two agents are of one family.
func (e *Engine) related(a, b tasktree.Agent) bool {
	t := &e.tasks
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.firstLocked(a) == t.firstLocked(b)
}
