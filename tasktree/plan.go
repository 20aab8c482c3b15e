package tasktree

// Step is one task taken back, or done again.
type Step struct {
	Task TaskID
	// Redo: the task is done again; else it is taken back.
	Redo bool
}

// Plan is a move of one agent: its steps in the order in which they are to be made. A plan without steps is a move to
// where the agent is.
type Plan struct {
	Agent    Agent
	From, To TaskID
	Steps    []Step
}

// PlanSwitch is the way from the agent's active task to another of its tasks, 0 included: back to the newest task that
// both chains share, then forward. Errors: NoTask, OtherAgent, Pruned when the way leads through a task without images.
func (t *Tree) PlanSwitch(a Agent, to TaskID) (Plan, error) {
	if err := t.owned("switch", a, to); err != nil {
		return Plan{}, err
	}
	from := t.active[a]
	p := Plan{Agent: a, From: from, To: to}
	back, forward := t.Chain(from), t.Chain(to)
	shared := 0
	for shared < len(back) && shared < len(forward) && back[shared] == forward[shared] {
		shared++
	}
	for i := len(back) - 1; i >= shared; i-- {
		p.Steps = append(p.Steps, Step{Task: back[i]})
	}
	for _, id := range forward[shared:] {
		p.Steps = append(p.Steps, Step{Task: id, Redo: true})
	}
	return t.unpruned("switch", p)
}

// PlanUndo goes to the parent of the agent's active task. Errors: AtRoot.
func (t *Tree) PlanUndo(a Agent) (Plan, error) {
	at := t.active[a]
	if at == 0 {
		return Plan{}, &Error{Op: "undo", Kind: AtRoot}
	}
	return t.PlanSwitch(a, t.tasks[at].Parent)
}

// PlanRedoOver goes past the agent's active task, which began by itself after an undo and does not count, to the task
// that redo would have gone to before it began. Errors: NothingToDo.
func (t *Tree) PlanRedoOver(a Agent) (Plan, error) {
	k := t.tasks[t.active[a]]
	if k == nil || !k.Auto || k.Over == 0 {
		return Plan{}, &Error{Op: "redo", Task: t.active[a], Kind: NothingToDo}
	}
	return t.PlanSwitch(a, k.Over)
}

// PlanRedo goes to the child of the active task that was left last. Errors: NothingToDo.
func (t *Tree) PlanRedo(a Agent) (Plan, error) {
	to := t.Last(a, t.active[a])
	if to == 0 {
		return Plan{}, &Error{Op: "redo", Task: t.active[a], Kind: NothingToDo}
	}
	return t.PlanSwitch(a, to)
}
