package tasktree

import "slices"

// Step is one task taken back, or done again.
type Step struct {
	Task TaskID
	// Redo: the task is done again; else it is taken back.
	Redo bool
}

// Line is one agent's part of a plan: the task that was active, and the one that is to be.
type Line struct {
	Agent    Agent
	From, To TaskID
}

// Plan is a move of one agent, and of the sub-agents whose tasks hang under what it takes back or does again. Its steps
// are in the order in which the tasks were begun: newest first where they are taken back, then oldest first where they
// are done again. A plan without steps is a move to where the agent is.
type Plan struct {
	Agent    Agent
	From, To TaskID
	Steps    []Step
	// Along are the sub-agents that move with it, sorted by name.
	Along []Line
}

// Lines are all agents that move; the one that was asked to is the first.
func (p *Plan) Lines() []Line {
	return append([]Line{{p.Agent, p.From, p.To}}, p.Along...)
}

// Takes says whether a task is one of the plan's steps.
func (p *Plan) Takes(id TaskID) bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Task == id })
}

// PlanSwitch is the way from the agent's active task to another of its tasks, 0 included: back to the newest task that
// both chains share, then forward. Tasks of sub-agents that hang under what goes back go with it; those that went with it
// come again with what comes forward. Errors: NoTask, OtherAgent; UnderUndone when the way forward leads over a task that
// hangs under one of the parent's which is undone; Pruned when it leads through a task without images.
func (t *Tree) PlanSwitch(a Agent, to TaskID) (Plan, error) {
	if err := t.owned("switch", a, to); err != nil {
		return Plan{}, err
	}
	w := t.way(map[Agent]TaskID{a: to})
	if id := w.hangs(); id != 0 {
		return Plan{}, &Error{Op: "switch", Task: t.tasks[id].Under, Kind: UnderUndone}
	}
	return t.unpruned("switch", w.plan(a))
}

// PlanView is the way to what the workspace was at the end of a task: as PlanSwitch, and where the task hangs under one
// that is undone, that one is done again too. It is for looking, not for moving. Errors: NoTask, OtherAgent, Pruned.
func (t *Tree) PlanView(a Agent, to TaskID) (Plan, error) {
	if err := t.owned("view", a, to); err != nil {
		return Plan{}, err
	}
	goals := map[Agent]TaskID{a: to}
	for {
		w := t.way(goals)
		id := w.hangs()
		if id == 0 {
			return t.unpruned("view", w.plan(a))
		}
		up := t.tasks[t.tasks[id].Under]
		if _, has := goals[up.Agent]; has {
			return t.unpruned("view", w.plan(a)) // two of its tasks are wanted that are on different branches: the newer one is shown
		}
		goals[up.Agent] = up.ID
	}
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
// that redo would have gone to before it began. Errors: NothingToDo; those of PlanSwitch.
func (t *Tree) PlanRedoOver(a Agent) (Plan, error) {
	k := t.tasks[t.active[a]]
	if k == nil || !k.Auto || k.Over == 0 {
		return Plan{}, &Error{Op: "redo", Task: t.active[a], Kind: NothingToDo}
	}
	return t.PlanSwitch(a, k.Over)
}

// PlanRedo goes to the child of the active task that was left last. Errors: NothingToDo; those of PlanSwitch.
func (t *Tree) PlanRedo(a Agent) (Plan, error) {
	to := t.Last(a, t.active[a])
	if to == 0 {
		return Plan{}, &Error{Op: "redo", Task: t.active[a], Kind: NothingToDo}
	}
	return t.PlanSwitch(a, to)
}
