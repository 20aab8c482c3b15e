package tasktree

import "slices"

// PlanPrune says whose images can be given up: tasks that are old, as the caller says, and that no task which is kept
// needs. What is given up of an agent's active chain is always its beginning, so that there is one point beyond which the
// agent cannot go back and everything after it stays exact. So
//
//   - a task of an active chain goes only with all before it, and with the branches that could then be reached no more;
//   - an undone task goes only with all that began after it: the way there leads through it;
//   - a sub-agent's task goes only with the parent's task that it hangs under, which would take it along.
//
// Shape: in the order in which they can be given up one by one, each prefix being such a choice itself, but for sub-agents'
// tasks, which a death in between leaves to the next time. Tasks that are pruned already are not named.
func (t *Tree) PlanPrune(old func(Task) bool) []TaskID {
	p := &pruning{t: t, goes: map[TaskID]bool{}, chain: map[TaskID]bool{}}
	for a := range t.active {
		for _, id := range t.Chain(t.active[a]) {
			p.chain[id] = true
		}
	}
	var ids []TaskID
	for id, k := range t.tasks {
		if k.Pruned || old(*k) {
			p.goes[id] = true
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for changed := true; changed; {
		changed = false
		for i := len(ids) - 1; i >= 0; i-- { // children first
			changed = p.keep(ids[i]) || changed
		}
		for _, id := range ids { // parents first
			changed = p.keep(id) || changed
		}
	}
	var back, chain []TaskID
	for _, id := range ids {
		switch {
		case !p.goes[id] || t.tasks[id].Pruned:
		case p.chain[id]:
			chain = append(chain, id)
		default:
			back = append(back, id)
		}
	}
	slices.Reverse(back)
	return append(back, chain...)
}

// pruning is the choice under way: it begins with all that is old and only ever loses.
type pruning struct {
	t     *Tree
	goes  map[TaskID]bool
	chain map[TaskID]bool
}

// keep takes a task out of the choice when something that is kept needs it, and says whether it did.
func (p *pruning) keep(id TaskID) bool {
	k := p.t.tasks[id]
	if !p.goes[id] || k.Pruned || !p.needed(k) {
		return false
	}
	delete(p.goes, id)
	return true
}

func (p *pruning) needed(k *Task) bool {
	if k.Under != 0 && p.t.tasks[k.Under] != nil && !p.goes[k.Under] {
		return true
	}
	if !p.chain[k.ID] {
		return slices.ContainsFunc(p.t.children[k.ID], func(c TaskID) bool { return !p.goes[c] })
	}
	if k.Parent != 0 && !p.goes[k.Parent] {
		return true
	}
	siblings := p.t.children[k.Parent]
	if k.Parent == 0 {
		siblings = p.t.roots[k.Agent]
	}
	return slices.ContainsFunc(siblings, func(c TaskID) bool { return c != k.ID && !p.goes[c] })
}

// unpruned refuses a plan one of whose tasks has no images any more.
func (t *Tree) unpruned(op string, p Plan) (Plan, error) {
	for _, s := range p.Steps {
		if k := t.tasks[s.Task]; k != nil && k.Pruned {
			return Plan{}, &Error{Op: op, Task: s.Task, Kind: Pruned}
		}
	}
	return p, nil
}
