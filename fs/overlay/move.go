package overlay

import (
	"errors"
	"fmt"

	"github.com/ttfs/ttfs/journal"
	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// A move goes through its plan task by task. Taking a task back and doing it again is one operation, a step: what the
// task's images say and what is in the workspace change places. A step has three parts:
//
//	prepare  keep what is there now, as the images that the task will have: nothing changes yet; one record
//	apply    make the workspace what the images say; every effect can be made twice
//	settle   the task has its new images; one record
//
// After a death a move that was recorded is gone on with: a step that is prepared is applied again, from its start. When
// a step fails, what it did is taken back in the same way, and the steps before it too.

// maxLost is how many things that a move could not bring back are named in the log, one by one.
const maxLost = 100

// MoveOptions say how to move.
type MoveOptions struct {
	// DryRun changes nothing and tells what would change.
	DryRun bool
	// Force takes along what others have changed since; redo brings it back. Skip leaves that as it is, for good: the
	// tasks that are moved have no image of it any more.
	Force, Skip bool
}

// MoveResult is what a move did, or would do.
type MoveResult struct {
	From, To tasktree.TaskID
	// Changed is the number of entries, contents and metadata that changed.
	Changed int
	// Paths is what changed, as far as the images say, or would change; sorted.
	Paths []Change
	// Lost names what could not be brought back, since somebody removed it around the mount.
	Lost []string
}

// Undo goes to the parent of the agent's active task. Errors: AtRoot; those of Switch.
func (e *Engine) Undo(a tasktree.Agent, o MoveOptions) (MoveResult, error) {
	return e.move("undo", a, o, func(t *tasktree.Tree) (tasktree.Plan, error) { return t.PlanUndo(a) })
}

// Redo goes to the child of the active task that was left last. An automatic task that did nothing but refresh git's
// index, as `git status` does after an undo, does not bar the way. Errors: NothingToDo; those of Switch.
func (e *Engine) Redo(a tasktree.Agent, o MoveOptions) (MoveResult, error) {
	return e.move("redo", a, o, func(t *tasktree.Tree) (tasktree.Plan, error) {
		p, err := t.PlanRedo(a)
		if errors.Is(err, tasktree.NothingToDo) && e.onlyGitIndex(t.Active(a)) {
			return t.PlanRedoOver(a)
		}
		return p, err
	})
}

// onlyGitIndex says whether a task touched nothing but the index of a git repository.
func (e *Engine) onlyGitIndex(id tasktree.TaskID) bool {
	im, err := e.readImages(id)
	if err != nil || len(im.entries) == 0 {
		return false
	}
	may := map[OID]bool{}
	for at, o := range im.entries {
		dir, found, err := e.getObject(at.dir)
		if err != nil || !found || dir.at.name != ".git" || at.name != "index" && at.name != "index.lock" {
			return false
		}
		may[at.dir], may[o] = true, true
	}
	for o := range im.metas {
		if !may[o] {
			return false
		}
	}
	for o := range im.contents {
		if !may[o] {
			return false
		}
	}
	return true
}

// Switch goes to any task of the agent's tree, 0 included. Errors: NoTask, NotYours, Conflict, NoSpace, Damaged, IO;
// then nothing has changed. Durability: the move is complete when it returns, and against power loss with Power.
func (e *Engine) Switch(a tasktree.Agent, id tasktree.TaskID, o MoveOptions) (MoveResult, error) {
	return e.move("switch", a, o, func(t *tasktree.Tree) (tasktree.Plan, error) { return t.PlanSwitch(a, id) })
}

func (e *Engine) move(op string, a tasktree.Agent, o MoveOptions, plan func(*tasktree.Tree) (tasktree.Plan, error)) (MoveResult, error) {
	res, told, err := e.moveLocked(op, a, o, plan)
	if err == nil && !o.DryRun && e.opt.Notify != nil {
		e.opt.Notify.Changed(told)
	}
	return res, err
}

func (e *Engine) moveLocked(op string, a tasktree.Agent, o MoveOptions, plan func(*tasktree.Tree) (tasktree.Plan, error)) (MoveResult, Changes, error) {
	e.past.Lock()
	defer e.past.Unlock()
	if err := e.mayMove(op, o); err != nil {
		return MoveResult{}, Changes{}, err
	}
	own, err := e.claimAgents(op, a)
	if err != nil {
		return MoveResult{}, Changes{}, err
	}
	defer e.unclaim(own)
	return e.moveNow(op, a, o, own, plan)
}

// mayMove says whether the engine can move. Preconditions: past is held for writing.
func (e *Engine) mayMove(op string, o MoveOptions) error {
	switch {
	case e.closed.Load():
		return fail(op, "", Closed, nil)
	case e.opt.ReadOnly && !o.DryRun:
		return fail(op, "", ReadOnly, nil)
	}
	if broken := e.broken.Load(); broken != nil {
		return fail(op, "", IO, fmt.Errorf("an earlier move could not be ended; unmount and mount again: %w", *broken))
	}
	return nil
}

// moveNow makes a plan and carries it out. Preconditions: past is held for writing, mayMove said yes, and the agent is
// claimed by own.
func (e *Engine) moveNow(op string, a tasktree.Agent, o MoveOptions, own *claim, plan func(*tasktree.Tree) (tasktree.Plan, error)) (MoveResult, Changes, error) {
	e.tasks.mu.Lock()
	p, err := plan(e.tasks.tree)
	e.tasks.mu.Unlock()
	if err != nil {
		return MoveResult{}, Changes{}, treeError(op, err)
	}
	res := MoveResult{From: p.From, To: p.To}
	if o.DryRun {
		res.Paths, err = e.preview(p)
		res.Changed = len(res.Paths)
		return res, Changes{}, err
	}
	if err := e.claimPlan(own, p); err != nil {
		return MoveResult{}, Changes{}, err
	}
	c, err := e.contest(p)
	if err != nil {
		return MoveResult{}, Changes{}, err
	}
	if len(c.report) > 0 && !o.Force && !o.Skip {
		e.setConflicts(a, c.report)
		e.tellRefused(op, a, c.report)
		return MoveResult{}, Changes{}, c.refusal(op)
	}
	m := &mover{e: e, plan: p, seen: newImages()}
	if o.Skip {
		m.skip = c.things
	}
	if len(c.report) > 0 {
		e.event("%s agent=%s from=%d to=%d conflicts=%d force=%v skip=%v", op, a, p.From, p.To, len(c.report), o.Force, o.Skip)
	}
	if err := m.run(); err != nil {
		return MoveResult{}, Changes{}, err
	}
	e.setConflicts(a, nil)
	res.Lost = m.lost
	e.armWriters(a)
	told := m.changes()
	e.learnMove(m, told)
	res.Paths = m.paths(told)
	res.Changed = len(res.Paths)
	e.count.moves.Add(1)
	e.event("%s agent=%s from=%d to=%d changed=%d lost=%d", op, a, p.From, p.To, res.Changed, len(m.lost))
	for i, what := range m.lost {
		if i == maxLost {
			e.event("lost agent=%s more=%d", a, len(m.lost)-i)
			break
		}
		e.event("lost agent=%s what=%s", a, quoted(what)) // it was removed or replaced around the mount
	}
	return res, told, nil
}

// mover is a move under way. Preconditions of everything: past is held for writing and what the move changes is claimed,
// or the engine is being opened.
type mover struct {
	e     *Engine
	plan  tasktree.Plan
	done  int // steps made
	seen  *images
	lost  []string
	half  bool // a step could be neither made nor taken back
	ended bool // the agent is where the move leads
	// skip are things of the plan's tasks that stay as they are.
	skip    map[tasktree.TaskID][]thing
	dropped map[tasktree.TaskID]*images // their images, for when the move is taken back
}

// encode is the record of the move under way. prepared says that the next step is.
func (m *mover) encode(prepared bool) []byte {
	var e enc
	e.s(string(m.plan.Agent))
	e.u(uint64(m.plan.From))
	e.u(uint64(m.plan.To))
	e.u(uint64(m.done))
	e.flag(prepared)
	e.u(uint64(len(m.plan.Steps)))
	for _, s := range m.plan.Steps {
		e.u(uint64(s.Task))
		e.flag(s.Redo)
	}
	return e.b
}

func decodeMover(e *Engine, b []byte) (m *mover, prepared bool, err error) {
	d := dec{b: b}
	m = &mover{e: e, seen: newImages()}
	m.plan.Agent = tasktree.Agent(d.s())
	m.plan.From, m.plan.To = tasktree.TaskID(d.u()), tasktree.TaskID(d.u())
	m.done, prepared = int(d.u()), d.flag()
	for n := d.u(); n > 0 && d.err == nil; n-- {
		m.plan.Steps = append(m.plan.Steps, tasktree.Step{Task: tasktree.TaskID(d.u()), Redo: d.flag()})
	}
	if m.done > len(m.plan.Steps) {
		d.err = errShort
	}
	return m, prepared, d.err
}

func (m *mover) run() error {
	m.e.swaps.Add(1) // see sweep.go
	defer m.e.swaps.Add(1)
	if len(m.plan.Steps) > 0 {
		if err := m.begin(); err != nil {
			return err
		}
	}
	for m.done < len(m.plan.Steps) {
		if err := m.step(); err != nil {
			m.giveUp(err)
			return err
		}
	}
	err := m.finish()
	if err != nil && !m.ended {
		m.giveUp(err)
	}
	return err
}

// begin records the move, and in the same record that what is skipped is no more the tasks'.
func (m *mover) begin() error {
	var b journal.Batch
	b.Put([]byte{kMove}, m.encode(false))
	m.dropped = map[tasktree.TaskID]*images{}
	for task, things := range m.skip {
		im, err := m.e.readImages(task)
		if err != nil {
			return err
		}
		gone := newImages()
		for _, t := range things {
			if t.obj == 0 {
				gone.entries[t.at] = im.entries[t.at]
				continue
			}
			if c := im.contents[t.obj]; c != nil {
				gone.contents[t.obj] = c
			}
			if mt, has := im.metas[t.obj]; has {
				gone.metas[t.obj] = mt
			}
		}
		gone.forget(&b, task)
		m.dropped[task] = gone
	}
	return storeError("record a move", m.e.j.Commit(&b))
}

// restoreDropped gives the tasks back what was skipped, when the move is taken back.
func (m *mover) restoreDropped(b *journal.Batch) {
	for task, im := range m.dropped {
		im.put(b, nil, task)
	}
}

// giveUp takes back a move that failed. Where that fails too, nothing may change until the next mount has ended it.
func (m *mover) giveUp(err error) {
	back := error(nil)
	if m.half {
		back = err // the record of the move says how to go on
	} else {
		back = m.back()
	}
	if back != nil {
		m.e.broken.Store(&back)
		m.e.log.Error("a move failed and could not be taken back; it is tried again at the next mount", "err", err, "back", back)
	}
}

// note records how far the move is.
func (m *mover) note(prepared bool) error {
	var b journal.Batch
	b.Put([]byte{kMove}, m.encode(prepared))
	return storeError("record a move", m.e.j.Commit(&b))
}

func (m *mover) step() error {
	e := m.e
	task := m.plan.Steps[m.done].Task
	want, err := e.readImages(task)
	if err != nil {
		return err
	}
	s := &step{mover: m, task: task, want: want, objects: map[OID]*object{}}
	if err := s.prepare(); err != nil {
		return err
	}
	return s.complete()
}

// back takes back the steps that were made, newest first: each is a step again.
func (m *mover) back() error {
	var b journal.Batch
	steps := m.plan.Steps[:m.done]
	m.plan.To = m.plan.From
	m.plan.Steps = nil
	for i := len(steps) - 1; i >= 0; i-- {
		m.plan.Steps = append(m.plan.Steps, tasktree.Step{Task: steps[i].Task, Redo: !steps[i].Redo})
	}
	m.done = 0
	if len(m.plan.Steps) == 0 {
		m.restoreDropped(&b)
		b.Delete([]byte{kMove})
		return storeError("take a move back", m.e.j.Commit(&b))
	}
	if err := m.note(false); err != nil {
		return err
	}
	for m.done < len(m.plan.Steps) {
		if err := m.step(); err != nil {
			return err
		}
	}
	m.restoreDropped(&b)
	b.Delete([]byte{kMove})
	return storeError("take a move back", m.e.j.Commit(&b))
}

// finish makes the task that the move leads to the active one. Both ends are sealed: a task that was left is immutable.
func (m *mover) finish() error {
	e, p := m.e, m.plan
	if e.opt.Power {
		if err := retry(func() error { return unix.Syncfs(e.root) }); err != nil {
			return fail("move", "", IO, err)
		}
	}
	t := &e.tasks
	t.mu.Lock()
	defer t.mu.Unlock()
	var b journal.Batch
	for _, id := range t.tree.Chain(p.From) {
		k, _ := t.tree.Get(id)
		if k.Sealed && !k.Ended.IsZero() {
			continue
		}
		k, err := t.tree.Update(id, func(k *tasktree.Task) {
			k.Sealed = true
			if k.Ended.IsZero() {
				k.Ended = e.clock()
			}
		})
		if err != nil {
			return treeError("move", err)
		}
		b.Put(key(kTask, uint64(id)), encodeTask(&k))
		delete(t.runs, id)
	}
	putActive(&b, t.tree, p.Agent, p.To)
	b.Delete([]byte{kMove})
	if err := e.point("end"); err != nil {
		return storeError("end a move", err)
	}
	if err := e.j.Commit(&b); err != nil {
		return storeError("end a move", err)
	}
	m.ended = true
	delete(t.runs, p.From)
	if err := t.tree.SetActive(p.Agent, p.To); err != nil {
		return treeError("move", err)
	}
	if e.opt.Power {
		return storeError("end a move", e.j.Sync())
	}
	return nil
}
