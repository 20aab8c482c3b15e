package overlay

import (
	"slices"

	"github.com/ttfs/ttfs/tasktree"
)

// settleAll is settleUnseen for all handles of an agent.
func (e *Engine) settleAll(a tasktree.Agent, when settling) {
	for _, h := range e.writers.of(a) {
		e.settle(h, when)
	}
}

// settle is settleUnseen for who goes on all the same.
func (e *Engine) settle(h *Handle, when settling) {
	if err := e.settleUnseen(h, when); err != nil {
		e.log.Warn("what was written unseen could not be told", "agent", h.agent, "err", err)
	}
}

// unseenMoves tells, before a move looks for conflicts, what agents that do not move have written unseen to what it
// changes; to anything, if that is not claimed yet.
func (e *Engine) unseenMoves(own *claim) error {
	for _, h := range e.writers.everybody() {
		if _, moves := own.agents[h.agent]; moves || own.paths != nil && !own.paths.meets(e, h.agent, target{n: h.n}) {
			continue
		}
		if err := e.unseenMove(own, h.n); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) unseenMove(own *claim, n *node) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	ch := &change{e: e, firsts: firsts{run: newRun(0, "")}}
	for _, h := range e.unseenOn(n) { // one that is not among them may be closed by now
		if _, moves := own.agents[h.agent]; moves {
			continue
		}
		if err := ch.unseenBy(n, h, 0, 0); err != nil {
			return ch.unkept(err)
		}
	}
	if len(ch.wrote) == 0 {
		return nil
	}
	return ch.commit()
}

// movedUnseen says of the files that a move changed that nobody has written to them unseen since. Of those that tasks of others have
// only because they were open, what is there now is what was before these tasks.
func (e *Engine) movedUnseen(m *mover) {
	for _, h := range e.writers.everybody() {
		id, err := e.oidOf(h.n)
		if err != nil || id == 0 {
			continue
		}
		_, content := m.seen.contents[id]
		if _, meta := m.seen.metas[id]; content || meta {
			h.n.mu.Lock()
			e.accord(h.n)
			err := e.idleAgain(h, id)
			h.n.mu.Unlock()
			if err != nil {
				e.log.Warn("a file open for writing was changed by a move, and is kept as it was before that", "agent", h.agent, "err", err)
			}
		}
	}
}

// idleAgain keeps a file anew for a task that has it only because it was open when the task began. Preconditions: h.n.mu is
// held; who begins or moves a task of the agent's settles its handles under it.
func (e *Engine) idleAgain(h *Handle, id OID) error {
	r, err := e.openRun(h.agent)
	if err != nil || r == nil || h.watch.idleIn() != r.id {
		return err
	}
	old, err := e.imagesOf(r.id, id)
	if err != nil {
		return err
	}
	ch := &change{e: e, firsts: firsts{run: r}}
	old.forget(&ch.b, r.id)
	e.forgets(r, id)
	if err = ch.contentOf(&ch.firsts, h.n, h.fd, 0, 1<<62); err != nil {
		ch.drop()
	} else {
		err = ch.commit()
	}
	if err != nil {
		r.has(old)
		return err
	}
	e.dropCopies(old)
	return nil
}

// idleThings are, by task, the files that tasks of the agents that move have only because they were open when the task
// began. Preconditions: the agents are claimed.
func (e *Engine) idleThings(own *claim) map[tasktree.TaskID][]thing {
	for a := range own.agents {
		e.settleAll(a, taskMoves)
	}
	out := map[tasktree.TaskID][]thing{}
	for _, h := range e.writers.everybody() {
		if _, moves := own.agents[h.agent]; moves {
			e.idleThing(h, out)
		}
	}
	return out
}

// idleNow are those of all agents, as they are at this moment.
func (e *Engine) idleNow() map[tasktree.TaskID][]thing {
	out := map[tasktree.TaskID][]thing{}
	for _, h := range e.writers.everybody() {
		e.idleThing(h, out)
	}
	return out
}

func (e *Engine) idleThing(h *Handle, out map[tasktree.TaskID][]thing) {
	task := h.watch.idleIn()
	if task == 0 {
		return
	}
	if id, err := e.oidOf(h.n); err == nil && id != 0 {
		out[task] = append(out[task], thing{obj: id})
	}
}

// leaveIdle leaves files alone that tasks only seem to have touched: they are not theirs any more when the move ends. What is
// written to them after it is kept as of then (armWriters).
func (m *mover) leaveIdle(idle map[tasktree.TaskID][]thing) {
	if len(idle) == 0 {
		return
	}
	all := map[tasktree.TaskID][]thing{}
	for task, things := range m.skip {
		all[task] = things
	}
	for task, things := range idle {
		for _, t := range things {
			if !slices.Contains(all[task], t) {
				all[task] = append(slices.Clone(all[task]), t)
			}
		}
	}
	m.skip, m.idle = all, idle
}
