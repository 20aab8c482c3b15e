package overlay

import (
	"github.com/ttfs/ttfs/journal"
	"github.com/ttfs/ttfs/tasktree"
)

// remake begins a task whose images want says, as if it had been undone, and does it again.
func (e *Engine) remake(op string, a tasktree.Agent, title string, o MoveOptions, want func() (*images, error)) (MoveResult, error) {
	res, told, err := e.remakeLocked(op, a, title, o, want)
	if err == nil && !o.DryRun && e.opt.Notify != nil {
		e.opt.Notify.Changed(told)
	}
	return res, err
}

func (e *Engine) remakeLocked(op string, a tasktree.Agent, title string, o MoveOptions, want func() (*images, error)) (MoveResult, Changes, error) {
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
	im, err := e.wanted(own, want)
	if err != nil {
		return MoveResult{}, Changes{}, err
	}
	id, err := e.addUndone(op, a, title, im)
	if err != nil {
		return MoveResult{}, Changes{}, err
	}
	res, told, err := e.moveNow(op, a, MoveOptions{Force: true}, own, func(t *tasktree.Tree) (tasktree.Plan, error) { return t.PlanSwitch(a, id) })
	if err != nil && e.broken.Load() == nil {
		e.dropUndone(id)
	}
	return res, told, err
}

// wanted asks want what the workspace is to be, claims that, and asks again until the answer is of what was claimed: before
// that, anybody could have changed what want looked at.
func (e *Engine) wanted(own *claim, want func() (*images, error)) (*images, error) {
	for {
		before, err := want()
		if err != nil {
			return nil, err
		}
		err = e.claimImages(own, []*images{before})
		(&step{mover: &mover{e: e}}).dropCopies(before)
		if err != nil {
			return nil, err
		}
		im, err := want()
		if err != nil {
			return nil, err
		}
		if im.within(before) {
			return im, nil
		}
		(&step{mover: &mover{e: e}}).dropCopies(im)
	}
}

// within says whether images are of nothing but what others are of.
func (im *images) within(o *images) bool {
	for at, id := range im.entries {
		if was, has := o.entries[at]; !has || id != was {
			return false
		}
	}
	for id := range im.metas {
		if _, has := o.metas[id]; !has {
			return false
		}
	}
	for id := range im.contents {
		if _, has := o.contents[id]; !has {
			return false
		}
	}
	return true
}

// dropUndone takes back what addUndone recorded, when its move has not begun: what is refused changes nothing. A death in
// between leaves an undone task.
func (e *Engine) dropUndone(id tasktree.TaskID) {
	im, err := e.readImages(id)
	if err != nil {
		e.log.Warn("a task that came to nothing stays in the list", "task", id, "err", err)
		return
	}
	e.tasks.mu.Lock()
	defer e.tasks.mu.Unlock()
	if err := e.tasks.tree.Remove(id); err != nil {
		e.log.Warn("a task that came to nothing stays in the list", "task", id, "err", err)
		return
	}
	var b journal.Batch
	b.Delete(key(kTask, uint64(id)))
	im.drop(&b, nil, id)
	for _, t := range im.things() {
		b.Delete(t.key(id))
	}
	if err := e.j.Commit(&b); err != nil {
		e.log.Warn("a task that came to nothing comes back at the next mount, undone", "task", id, "err", err)
		return
	}
	(&step{mover: &mover{e: e}}).dropCopies(im)
}

// addUndone records a task that is not active, with images of what it is to make of the workspace.
func (e *Engine) addUndone(op string, a tasktree.Agent, title string, im *images) (tasktree.TaskID, error) {
	e.tasks.mu.Lock()
	defer e.tasks.mu.Unlock()
	now := e.clock()
	if r := []rune(title); len(r) > 60 {
		title = string(r[:57]) + "..."
	}
	k := tasktree.Task{ID: e.tasks.tree.Next(), Parent: e.tasks.tree.Active(a), Agent: a, Title: title, Started: now, Ended: now, Sealed: true}
	var b journal.Batch
	b.Put(key(kTask, uint64(k.ID)), encodeTask(&k))
	im.put(&b, nil, k.ID)
	for _, t := range im.things() {
		b.Put(t.key(k.ID), share{}.encode())
	}
	if err := e.j.Commit(&b); err != nil {
		return 0, storeError(op, err)
	}
	e.tasks.explicit[a] = true
	e.count.tasks.Add(1)
	return k.ID, treeError(op, e.tasks.tree.Add(k))
}
