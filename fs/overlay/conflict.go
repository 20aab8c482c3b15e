package overlay

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// ConflictEntry is a path that a move would take from somebody else.
type ConflictEntry struct {
	Path  string
	Agent tasktree.Agent
	Task  tasktree.TaskID
	Title string
	// Started is when that task began.
	Started time.Time
}

// conflictTable keeps each agent's last refused move, for `.tt/conflicts`.
type conflictTable struct {
	mu   sync.Mutex
	last map[tasktree.Agent][]ConflictEntry // +checklocks:mu
}

// ConflictsOf is the report of the agent's last refused move; a move that succeeds clears it.
func (e *Engine) ConflictsOf(a tasktree.Agent) []ConflictEntry {
	e.conflicts.mu.Lock()
	defer e.conflicts.mu.Unlock()
	return slices.Clone(e.conflicts.last[a])
}

func (e *Engine) setConflicts(a tasktree.Agent, all []ConflictEntry) {
	e.conflicts.mu.Lock()
	defer e.conflicts.mu.Unlock()
	if e.conflicts.last == nil || len(e.conflicts.last) > 4096 {
		e.conflicts.last = map[tasktree.Agent][]ConflictEntry{}
	}
	e.conflicts.last[a] = all
}

// contested is what a plan and somebody else's work have in common: by step's task, the things that are not to be moved.
type contested struct {
	report []ConflictEntry
	things map[tasktree.TaskID][]thing
}

// contest finds what others have changed since the plan's tasks did: tasks of other agents that are not undone, with a
// later share in the same thing, in an object that the plan takes away, or below a directory that it takes away. It looks
// at records alone. Preconditions: what the plan changes is claimed.
func (e *Engine) contest(p tasktree.Plan) (*contested, error) {
	c := &contested{things: map[tasktree.TaskID][]thing{}}
	e.tasks.mu.Lock()
	alone := len(e.tasks.tree.Agents()) < 2
	e.tasks.mu.Unlock()
	if alone {
		return c, nil
	}
	var below map[OID][]foreignTouch
	for _, step := range p.Steps {
		im, err := e.readImages(step.Task)
		if err != nil {
			return nil, err
		}
		for _, t := range im.things() {
			v, found, err := e.j.Get(t.key(step.Task))
			if err != nil {
				return nil, storeError("look for conflicts", err)
			}
			if !found {
				continue
			}
			mine, err := decodeShare(v)
			if err != nil {
				return nil, fail("look for conflicts", "", Damaged, err)
			}
			who, err := e.laterShare(p.Agent, t, mine.first)
			if err != nil {
				return nil, err
			}
			if who == 0 && t.obj == 0 {
				if who, err = e.takesAway(p.Agent, t.at, im.entries[t.at], mine.first, &below); err != nil {
					return nil, err
				}
			}
			if who == 0 && t.obj != 0 {
				// Its name may be another's by now: what was there is in hold, and taking it back shows nobody anything.
				if o, found, err := e.getObject(t.obj); err != nil {
					return nil, err
				} else if found && o.at.dir != 0 {
					if who, err = e.laterShare(p.Agent, thing{at: o.at}, mine.first); err != nil {
						return nil, err
					}
				}
			}
			if who != 0 {
				c.add(e, step.Task, t, who)
			}
		}
	}
	sort.Slice(c.report, func(i, j int) bool { return c.report[i].Path < c.report[j].Path })
	c.report = slices.Compact(c.report)
	return c, nil
}

func (c *contested) add(e *Engine, task tasktree.TaskID, t thing, who tasktree.TaskID) {
	path := t.at.name
	at := t.at
	if t.obj != 0 {
		path = fmt.Sprintf("object %d", t.obj)
		if o, found, err := e.getObject(t.obj); err == nil && found {
			at, path = o.at, o.at.name
		}
	}
	if dir, inTree := e.pathOf(at.dir, 0); inTree && at.dir != 0 {
		path = joinPath(dir, at.name)
	}
	if e.neverBlocks(path) {
		return
	}
	c.things[task] = append(c.things[task], t)
	k, _ := e.Task(who)
	c.report = append(c.report, ConflictEntry{Path: path, Agent: k.Agent, Task: who, Title: k.Title, Started: k.Started})
}

// neverBlocks says whether a path is of the class TEMP, or git's index, which every `git status` writes anew.
func (e *Engine) neverBlocks(path string) bool {
	parts := strings.Split(path, "/")
	last := parts[len(parts)-1]
	if n := len(parts); n > 1 && parts[n-2] == ".git" && (last == "index" || last == "index.lock") {
		return true
	}
	return matches(e.temp, parts)
}

// laterShare is a task of another agent, not undone, that touched a thing after a number of the sequence; 0: none.
func (e *Engine) laterShare(a tasktree.Agent, t thing, since uint64) (tasktree.TaskID, error) {
	var who tasktree.TaskID
	err := e.eachShare(t, func(id tasktree.TaskID, s share) {
		if o, has := e.Task(id); has && o.Agent != a && s.last > since && e.StatusOf(id) != tasktree.Undone {
			who = id
		}
	})
	return who, err
}

// eachShare calls f for every task's share in a thing.
func (e *Engine) eachShare(t thing, f func(id tasktree.TaskID, s share)) error {
	prefix := t.prefix()
	err := e.j.Scan(prefix, func(k, v []byte) error {
		if len(k) != len(prefix)+8 {
			return nil
		}
		s, err := decodeShare(v)
		if err != nil {
			return err
		}
		f(tasktree.TaskID(binary.BigEndian.Uint64(k[len(prefix):])), s)
		return nil
	})
	return storeError("look for conflicts", err)
}

// foreignTouch is what a task of another agent touched.
type foreignTouch struct {
	task  tasktree.TaskID
	agent tasktree.Agent
	thing thing
	last  uint64
}

// takesAway says whose work goes with what is at an entry now, when the plan puts something else there: changes of the
// object itself, and of all below it.
func (e *Engine) takesAway(a tasktree.Agent, at spot, want OID, since uint64, below *map[OID][]foreignTouch) (tasktree.TaskID, error) {
	fd, done, err := e.openDir(at.dir, 0)
	if err != nil {
		return 0, nil // it is gone; the move says so
	}
	var st Stat
	err = statAt(fd, at.name, &st)
	done()
	if err != nil {
		return 0, nil
	}
	id, err := e.findOID(keyOf(&st))
	if err != nil || id == 0 || id == want {
		return 0, err
	}
	who, err := e.laterShare(a, thing{obj: id}, since)
	if err != nil || who != 0 || kindOf(&st) != unix.S_IFDIR {
		return who, err
	}
	if *below == nil {
		if *below, err = e.foreignBelow(a); err != nil {
			return 0, err
		}
	}
	for _, t := range (*below)[id] {
		if t.last > since {
			return t.task, nil
		}
	}
	return 0, nil
}

// foreignBelow is, for every directory, what other agents' tasks that are not undone touched at any depth below it.
func (e *Engine) foreignBelow(a tasktree.Agent) (map[OID][]foreignTouch, error) {
	out := map[OID][]foreignTouch{}
	pruned, err := e.prunedThings()
	if err != nil {
		return nil, err
	}
	for _, k := range e.Tasks() {
		if k.Agent == a || e.StatusOf(k.ID) == tasktree.Undone {
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
				out[dir] = append(out[dir], foreignTouch{k.ID, k.Agent, t, s.last})
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

// refusal says whose work a move would take away.
func (c *contested) refusal(op string) error {
	var names []string
	for i, r := range c.report {
		if i == 3 {
			names = append(names, fmt.Sprintf("and %d more", len(c.report)-i))
			break
		}
		names = append(names, fmt.Sprintf("%s (%s, task %d)", r.Path, r.Agent, r.Task))
	}
	return fail(op, c.report[0].Path, Conflict, fmt.Errorf(
		"others have changed it since: %s; see .tt/conflicts; `%s skip` leaves those paths as they are, `%s force` takes them along (redo brings them back)",
		strings.Join(names, ", "), op, op))
}
