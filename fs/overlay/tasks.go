package overlay

import "github.com/ttfs/ttfs/tasktree"

// Active is the agent's active task; 0 before its first.
func (e *Engine) Active(a tasktree.Agent) tasktree.TaskID {
	e.tasks.mu.Lock()
	defer e.tasks.mu.Unlock()
	return e.tasks.tree.Active(a)
}

// Tasks is every task, ascending by id. Touched of those that go on is when they were last written to, as far as that is known.
func (e *Engine) Tasks() []tasktree.Task {
	t := &e.tasks
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.tree.All()
	for i := range all {
		k := &all[i]
		if at := t.written[k.Agent]; !k.Sealed && k.ID == t.tree.Active(k.Agent) && at.After(k.Touched) {
			k.Touched = at
		}
	}
	return all
}

// Task is one task; false when there is none of that id.
func (e *Engine) Task(id tasktree.TaskID) (tasktree.Task, bool) {
	e.tasks.mu.Lock()
	defer e.tasks.mu.Unlock()
	return e.tasks.tree.Get(id)
}

// StatusOf says where a task stands relative to its agent's active chain.
func (e *Engine) StatusOf(id tasktree.TaskID) tasktree.Status {
	e.tasks.mu.Lock()
	defer e.tasks.mu.Unlock()
	return e.tasks.tree.StatusOf(id)
}

// Statuses is StatusOf for every task of an agent.
func (e *Engine) Statuses(a tasktree.Agent) map[tasktree.TaskID]tasktree.Status {
	e.tasks.mu.Lock()
	defer e.tasks.mu.Unlock()
	return e.tasks.tree.Statuses(a)
}

// Children are the tasks that began when id was active.
func (e *Engine) Children(id tasktree.TaskID) []tasktree.TaskID {
	e.tasks.mu.Lock()
	defer e.tasks.mu.Unlock()
	return e.tasks.tree.Children("", id)
}

// HasBranches says whether more than one task began at id.
func (e *Engine) HasBranches(id tasktree.TaskID) bool {
	e.tasks.mu.Lock()
	defer e.tasks.mu.Unlock()
	return e.tasks.tree.HasBranches(id)
}

// Agents is every agent that has a task, sorted.
func (e *Engine) Agents() []tasktree.Agent {
	e.tasks.mu.Lock()
	defer e.tasks.mu.Unlock()
	return e.tasks.tree.Agents()
}

// updateTask changes a task in memory, and gives it as it is then.
func (e *Engine) updateTask(id tasktree.TaskID, f func(*tasktree.Task)) (tasktree.Task, error) {
	e.tasks.mu.Lock()
	defer e.tasks.mu.Unlock()
	return e.tasks.tree.Update(id, f)
}
