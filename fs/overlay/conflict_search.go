package overlay

import (
	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// conflictSearch looks, for one move, for what strangers have changed since its tasks did. What it has asked of a task or an
// agent it does not ask again: what the plan conflicts with changes no more while that is claimed. It is for one goroutine.
type conflictSearch struct {
	e       *Engine
	shares  shares
	moves   map[tasktree.TaskID]bool
	idle    map[tasktree.TaskID][]thing // what tasks only seem to have touched
	below   map[OID][]foreignTouch      // nil: nobody has asked yet
	tasks   map[tasktree.TaskID]*stranger
	kinship map[[2]tasktree.Agent]bool
}

// searchConflicts begins one for a move of tasks; close ends it. Preconditions: what was written unseen is told (unseenMoves): a file that
// somebody has open and has not written to since is in nobody's way.
func (e *Engine) searchConflicts(moves map[tasktree.TaskID]bool) *conflictSearch {
	return &conflictSearch{e: e, shares: shares{j: e.j}, moves: moves, idle: e.idleNow(), tasks: map[tasktree.TaskID]*stranger{}, kinship: map[[2]tasktree.Agent]bool{}}
}

func (q *conflictSearch) close() { q.shares.close() }

// later is a stranger's task that has changed a thing after a task did which has a share in it, or what goes when images are
// made of the workspace; 0: none.
func (q *conflictSearch) later(others strangers, t thing, mine share, im *images) (tasktree.TaskID, error) {
	who, told, err := others.laterOwner(t, mine)
	if err != nil {
		return 0, err
	}
	var is resident
	if !told && t.obj == 0 {
		if is, err = q.e.resident(t.at, im.entries[t.at]); err != nil {
			return 0, err
		}
		if is.id != 0 {
			if who, told, err = others.laterOwner(thing{obj: is.id}, mine); err != nil {
				return 0, err
			}
		}
	}
	if !told && !others.alone(t, mine) {
		if who, err = others.laterShare(t, mine); err != nil {
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
			return others.laterShare(thing{at: o.at}, mine)
		}
	}
	return who, nil
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
	task  tasktree.TaskID
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
	who, err := others.laterShare(thing{obj: is.id}, mine)
	if err != nil || who != 0 || !is.dir {
		return who, err
	}
	if q.below == nil {
		if q.below, err = q.e.foreignBelow(q.moves); err != nil {
			return 0, err
		}
	}
	for _, t := range q.below[is.id] {
		if others.later(t.task, t.of, t.share, mine) {
			return t.task, nil
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
				out[dir] = append(out[dir], foreignTouch{k.ID, s, t})
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
