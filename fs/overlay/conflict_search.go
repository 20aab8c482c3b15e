package overlay

import (
	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// conflictSearch looks, for one move, for what strangers have changed since its tasks did.
type conflictSearch struct {
	e      *Engine
	now    owners
	shares *shares
	moves  map[tasktree.TaskID]bool
	idle   map[tasktree.TaskID][]thing
	below  map[OID][]foreignTouch // nil: nobody has asked yet
}

// searchConflicts begins one for a move of tasks; close ends it. Preconditions: what was written unseen is told (unseenMoves): a file that
// somebody has open and has not written to since is in nobody's way.
func (e *Engine) searchConflicts(moves map[tasktree.TaskID]bool) *conflictSearch {
	return &conflictSearch{e: e, now: e.owners(), shares: &shares{j: e.j}, moves: moves, idle: e.idleNow()}
}

func (q *conflictSearch) close() { q.shares.close() }

// but are all strangers to a task, except one agent; "": none is excepted.
func (q *conflictSearch) but(own tasktree.Task, spares tasktree.Agent) strangers {
	return strangers{q.e, q.moves, spares, own, q.shares, q.idle}
}

// later is a stranger's task that has changed a thing after a task did which has a share in it, or what goes when images are
// made of the workspace; 0: none.
func (q *conflictSearch) later(others strangers, t thing, mine share, im *images) (tasktree.TaskID, error) {
	who, told, err := q.now.later(others, t, mine)
	if err != nil {
		return 0, err
	}
	var is resident
	if !told && t.obj == 0 {
		if is, err = q.e.resident(t.at, im.entries[t.at]); err != nil {
			return 0, err
		}
		if is.id != 0 {
			if who, told, err = q.now.later(others, thing{obj: is.id}, mine); err != nil {
				return 0, err
			}
		}
	}
	if !told && !q.now.alone(others, t, mine) {
		if who, err = q.e.laterShare(others, t, mine); err != nil {
			return 0, err
		}
	}
	if who == 0 && is.id != 0 {
		if who, err = q.takesAway(others, is, mine); err != nil {
			return 0, err
		}
	}
	if who == 0 && t.obj != 0 {
		// Its name may be another's by now: what was there is in hold, and taking it back shows nobody anything.
		if o, found, err := q.e.getObject(t.obj); err != nil {
			return 0, err
		} else if found && o.at.dir != 0 {
			return q.e.laterShare(others, thing{at: o.at}, mine)
		}
	}
	return who, nil
}

// laterShare is a stranger's task, not undone, that touched a thing later than the step's own; 0: none.
func (e *Engine) laterShare(others strangers, t thing, mine share) (tasktree.TaskID, error) {
	var who tasktree.TaskID
	err := others.shares.each(t, func(id tasktree.TaskID, s share) {
		if o, has := e.Task(id); has && others.later(&o, s, mine) && !others.idles(id, t) {
			who = id
		}
	})
	return who, err
}

// whoTouched is a task, not undone, that has touched a thing; 0: none.
func (e *Engine) whoTouched(t thing) (tasktree.TaskID, error) {
	var who tasktree.TaskID
	err := e.eachShare(t, func(id tasktree.TaskID, _ share) {
		if e.StatusOf(id) != tasktree.Undone {
			who = id
		}
	})
	return who, err
}

// foreignTouch is what a task touched that does not move.
type foreignTouch struct {
	task  tasktree.Task
	share share
	of    thing
}

// resident is the object that is at an entry; 0: none that anybody has touched.
type resident struct {
	id  OID
	dir bool
}

// resident is what is at an entry now, when a plan puts something else there.
func (e *Engine) resident(at spot, want OID) (resident, error) {
	fd, done, err := e.openDir(at.dir, 0)
	if err != nil {
		return resident{}, nil // it is gone; the move says so
	}
	var st Stat
	err = statAt(fd, at.name, &st)
	done()
	if err != nil {
		return resident{}, nil
	}
	id, err := e.findOID(keyOf(&st))
	if err != nil || id == want {
		return resident{}, err
	}
	return resident{id, kindOf(&st) == unix.S_IFDIR}, nil
}

// takesAway says whose work goes with what is at an entry now, when the plan puts something else there: changes of the
// object itself, and of all below it.
func (q *conflictSearch) takesAway(others strangers, is resident, mine share) (tasktree.TaskID, error) {
	who, err := q.e.laterShare(others, thing{obj: is.id}, mine)
	if err != nil || who != 0 || !is.dir {
		return who, err
	}
	if q.below == nil {
		if q.below, err = q.e.foreignBelow(others.moves); err != nil {
			return 0, err
		}
	}
	for _, t := range q.below[is.id] {
		if others.later(&t.task, t.share, mine) && !others.idles(t.task.ID, t.of) {
			return t.task.ID, nil
		}
	}
	return 0, nil
}

// foreignBelow is, for every directory, what tasks that are not undone and do not move touched at any depth below it.
func (e *Engine) foreignBelow(moves map[tasktree.TaskID]bool) (map[OID][]foreignTouch, error) {
	out := map[OID][]foreignTouch{}
	pruned, err := e.prunedThings()
	if err != nil {
		return nil, err
	}
	for _, k := range e.Tasks() {
		if moves[k.ID] || e.StatusOf(k.ID) == tasktree.Undone {
			continue
		}
		things := pruned[k.ID]
		if !k.Pruned {
			im, err := e.readImages(k.ID)
			if err != nil {
				return nil, err
			}
			things = im.things()
		}
		for _, t := range things {
			v, found, err := e.j.Get(t.key(k.ID))
			if err != nil {
				return nil, storeError("look for conflicts", err)
			}
			if !found {
				continue
			}
			s, err := decodeShare(v)
			if err != nil {
				return nil, fail("look for conflicts", "", Damaged, err)
			}
			dir := t.at.dir
			if t.obj != 0 {
				o, found, err := e.getObject(t.obj)
				if err != nil || !found {
					continue
				}
				dir = o.at.dir
			}
			for depth := 0; dir != 0 && dir != rootOID && depth < maxDepth; depth++ {
				out[dir] = append(out[dir], foreignTouch{k, s, t})
				o, found, err := e.getObject(dir)
				if err != nil || !found {
					break
				}
				dir = o.at.dir
			}
		}
	}
	return out, nil
}
