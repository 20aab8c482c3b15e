package overlay

import (
	"slices"

	"github.com/ttfs/ttfs/tasktree"
)

// strangers says whose work a step of a plan may not take: all but that of one agent, and what moves along.
type strangers struct {
	q      *conflictSearch
	spares tasktree.Agent // "": none
	own    tasktree.Task  // the step's
}

// but are all strangers to a task, except one agent; "": none is excepted.
func (q *conflictSearch) but(own tasktree.Task, spares tasktree.Agent) strangers {
	return strangers{q, spares, own}
}

// stranger is a task as it was when it was first asked for.
type stranger struct {
	tasktree.Task
	undone bool
}

// task is one task; nil when there is none of that id.
func (q *conflictSearch) task(id tasktree.TaskID) *stranger {
	if k, asked := q.tasks[id]; asked {
		return k
	}
	t := &q.e.tasks
	t.mu.Lock()
	defer t.mu.Unlock()
	var s *stranger
	if k, has := t.tree.Get(id); has {
		s = &stranger{k, t.tree.StatusOf(id) == tasktree.Undone}
	}
	q.tasks[id] = s
	return s
}

// related is Engine.related.
func (q *conflictSearch) related(a, b tasktree.Agent) bool {
	pair := [2]tasktree.Agent{a, b}
	is, asked := q.kinship[pair]
	if !asked {
		is = q.e.related(a, b)
		q.kinship[pair] = is
	}
	return is
}

func (o strangers) spared(k *stranger) bool { return k.Agent == o.spares && o.spares != "" }

// later says whether a task that is not undone has changed a thing since the step's own task did: s and mine are their
// shares in the thing. Moves count as changes; to have it open does not. But what is older, of the same family, and was only moved since is what the step's
// task was done upon: it is there again.
func (o strangers) later(id tasktree.TaskID, t thing, s, mine share) bool {
	if o.q.moves[id] || s.last <= mine.first {
		return false
	}
	k := o.q.task(id)
	if k == nil || o.spared(k) || k.undone || slices.Contains(o.q.idle[id], t) {
		return false
	}
	return k.ID > o.own.ID || s.madeLast > mine.madeFirst || !o.q.related(k.Agent, o.own.Agent)
}

// laterShare is a stranger's task, not undone, that touched a thing later than the step's own; 0: none.
func (o strangers) laterShare(t thing, mine share) (tasktree.TaskID, error) {
	var who tasktree.TaskID
	err := o.q.shares.each(t, func(id tasktree.TaskID, s share) {
		if o.later(id, t, s, mine) {
			who = id
		}
	})
	return who, err
}

// Most conflicts are with what somebody is at just now, and most moves that are not refused are of what nobody else has touched
// since. Both show by the owner, in memory, without a look at all tasks that ever had a share in a thing.

// laterOwner is laterShare, if that can be told by the owner.
func (o strangers) laterOwner(t thing, mine share) (who tasktree.TaskID, told bool, err error) {
	e := o.q.e
	id := e.owners.of(t)
	if k := o.q.task(id); k == nil || o.spared(k) {
		return 0, false, nil
	}
	v, found, err := e.j.Get(t.key(id))
	if err != nil || !found {
		return 0, false, storeError("look for conflicts", err)
	}
	s, err := decodeShare(v)
	if err != nil {
		return 0, false, fail("look for conflicts", "", Damaged, err)
	}
	if o.later(id, t, s, mine) {
		return id, true, nil
	}
	return 0, false, nil
}

// alone says that nobody has touched a thing since the step's own task did, which touched it once: mine is its share in it.
func (o strangers) alone(t thing, mine share) bool {
	return mine.first == mine.last && o.own.ID != 0 && o.q.e.owners.of(t) == o.own.ID
}
