package overlay

import (
	"slices"
	"time"

	"github.com/ttfs/ttfs/journal"
	"github.com/ttfs/ttfs/tasktree"
)

// BeginTask begins a task of an agent: a child of its active task, which is sealed. Errors: what the journal says;
// nothing has changed then. Durability: that of the journal's records.
func (e *Engine) BeginTask(a tasktree.Agent, title string) (tasktree.TaskID, error) {
	if e.opt.ReadOnly {
		return 0, fail("task", "", ReadOnly, nil)
	}
	// What the agent does meanwhile waits: what its passthrough writers do must fall into one task or the other.
	own, err := e.claimAgents("task", false, a)
	if err != nil {
		return 0, err
	}
	defer e.unclaim(own)
	e.settleAll(a, taskEnds)
	r, err := e.beginAlone(a, title)
	e.captureAgain(a)
	if err != nil {
		return 0, err
	}
	e.began(r, false)
	return r.id, nil
}

// beginAlone begins a task, and takes turns with others only where it must: each has to wait for the disk.
func (e *Engine) beginAlone(a tasktree.Agent, title string) (*run, error) {
	turn := e.ParentOf(a) != "" || slices.ContainsFunc(e.writers.of(a), func(h *Handle) bool { return h.armed.Load() != nil })
	if turn {
		e.tasks.turn.Lock()
		defer e.tasks.turn.Unlock()
	}
	return e.beginTask(a, title, false, turn)
}

// began tells of a task that has begun; nil: none has. Preconditions: no lock of the tasks is held.
func (e *Engine) began(r *run, auto bool) {
	if r == nil {
		return
	}
	e.forgetRuns()
	if auto {
		e.event("task agent=%s task=%d title=%s auto=true", r.agent, r.id, autoTitle)
		return
	}
	k, _ := e.Task(r.id)
	e.event("task agent=%s task=%d title=%s", r.agent, r.id, quoted(k.Title))
}

// beginTask begins a task. Errors: what the journal says; nothing has changed then. Preconditions: no other task of the agent's
// begins and none is moved; turn says that it is held, without which the task hangs under nothing and no file that the agent has open may be armed.
func (e *Engine) beginTask(a tasktree.Agent, title string, auto, turn bool) (*run, error) {
	t := &e.tasks
	now := e.clock()
	t.mu.Lock()
	parent := t.tree.Active(a)
	k := tasktree.Task{ID: t.tree.Reserve(), Parent: parent, Agent: a, Title: title, Auto: auto, Started: now}
	if turn { // else nobody was the agent's parent a moment ago
		k.Under = t.underLocked(a)
	}
	if auto {
		k.Over = t.tree.Last(a, parent)
	}
	old, had := t.tree.Get(parent)
	t.mu.Unlock()
	var b journal.Batch
	if had {
		seal(&old, now)
		b.Put(key(kTask, uint64(parent)), encodeTask(&old))
	}
	b.Put(key(kTask, uint64(k.ID)), encodeTask(&k))
	var v, c enc
	v.u(uint64(k.ID))
	b.Put(append([]byte{kActive}, a...), v.b)
	c.u(uint64(k.ID))
	b.Put(append(key(kLast, uint64(parent)), a...), c.b)
	armed := e.attachArmed(&b, a, k.ID)
	if err := e.j.CommitFreeing(&b); err != nil { // of a removal, it may be
		t.mu.Lock()
		defer t.mu.Unlock()
		t.tree.Release(k.ID)
		return nil, storeError("begin a task", err)
	}
	r := newRun(k.ID, a)
	r.whole = true
	disarm(r, armed)
	is, err := t.begun(&k, r)
	if err == nil && is != old { // something else of it has changed meanwhile
		if err := e.recordTask(parent); err != nil {
			e.log.Warn("what changed of a task while the next one began is in memory only", "task", parent, "err", err)
		}
	}
	e.count.tasks.Add(1)
	return r, err
}

// begun makes in memory what beginTask has recorded. It gives the task before as it is then.
func (t *taskTable) begun(k *tasktree.Task, r *run) (old tasktree.Task, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k.Parent != 0 {
		if old, err = t.tree.Update(k.Parent, func(p *tasktree.Task) { seal(p, k.Started) }); err != nil {
			return old, treeError("task", err)
		}
	}
	if err := t.tree.Add(*k); err != nil {
		return old, treeError("task", err)
	}
	if err := t.tree.SetActive(k.Agent, k.ID); err != nil {
		return old, treeError("task", err)
	}
	if k.Auto {
		t.written[k.Agent] = k.Started
	} else {
		t.explicit[k.Agent] = true
	}
	t.runs[k.ID] = r
	t.endRun(k.Parent)
	return old, nil
}

// seal says that a task was left.
func seal(k *tasktree.Task, now time.Time) {
	k.Sealed = true
	if k.Ended.IsZero() {
		k.Ended = now
	}
}

// recordTask records a task as it is, again if it changes meanwhile. Errors: what the journal says.
func (e *Engine) recordTask(id tasktree.TaskID) error {
	for {
		k, has := e.Task(id)
		if !has {
			return nil
		}
		var b journal.Batch
		b.Put(key(kTask, uint64(id)), encodeTask(&k))
		if err := e.j.Commit(&b); err != nil {
			return storeError("record a task", err)
		}
		if now, has := e.Task(id); !has || now == k {
			return nil
		}
	}
}

// markIncomplete writes into the task that a before-image of it was not kept.
func (e *Engine) markIncomplete(id tasktree.TaskID) {
	if _, err := e.updateTask(id, func(k *tasktree.Task) { k.Incomplete = true }); err != nil {
		return
	}
	if err := e.recordTask(id); err != nil {
		e.log.Warn("the mark of an incomplete task could not be kept; it is in memory only", "task", id, "err", err)
	}
}
