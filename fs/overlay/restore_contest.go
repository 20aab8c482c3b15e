package overlay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ttfs/ttfs/tasktree"
)

// contestRestore finds what strangers have changed since the tasks did over which a restore goes back: of what the images change
// and of what goes with it. back is the way to what is restored. The report's things are under back.To.
func (e *Engine) contestRestore(a tasktree.Agent, back *tasktree.Plan, im *images) (*contested, error) {
	c := &contested{things: map[tasktree.TaskID][]thing{}}
	if e.alone() {
		return c, nil
	}
	may := e.mayTakeBack(a, back.Agent)
	moves := map[tasktree.TaskID]bool{}
	for _, s := range back.Steps {
		moves[s.Task] = may
	}
	q := e.searchConflicts(moves)
	defer q.close()
	for _, t := range im.things() {
		if e.timesOnly(im, t) {
			continue
		}
		own, mine, err := q.firstOver(back, t)
		if err != nil {
			return nil, err
		}
		if !may && mine.first > 0 { // the task itself is somebody's work as well
			mine.first--
			mine.madeFirst--
		}
		k, _ := e.Task(own)
		who, err := q.later(q.but(k, a), t, mine, im)
		if err != nil {
			return nil, err
		}
		if who != 0 {
			c.add(e, back.To, t, who, im)
		}
	}
	c.sort()
	return c, nil
}

// firstOver is the plan's task that touched a thing first, and its share. What a task made in a directory that it made itself has
// no share of its own: then it is that of the directory. 0: none has, and whatever anybody did to it is later.
func (q *conflictSearch) firstOver(back *tasktree.Plan, t thing) (own tasktree.TaskID, mine share, err error) {
	for depth := 0; depth < maxDepth; depth++ {
		look := []thing{t}
		at := t.at
		if t.obj != 0 {
			o, found, err := q.e.getObject(t.obj)
			if err != nil || !found {
				return 0, share{}, err
			}
			at = o.at
			look = append(look, thing{at: at})
		}
		for _, t := range look {
			err := q.shares.each(t, func(id tasktree.TaskID, s share) {
				if (own == 0 || s.first < mine.first) && back.Takes(id) {
					own, mine = id, s
				}
			})
			if err != nil || own != 0 {
				return own, mine, err
			}
		}
		if at.dir == 0 || at.dir == rootOID {
			break
		}
		t = thing{obj: at.dir}
	}
	return 0, share{}, nil
}

// overtaken refuses a restore that leaves a path as it is, for its agent has done nothing there since, while somebody else has:
// what is there is not what was. By force neither: it is not in the agent's timeline. Errors: Conflict.
func (e *Engine) overtaken(a tasktree.Agent, back *tasktree.Plan, now *view, path string) error {
	dir, name := "", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		dir, name = path[:i], path[i+1:]
	}
	up, err := optional(now.resolve(dir))
	if err != nil || up == nil || up.id == 0 || e.alone() {
		return err
	}
	q := e.searchConflicts(map[tasktree.TaskID]bool{})
	defer q.close()
	since, err := q.firstOf(back)
	if err != nil || since.first == 0 {
		return err
	}
	look := []thing{{at: spot{up.id, name}}}
	if is, err := optional(now.resolve(path)); err != nil {
		return err
	} else if is != nil && is.id != 0 {
		look = append(look, thing{obj: is.id})
	}
	c := &contested{things: map[tasktree.TaskID][]thing{}}
	for _, s := range back.Steps {
		q.moves[s.Task] = true
	}
	for _, t := range look {
		who, err := q.but(tasktree.Task{Agent: back.Agent}, a).laterShare(t, since)
		if err != nil {
			return err
		}
		if who != 0 {
			c.add(e, back.To, t, who, newImages())
		}
	}
	if len(c.report) == 0 {
		return nil
	}
	r := &c.report[0]
	r.Lost = lostNothing
	e.setConflicts(a, c.report[:1])
	e.tellRefused("restore", a, c.report[:1])
	return fail("restore", path, Conflict, fmt.Errorf("what is there now is of %s, task %d: restore goes back over what %s did, and not over "+
		"that; see .tt/conflicts and .tt/blame/%s", r.Agent, r.Task, back.Agent, onOneLine(path)))
}

// firstOf is the oldest share of a plan's tasks in anything; none when they have none.
func (q *conflictSearch) firstOf(back *tasktree.Plan) (oldest share, err error) {
	for _, s := range back.Steps {
		im, err := q.e.readImages(s.Task)
		if err != nil {
			return oldest, err
		}
		for _, t := range im.things() {
			v, found, err := q.e.j.Get(t.key(s.Task))
			if err != nil {
				return oldest, storeError("look for conflicts", err)
			}
			if !found {
				continue
			}
			if mine, err := decodeShare(v); err == nil && (oldest.first == 0 || mine.first < oldest.first) {
				oldest = mine
			}
		}
	}
	return oldest, nil
}

// mayTakeBack says whether an agent may move another: itself, those below it, and the user everybody.
func (e *Engine) mayTakeBack(a, of tasktree.Agent) bool {
	if a == tasktree.User || a == of {
		return true
	}
	e.tasks.mu.Lock()
	defer e.tasks.mu.Unlock()
	var above []tasktree.Agent
	for up := e.tasks.parents[of]; up != "" && !slices.Contains(above, up); up = e.tasks.parents[up] {
		above = append(above, up)
	}
	return slices.Contains(above, a)
}

// skipRestored takes things out of the images of a restore, and with an entry what was to come there, with all below it.
func (e *Engine) skipRestored(im *images, things []thing) {
	for at := 0; at < len(things); at++ {
		t := things[at]
		id, comes := im.entries[t.at]
		if t.obj != 0 || !comes || id == 0 {
			continue
		}
		things = append(things, thing{obj: id})
		for below := range im.entries {
			if below.dir == id {
				things = append(things, thing{at: below})
			}
		}
	}
	e.dropCopies(im.pick(things))
	im.leaveOut(things)
}
