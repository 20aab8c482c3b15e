package tasktree

import (
	"maps"
	"slices"
)

// way is what a move takes back and does again, of all agents. What a task stands on, its parent and the task that it
// hangs under, was begun before it: so the numbers alone give an order in which nothing is ever done that stands on
// something undone.
type way struct {
	t     *Tree
	goals map[Agent]TaskID
	at    map[Agent]TaskID // where agents are after the move that are not where they were
	back  map[TaskID]bool
	forth map[TaskID]bool
}

// way leads some agents to tasks of theirs, and others as far as they must go along.
func (t *Tree) way(goals map[Agent]TaskID) *way {
	w := &way{t: t, goals: goals, at: maps.Clone(goals), back: map[TaskID]bool{}, forth: map[TaskID]bool{}}
	var gone, come []TaskID
	for a, to := range goals {
		back, forward := t.beyond(to, t.active[a]), t.beyond(t.active[a], to)
		slices.Reverse(back)
		slices.Reverse(forward)
		gone, come = append(gone, back...), append(come, forward...)
	}
	for _, id := range gone {
		w.back[id] = true
	}
	for _, id := range come {
		w.forth[id] = true
	}
	for ; len(gone) > 0; gone = gone[1:] {
		gone = append(gone, w.takeAlong(gone[0])...)
	}
	w.bringAlong(come)
	return w
}

// takeAlong takes back what other agents have done under a task that is taken back, with all that stands on that.
func (w *way) takeAlong(id TaskID) (more []TaskID) {
	for _, sub := range w.t.under[id] {
		b := w.t.tasks[sub].Agent
		if _, fixed := w.goals[b]; fixed || w.back[sub] || w.t.StatusOf(sub) == Undone {
			continue
		}
		for at := w.t.active[b]; at >= sub; at = w.t.tasks[at].Parent {
			if !w.back[at] {
				w.back[at] = true
				more = append(more, at)
			}
		}
		w.at[b] = min(w.whereIs(b), w.t.tasks[sub].Parent)
	}
	return more
}

func (w *way) whereIs(a Agent) TaskID {
	if at, moves := w.at[a]; moves {
		return at
	}
	return w.t.active[a]
}

// bringAlong does again what went along when the tasks that come were taken back, where the agent is still where it
// was left then.
func (w *way) bringAlong(come []TaskID) {
	slices.Sort(come)
	for len(come) > 0 {
		fits := map[Agent]TaskID{}
		for _, id := range come {
			for _, sub := range w.t.wentWith(id) {
				k := w.t.tasks[sub]
				if _, fixed := w.goals[k.Agent]; fixed || w.forth[sub] || k.Parent != w.whereIs(k.Agent) || !w.stands(k) {
					continue
				}
				if old, has := fits[k.Agent]; !has || old != w.t.Last(k.Agent, k.Parent) {
					fits[k.Agent] = sub
				}
			}
		}
		if len(fits) == 0 {
			return
		}
		for a, sub := range fits {
			w.forth[sub], w.at[a] = true, sub
			come = append(come, sub)
		}
	}
}

// wentWith are the tasks that were taken back along with a task, ascending.
func (t *Tree) wentWith(id TaskID) []TaskID {
	var out []TaskID
	for _, sub := range slices.Concat(t.under[id], t.children[id]) {
		if k := t.tasks[sub]; k.With == id && t.StatusOf(sub) == Undone && !slices.Contains(out, sub) {
			out = append(out, sub)
		}
	}
	slices.Sort(out)
	return out
}

// stands says whether the task that another hangs under is done after the move.
func (w *way) stands(k *Task) bool {
	up := w.t.tasks[k.Under]
	return up == nil || w.forth[k.Under] || !w.back[k.Under] && w.t.StatusOf(k.Under) != Undone
}

// hangs is the newest task on the way forward that hangs under one which is undone after the move; 0: none.
func (w *way) hangs() (found TaskID) {
	for id := range w.forth {
		if !w.stands(w.t.tasks[id]) {
			found = max(found, id)
		}
	}
	return found
}

// plan is the way as the steps of one agent's move.
func (w *way) plan(a Agent) Plan {
	p := Plan{Agent: a, From: w.t.active[a], To: w.goals[a]}
	back := slices.Sorted(maps.Keys(w.back))
	slices.Reverse(back)
	for _, id := range back {
		p.Steps = append(p.Steps, Step{Task: id})
	}
	for _, id := range slices.Sorted(maps.Keys(w.forth)) {
		p.Steps = append(p.Steps, Step{Task: id, Redo: true})
	}
	for _, b := range slices.Sorted(maps.Keys(w.at)) {
		if from := w.t.active[b]; b != a && from != w.at[b] {
			p.Along = append(p.Along, Line{b, from, w.at[b]})
		}
	}
	return p
}

// Withs is what a plan changes of what tasks went along with (Task.With), once it is carried out: a sub-agent's task that
// is taken back remembers the task which took it along, and what comes again, or was passed over when that task came
// again, forgets it. Tasks that stay as they are are not in it.
func (t *Tree) Withs(p *Plan) map[TaskID]TaskID {
	out, back := map[TaskID]TaskID{}, map[TaskID]bool{}
	set := func(id, with TaskID) {
		if t.tasks[id].With != with {
			out[id] = with
		}
	}
	for _, s := range p.Steps {
		back[s.Task] = !s.Redo
	}
	for _, s := range p.Steps {
		k := t.tasks[s.Task]
		if k == nil {
			continue
		}
		if s.Redo {
			for _, sub := range t.wentWith(s.Task) {
				set(sub, 0)
			}
		}
		switch {
		case s.Redo, k.Agent == p.Agent:
			set(k.ID, 0)
		case back[k.Under]:
			set(k.ID, k.Under)
		default:
			set(k.ID, k.Parent)
		}
	}
	return out
}
