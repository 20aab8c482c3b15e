package tasktree

// Near says whether the way from the agent's active task to a task of its has at most so many tasks on it. It looks no further than
// that.
func (t *Tree) Near(id TaskID, most int) bool {
	k := t.tasks[id]
	if k == nil {
		return false
	}
	for at := t.active[k.Agent]; at != id; most-- {
		if most == 0 {
			return false
		}
		if at > id { // ids rise along a chain: the higher one is not above the other
			at = t.tasks[at].Parent
		} else {
			id = t.tasks[id].Parent
		}
	}
	return true
}

// Meet is the newest task on the chains of both tasks, which are one agent's; 0: they share none. It looks no further than that.
func (t *Tree) Meet(a, b TaskID) TaskID {
	for a != b {
		if a < b {
			a, b = b, a
		}
		k := t.tasks[a]
		if k == nil {
			return 0
		}
		a = k.Parent
	}
	return a
}

// Unended are the tasks on the chain of id that are not sealed or have no end, newest first.
func (t *Tree) Unended(id TaskID) (out []Task) {
	for k := t.tasks[id]; k != nil; k = t.tasks[k.Parent] {
		if !k.Sealed || k.Ended.IsZero() {
			out = append(out, *k)
		}
	}
	return out
}

// Statuses is StatusOf for every task of an agent, for the cost of looking at each once.
func (t *Tree) Statuses(a Agent) map[TaskID]Status {
	active, chain := t.active[a], map[TaskID]struct{}{}
	for at := active; at != 0; at = t.tasks[at].Parent {
		chain[at] = struct{}{}
	}
	all := map[TaskID]Status{}
	for id, k := range t.tasks {
		if k.Agent != a {
			continue
		}
		_, past := chain[id]
		switch {
		case id == active:
			all[id] = Current
		case past:
			all[id] = Past
		default:
			all[id] = Undone
		}
	}
	return all
}
