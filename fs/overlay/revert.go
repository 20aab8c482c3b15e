package overlay

import (
	"errors"
	"fmt"

	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// Revert and Restore make a new task whose images say what the workspace is to be, as those of an undone task do, and do
// it again: from there on it is a move like any other, and can be taken back.

// Revert takes one task back, alone, as a new task, when nobody has touched its paths since; Force does it all the same,
// Skip leaves the touched paths out. Errors: NoTask; Invalid when the task is undone; Conflict; those of Switch.
func (e *Engine) Revert(a tasktree.Agent, id tasktree.TaskID, o MoveOptions) (MoveResult, error) {
	k, has := e.Task(id)
	if !has {
		return MoveResult{}, fail("revert", fmt.Sprintf("task %d", id), NoTask, nil)
	}
	if err := e.archiveTask(id, nil); err != nil { // blobs can be shared; what comes after that is copied
		return MoveResult{}, err
	}
	title := fmt.Sprintf("revert %d: %s", id, k.Title)
	var c *contested
	res, err := e.remake("revert", a, title, o, func(*foot) (*images, error) {
		if e.StatusOf(id) == tasktree.Undone { // perhaps only since it was asked for
			return nil, fail("revert", fmt.Sprintf("task %d", id), Invalid, errors.New("it is undone"))
		}
		im, err := e.readImages(id)
		if err != nil {
			return nil, err
		}
		if c, err = e.contestRevert(k, im); err != nil {
			return nil, err
		}
		if o.Protect {
			e.protect(c, id, im)
		}
		c.sort()
		if len(c.report) > 0 && !o.Force && !o.Skip {
			e.setConflicts(a, c.report)
			e.setConflicts(o.By, c.report)
			e.tellRefused("revert", a, c.report)
			return nil, c.refusal(fmt.Sprintf("revert %d", id))
		}
		if o.Skip {
			im.leaveOut(c.things[id])
		}
		if err := e.leaveTimes(id, im); err != nil {
			return nil, err
		}
		return im, e.ownCopies(im)
	})
	if err == nil && len(c.report) > 0 {
		e.audit("revert", &tasktree.Plan{Agent: a, From: res.From, To: res.To}, o, c, res.To)
	}
	return res, err
}

// leaveTimes says of the directories whose metadata a task has only because their entries changed, that it is to stay as
// it is.
func (e *Engine) leaveTimes(id tasktree.TaskID, im *images) error {
	now, err := e.newView(nil, tasktree.Plan{})
	if err != nil {
		return err
	}
	for o := range im.metas {
		k, found, err := e.getObject(o)
		if err != nil {
			return err
		}
		if _, own, err := e.j.Get(thing{obj: o}.key(id)); err != nil || own || !found || k.kind != unix.S_IFDIR {
			continue
		}
		m, err := now.meta(&ref{id: o, kind: k.kind})
		if err != nil {
			delete(im.metas, o)
			continue
		}
		im.metas[o] = m
	}
	return nil
}

// contestRevert finds what anybody has changed since a task did that is to be taken back alone, also its own agent.
func (e *Engine) contestRevert(k tasktree.Task, im *images) (*contested, error) {
	c := &contested{things: map[tasktree.TaskID][]thing{}}
	q := e.searchConflicts(map[tasktree.TaskID]bool{k.ID: true})
	defer q.close()
	for _, t := range im.things() {
		v, found, err := e.j.Get(t.key(k.ID))
		if err != nil || !found {
			continue
		}
		mine, err := decodeShare(v)
		if err != nil {
			return nil, fail("revert", "", Damaged, err)
		}
		who, err := q.later(q.but(k, ""), t, mine, im)
		if err != nil {
			return nil, err
		}
		if who != 0 {
			c.add(e, k.ID, t, who, im)
		}
	}
	return c, nil
}

// leaveOut takes things out of images.
func (im *images) leaveOut(things []thing) {
	for _, t := range things {
		if t.obj == 0 {
			delete(im.entries, t.at)
			continue
		}
		delete(im.contents, t.obj)
		delete(im.metas, t.obj)
	}
}
