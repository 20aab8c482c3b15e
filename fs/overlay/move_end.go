package overlay

import (
	"fmt"

	"github.com/ttfs/ttfs/journal"
	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// next is the step that is to be made now, without what is skipped.
func (m *mover) next() (*step, error) {
	p := m.parts[m.done]
	if p.Task == 0 {
		return m.entriesStep()
	}
	want, err := m.e.readImages(p.Task)
	if err != nil {
		return nil, err
	}
	want.keepOnly(p.only)
	want.leaveOut(m.skip[p.Task])
	several := len(m.plan.Along) > 0
	if several {
		want.leaveJoint()
	}
	s := &step{mover: m, task: p.Task, partly: several || len(m.skip[p.Task]) > 0, want: want, objects: map[OID]*object{}}
	s.times, err = m.e.timesOf(p.Task, want)
	return s, err
}

// number is that of the step's images.
func (s *step) number() tasktree.TaskID {
	if s.task == 0 {
		return s.scratch()
	}
	return s.task
}

// leaveAttributes leaves directories of which the task changed the times alone as they are but for those: somebody else may have
// changed the rest since. Preconditions: s.have is made.
func (s *step) leaveAttributes() {
	for id := range s.times {
		if is, has := s.have.metas[id]; has {
			was := s.want.metas[id]
			is.atime, is.mtime, is.at = was.atime, was.mtime, was.at
			s.want.metas[id] = is
		}
	}
}

// finish makes the tasks that the move leads to the active ones, of the agent and of those that went along. All that was on
// the way is sealed: a task that was left is immutable. What was skipped is no more the tasks'.
func (m *mover) finish() error {
	e, p := m.e, &m.plan
	if e.opt.Power {
		if err := retry(func() error { return unix.Syncfs(e.root) }); err != nil {
			return fail("move", "", IO, err)
		}
	}
	if err := e.point("end"); err != nil {
		return storeError("end a move", err)
	}
	defer e.forgetRuns()
	t := &e.tasks
	var b journal.Batch
	t.mu.Lock()
	left := m.leftLocked()
	for id, k := range left {
		b.Put(key(kTask, uint64(id)), encodeTask(&k))
	}
	for _, l := range p.Lines() {
		putActive(&b, t.tree, l.Agent, l.To)
	}
	t.mu.Unlock()
	skipped := newImages()
	for task, things := range m.skip {
		im, err := e.readImages(task)
		if err != nil {
			return err
		}
		gone := im.pick(things)
		gone.forget(&b, task)
		skipped.merge(gone)
	}
	if len(p.Along) > 0 {
		if err := m.swapDirs(&b); err != nil {
			return err
		}
	}
	for task, things := range m.idle {
		for _, t := range things {
			b.Delete(t.key(task))
		}
	}
	forgetMove(&b, m.num)
	if err := e.j.Commit(&b); err != nil {
		return storeError("end a move", err)
	}
	m.ended = true
	e.dropCopies(skipped)
	if err := m.leave(left); err != nil {
		return err
	}
	if e.opt.Power {
		return storeError("end a move", e.j.Sync())
	}
	return nil
}

// leave makes in memory what finish has recorded.
func (m *mover) leave(left map[tasktree.TaskID]tasktree.Task) error {
	t := &m.e.tasks
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, k := range left {
		t.endRun(id)
		_, err := t.tree.Update(id, func(old *tasktree.Task) {
			k.Incomplete = k.Incomplete || old.Incomplete // since it was recorded; who marks it records it again
			*old = k
		})
		if err != nil {
			return treeError("move", err)
		}
	}
	for _, l := range m.plan.Lines() {
		t.endRun(l.From)
		if err := t.tree.SetActive(l.Agent, l.To); err != nil {
			return treeError("move", err)
		}
	}
	return nil
}

// leftLocked are the tasks that the move changes, as they are to be: those on the way are sealed, and those of sub-agents
// remember with which they went along. Preconditions: tasks.mu is held.
func (m *mover) leftLocked() map[tasktree.TaskID]tasktree.Task {
	e, tree := m.e, m.e.tasks.tree
	out := map[tasktree.TaskID]tasktree.Task{}
	for _, l := range m.plan.Lines() {
		for _, k := range tree.Unended(l.From) {
			k.Sealed = true
			if k.Ended.IsZero() {
				k.Ended = e.clock()
			}
			out[k.ID] = k
		}
	}
	for id, with := range tree.Withs(&m.plan) {
		k, changed := out[id]
		if !changed {
			k, _ = tree.Get(id)
		}
		k.With = with
		out[id] = k
	}
	return out
}

// endBack ends a move that was taken back: there was none, nor the task that it was to make.
func (m *mover) endBack() error {
	var b journal.Batch
	var gone *images
	if m.made != 0 {
		var err error
		if gone, err = m.e.forgetTask(&b, m.made); err != nil {
			return err
		}
	}
	if len(m.plan.Along) > 0 {
		if err := m.restoreDirs(&b); err != nil {
			return err
		}
	}
	forgetMove(&b, m.num)
	if err := m.e.j.Commit(&b); err != nil {
		return storeError("take a move back", err)
	}
	if gone != nil {
		m.e.forgotTask(m.made, gone)
	}
	return nil
}

// forgetTask puts into a record that a task never was.
func (e *Engine) forgetTask(b *journal.Batch, id tasktree.TaskID) (*images, error) {
	im, err := e.readImages(id)
	if err != nil {
		return nil, err
	}
	b.Delete(key(kTask, uint64(id)))
	im.drop(b, nil, id)
	for _, t := range im.things() {
		b.Delete(t.key(id))
	}
	return im, nil
}

// forgotTask does the same in memory, and drops the task's copies.
func (e *Engine) forgotTask(id tasktree.TaskID, im *images) {
	e.tasks.mu.Lock()
	defer e.tasks.mu.Unlock()
	if err := e.tasks.tree.Remove(id); err != nil {
		e.log.Warn("a task that came to nothing stays in the list until the next mount", "task", id, "err", err)
	}
	e.dropCopies(im)
}

func (s *step) object(id OID) (*object, error) {
	if o := s.objects[id]; o != nil {
		return o, nil
	}
	o, found, err := s.e.getObject(id)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fail("move", "", Damaged, fmt.Errorf("object %d has no record", id))
	}
	s.e.movingMu.Lock()
	s.objects[id] = &o
	s.e.movingMu.Unlock()
	return &o, nil
}

func (s *step) placed(o *object, at spot) {
	s.e.movingMu.Lock()
	defer s.e.movingMu.Unlock()
	if o.at != at {
		o.was, o.at = o.at, at
	}
}

// settled gives the step's task what it has now.
func (s *step) settled(b *journal.Batch) ([]thing, error) {
	if s.partly {
		s.want.forget(b, s.task)
	} else {
		s.want.drop(b, nil, s.task)
	}
	s.have.put(b, nil, s.task)
	return s.moved(b)
}
