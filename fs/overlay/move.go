package overlay

import (
	"errors"
	"fmt"

	"github.com/ttfs/ttfs/journal"
	"github.com/ttfs/ttfs/tasktree"
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
	// Force takes along what others have changed since, as a task of its own, whose undo brings it back. Skip leaves that as
	// it is, for good: the tasks that are moved have no image of it any more.
	Force, Skip bool
	// By is who asked, for the log; "": the agent itself.
	By tasktree.Agent
	// Protect refuses to move paths of the classes System and Platform, unless forced.
	Protect bool
}

// MoveResult is what a move did, or would do.
type MoveResult struct {
	From, To tasktree.TaskID
	// Changed is the number of entries, contents and metadata that changed.
	Changed int
	// Paths is what changed, as far as the images say, or would change; sorted.
	Paths []Change
	// Along are the sub-agents that were moved as well.
	Along []tasktree.Line
	// Lost names what could not be brought back, since somebody removed it around the mount.
	Lost []string
}

// Undo goes to the parent of the agent's active task. Where that is an automatic task that did nothing but refresh git's
// index, as `git status` does after a merge, it takes the one before it back as well. Errors: AtRoot; those of Switch.
func (e *Engine) Undo(a tasktree.Agent, o MoveOptions) (MoveResult, error) {
	return e.move("undo", a, o, func(t *tasktree.Tree) (tasktree.Plan, error) {
		at := t.Active(a)
		for {
			k, has := t.Get(at)
			up, own := t.Get(k.Parent)
			if !has || !k.Auto || k.Pruned || !own || up.Pruned || !e.onlyGitIndex(at) {
				break
			}
			at = k.Parent
		}
		if at == t.Active(a) {
			return t.PlanUndo(a)
		}
		k, _ := t.Get(at)
		return t.PlanSwitch(a, k.Parent)
	})
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
	if o.DryRun {
		res, err := e.dryRun(op, plan)
		return res, Changes{}, err
	}
	own, err := e.claimLines(op, a, plan)
	if err != nil {
		return MoveResult{}, Changes{}, err
	}
	defer e.unclaimLines(own)
	defer e.keepOpen()()
	if err := e.mayMove(op, o); err != nil {
		return MoveResult{}, Changes{}, err
	}
	if err := e.settleArmed(own); err != nil {
		return MoveResult{}, Changes{}, err
	}
	return e.moveNow(op, a, o, own, plan)
}

// dryRun says what a move would change.
func (e *Engine) dryRun(op string, plan func(*tasktree.Tree) (tasktree.Plan, error)) (res MoveResult, err error) {
	if err := e.mayMove(op, MoveOptions{DryRun: true}); err != nil {
		return res, err
	}
	err = e.reading(func(ft *foot) error {
		e.tasks.mu.Lock()
		p, err := plan(e.tasks.tree)
		e.tasks.mu.Unlock()
		if err != nil {
			return treeError(op, err)
		}
		res = MoveResult{From: p.From, To: p.To}
		res.Paths, err = e.preview(ft, p)
		res.Changed = len(res.Paths)
		return err
	})
	return res, err
}

// mayMove says whether the engine can move.
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

// moveNow makes a plan and carries it out. Preconditions: mayMove said yes, and own has claimed all agents that move.
func (e *Engine) moveNow(op string, a tasktree.Agent, o MoveOptions, own *claim, plan func(*tasktree.Tree) (tasktree.Plan, error)) (MoveResult, Changes, error) {
	e.tasks.mu.Lock()
	p, err := plan(e.tasks.tree)
	e.tasks.mu.Unlock()
	if err != nil {
		return MoveResult{}, Changes{}, treeError(op, err)
	}
	if err := e.claimPlan(own, p); err != nil {
		return MoveResult{}, Changes{}, err
	}
	if err := e.unseenMoves(own); err != nil {
		return MoveResult{}, Changes{}, err
	}
	idle := e.idleThings(own)
	c, err := e.contest(p, idle)
	if err == nil && o.Protect {
		err = e.protectPlan(c, &p)
	}
	if err != nil {
		return MoveResult{}, Changes{}, err
	}
	if len(c.report) > 0 && !o.Force && !o.Skip {
		e.setConflicts(a, c.report)
		e.setConflicts(o.By, c.report)
		e.tellRefused(op, a, c.report)
		return MoveResult{}, Changes{}, c.refusal(op)
	}
	m := &mover{e: e, own: own, plan: p, seen: newImages()}
	if m.parts, err = e.weave(&p, false); err != nil {
		return MoveResult{}, Changes{}, err
	}
	if o.Skip {
		m.skip = c.things
	}
	if c.foreign > 0 && o.Force {
		if m, err = e.forced(op, own, &p); err != nil {
			return MoveResult{}, Changes{}, err
		}
	}
	m.leaveIdle(idle)
	res, told, err := e.carryOut(op, m)
	if err == nil {
		e.setConflicts(o.By, nil)
	}
	if err == nil && len(c.report) > 0 {
		e.audit(op, &p, o, c, m.made)
	}
	return res, told, err
}

// carryOut makes a move that is planned and not refused. Preconditions: as of mover.
func (e *Engine) carryOut(op string, m *mover) (MoveResult, Changes, error) {
	p, a := &m.plan, m.plan.Agent
	res := MoveResult{From: p.From, To: p.To}
	if err := m.run(); err != nil {
		return MoveResult{}, Changes{}, err
	}
	e.setConflicts(a, nil)
	res.Lost, res.Along = m.lost, p.Along
	for _, l := range p.Lines() {
		e.armWriters(l.Agent)
	}
	e.movedUnseen(m)
	told := m.changes()
	e.learnMove(m, told)
	res.Paths = m.paths(told)
	res.Changed = len(res.Paths)
	e.count.moves.Add(1)
	e.event("%s agent=%s from=%d to=%d changed=%d lost=%d", op, a, p.From, p.To, res.Changed, len(m.lost))
	for _, l := range p.Along {
		e.event("along agent=%s from=%d to=%d with=%s", l.Agent, l.From, l.To, a)
	}
	for i, what := range m.lost {
		if i == maxLost {
			e.event("lost agent=%s more=%d", a, len(m.lost)-i)
			break
		}
		e.event("lost agent=%s what=%s", a, quoted(what)) // it was removed or replaced around the mount
	}
	return res, told, nil
}

// mover is a move under way. Preconditions of everything: what the move changes is claimed, or the engine is being opened.
type mover struct {
	e     *Engine
	num   uint64 // tells it from others under way: see moveKey
	own   *claim // nil: the engine is being opened
	plan  tasktree.Plan
	parts []part // the plan's steps as they are made
	done  int    // of them
	seen  *images
	lost  []string
	half  bool // a step could be neither made nor taken back
	ended bool // the agent is where the move leads
	// resumed: the move was recorded by an engine that died.
	resumed bool
	// skip are things of the plan's tasks that stay as they are.
	skip map[tasktree.TaskID][]thing
	idle map[tasktree.TaskID][]thing // those of skip that their tasks never touched
	// made is the task that is recorded with the move, and goes if the move is taken back; 0: none.
	made  tasktree.TaskID
	makes *images       // the made task's
	first journal.Batch // what is recorded with the move
	// backward: the move is being taken back.
	backward bool
}

func (m *mover) run() error {
	defer m.e.gate.run(m.own)()
	defer m.e.forgetView() // it may have been made in the midst
	m.e.moving.Add(1)
	m.e.swaps.Add(1) // see sweep.go
	defer func() {
		m.e.swaps.Add(1)
		m.e.moving.Add(-1)
	}()
	if len(m.parts) > 0 && !m.resumed {
		if err := m.begin(); err != nil {
			if m.made != 0 {
				m.e.forgotTask(m.made, m.makes)
			}
			return err
		}
	}
	for m.done < len(m.parts) {
		if err := m.step(); err != nil {
			m.giveUp(err)
			return err
		}
	}
	if m.backward {
		return m.endBack()
	}
	err := m.finish()
	if err != nil && !m.ended {
		m.giveUp(err)
	}
	return err
}

// begin records the move, and with it the task that it makes.
func (m *mover) begin() error {
	m.num = m.e.moves.Add(1)
	if len(m.plan.Along) > 0 {
		if err := m.keepDirs(); err != nil {
			return err
		}
	}
	m.first.Put(moveKey(m.num), m.encode(false))
	if err := m.e.point("begin a move"); err != nil {
		return storeError("record a move", err)
	}
	return storeError("record a move", m.e.j.Commit(&m.first))
}

// giveUp takes back a move that failed. Where that fails too, nothing may change until the next mount has ended it.
func (m *mover) giveUp(err error) {
	back := error(nil)
	if m.half || m.backward {
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
	b.Put(moveKey(m.num), m.encode(prepared))
	b.Delete(farKey(m.num))
	return storeError("record a move", m.e.j.Commit(&b))
}

func (m *mover) step() error {
	s, err := m.next()
	if err != nil {
		return err
	}
	if err := s.prepare(); err != nil {
		return err
	}
	return s.complete()
}

// back takes back the steps that were made, newest first: each is a step again.
func (m *mover) back() error {
	made := m.parts[:m.done]
	m.parts, m.done, m.backward = nil, 0, true
	for i := len(made) - 1; i >= 0; i-- {
		p := made[i]
		p.Redo = !p.Redo
		m.parts = append(m.parts, p)
	}
	if len(m.parts) > 0 {
		if err := m.note(false); err != nil {
			return err
		}
	}
	for m.done < len(m.parts) {
		if err := m.step(); err != nil {
			return err
		}
	}
	return m.endBack()
}
