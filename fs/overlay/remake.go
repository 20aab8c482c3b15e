package overlay

import (
	"errors"
	"fmt"

	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// remake begins a task whose images want says, as if it had been undone, and does it again.
//
// Errors: those of want, which then leaves no copies; Invalid for a dry run.
func (e *Engine) remake(op string, a tasktree.Agent, title string, o MoveOptions, want func(*foot) (*images, error)) (MoveResult, error) {
	if o.DryRun {
		return MoveResult{}, fail(op, "", Invalid, errors.New("there is no dry run of it"))
	}
	res, told, err := e.remakeLocked(op, a, title, o, want)
	if err == nil && e.opt.Notify != nil {
		e.opt.Notify.Changed(told)
	}
	return res, err
}

func (e *Engine) remakeLocked(op string, a tasktree.Agent, title string, o MoveOptions, want func(*foot) (*images, error)) (MoveResult, Changes, error) {
	own, err := e.claimAgents(op, true, a)
	if err != nil {
		return MoveResult{}, Changes{}, err
	}
	defer e.unclaim(own)
	defer e.keepOpen()()
	if err := e.mayMove(op, o); err != nil {
		return MoveResult{}, Changes{}, err
	}
	if err := e.settleArmed(own); err != nil {
		return MoveResult{}, Changes{}, err
	}
	if err := e.unseenMoves(own); err != nil {
		return MoveResult{}, Changes{}, err
	}
	idle := e.idleThings(own)
	im, err := e.wanted(own, want)
	if err != nil {
		return MoveResult{}, Changes{}, err
	}
	e.leaveSame(im)
	m, err := e.making(op, own, tasktree.Task{Agent: a, Title: title}, im)
	if err != nil {
		e.dropCopies(im)
		return MoveResult{}, Changes{}, err
	}
	m.leaveIdle(idle)
	return e.carryOut(op, m)
}

// wanted asks want what the workspace is to be, claims that, and asks again until the answer is of what was claimed: before
// that, anybody could have changed what want looked at.
func (e *Engine) wanted(own *claim, want func(*foot) (*images, error)) (*images, error) {
	ask := func() (im *images, err error) {
		err = e.readingBeside(own, func(ft *foot) error {
			if im != nil {
				e.dropCopies(im)
			}
			im, err = want(ft)
			return err
		})
		return im, err
	}
	for {
		before, err := ask()
		if err != nil {
			return nil, err
		}
		times := e.timesAlone(before)
		err = e.claimImages(own, claimed{before, times})
		e.dropCopies(before)
		if err != nil {
			return nil, err
		}
		im, err := ask()
		if err != nil {
			return nil, err
		}
		if im.within(before) && subset(times, e.timesAlone(im)) {
			return im, nil
		}
		e.dropCopies(im)
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

// making is a move that makes a task and does it: its images say what the workspace is to be, as those of an undone task
// do. The task is recorded with the move, in one record: after a death there are both or neither.
func (e *Engine) making(op string, own *claim, k tasktree.Task, im *images) (*mover, error) {
	e.tasks.mu.Lock()
	defer e.tasks.mu.Unlock()
	if r := []rune(k.Title); len(r) > 60 {
		k.Title = string(r[:57]) + "..."
	}
	tree, a := e.tasks.tree, k.Agent
	k.ID, k.Parent, k.Under, k.Sealed = tree.Reserve(), tree.Active(a), e.tasks.underLocked(a), true
	k.Started = e.clock()
	k.Ended = k.Started
	m := &mover{e: e, own: own, made: k.ID, makes: im, seen: newImages()}
	m.first.Put(key(kTask, uint64(k.ID)), encodeTask(&k))
	im.put(&m.first, nil, k.ID)
	for _, t := range im.things() {
		if !e.timesOnly(im, t) {
			m.first.Put(t.key(k.ID), share{}.encode())
		}
	}
	if err := tree.Add(k); err != nil {
		return nil, treeError(op, err)
	}
	var err error
	if m.plan, err = tree.PlanSwitch(a, k.ID); err != nil {
		err = errors.Join(err, tree.Remove(k.ID))
		return nil, treeError(op, err)
	}
	e.tasks.explicit[a] = true
	e.count.tasks.Add(1)
	m.parts = []part{{Step: tasktree.Step{Task: k.ID, Redo: true}}}
	return m, nil
}

// timesAlone are the directories of which images change nothing but the times.
func (e *Engine) timesAlone(im *images) map[OID]bool {
	out := map[OID]bool{}
	for id := range im.metas {
		if e.timesOnly(im, thing{obj: id}) {
			out[id] = true
		}
	}
	return out
}

// timesOnly says whether an image is of a directory of which nothing but the times is to change: nobody has a share in
// those.
func (e *Engine) timesOnly(im *images, t thing) bool {
	if t.obj == 0 || im.contents[t.obj] != nil || im.metas[t.obj].mode&unix.S_IFMT != unix.S_IFDIR {
		return false
	}
	fd, done, err := e.openDir(t.obj, 0)
	if err != nil {
		return false
	}
	defer done()
	var st Stat
	if err := statAt(fd, "", &st); err != nil {
		return false
	}
	is, err := readMeta(fd, &st)
	was := im.metas[t.obj]
	was.mtime = is.mtime
	return err == nil && was.equal(&is)
}

// planTimes are the directories of which a plan's tasks have nothing but the times.
func (e *Engine) planTimes(p *tasktree.Plan) (map[OID]bool, error) {
	out := map[OID]bool{}
	for _, s := range p.Steps {
		im, err := e.readImages(s.Task)
		if err != nil {
			return nil, err
		}
		times, err := e.timesOf(s.Task, im)
		if err != nil {
			return nil, err
		}
		for id := range im.metas {
			was, has := out[id]
			out[id] = times[id] && (was || !has)
		}
	}
	return out, nil
}

// forced is a move that takes along what others have changed, as a task of its own, on top of the agent's active one: its
// images are what the plan leads to. So what it displaces is kept with a task, and taking that back gives all of it back,
// and what was moved beside it; nothing of the tasks that the plan would have swapped is changed. Preconditions: what
// the plan changes is claimed.
func (e *Engine) forced(op string, own *claim, p *tasktree.Plan) (*mover, error) {
	then, err := e.newView(nil, *p)
	if err != nil {
		return nil, err
	}
	im := newImages()
	for at, id := range then.entries {
		im.entries[at] = id
	}
	times, err := e.planTimes(p)
	if err != nil {
		return nil, err
	}
	now, err := e.newView(nil, tasktree.Plan{})
	if err != nil {
		return nil, err
	}
	for id, m := range then.metas {
		if times[id] { // whoever gave it another mode since is not displaced for that
			is, err := now.meta(&ref{id: id, kind: unix.S_IFDIR})
			if err != nil {
				continue
			}
			is.atime, is.mtime = m.atime, m.mtime
			m = is
		}
		im.metas[id] = m
	}
	for _, id := range sortedOIDs(then.contents) {
		err := e.restoreContent(im, then, &ref{id: id, kind: unix.S_IFREG})
		if errors.Is(err, Gone) { // somebody removed it around the mount: there is nothing to write to
			delete(im.metas, id)
			continue
		}
		if err != nil {
			e.dropCopies(im)
			return nil, err
		}
	}
	e.leaveSame(im)
	m, err := e.making(op, own, tasktree.Task{Agent: p.Agent, Title: fmt.Sprintf("forced %s from %d to %d", op, p.From, p.To), Forced: true, Back: p.To}, im)
	if err != nil {
		e.dropCopies(im)
	}
	return m, err
}

// leaveSame takes out of images the entries at which is what they want: the task that is made of them does nothing there.
// Preconditions: what the images are of is claimed.
func (e *Engine) leaveSame(im *images) {
	for at, want := range im.entries {
		fd, done, err := e.openDir(at.dir, 0)
		if err != nil {
			continue // the move says so
		}
		var st Stat
		err = statAt(fd, at.name, &st)
		done()
		is := OID(0)
		if err == nil {
			if is, err = e.findOID(keyOf(&st)); is == 0 {
				continue
			}
		} else if absent(err) {
			err = nil
		}
		if err == nil && is == want {
			delete(im.entries, at)
		}
	}
}
