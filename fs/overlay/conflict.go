package overlay

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/ttfs/ttfs/tasktree"
)

// ConflictEntry is a path that a move would take from somebody else.
type ConflictEntry struct {
	Path  string
	Agent tasktree.Agent
	Task  tasktree.TaskID
	Title string
	// Started is when that task began.
	Started time.Time
	// Class is the path's. Where the task is the moved agent's own, the path is there for its class alone.
	Class Class
	// Lost says what the move would take away.
	Lost string
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
	if a == "" {
		return
	}
	if e.conflicts.last == nil || len(e.conflicts.last) > 4096 {
		e.conflicts.last = map[tasktree.Agent][]ConflictEntry{}
	}
	e.conflicts.last[a] = all
}

// contested is what a plan and somebody else's work have in common: by step's task, the things that are not to be moved.
type contested struct {
	report []ConflictEntry
	things map[tasktree.TaskID][]thing
	// foreign counts those of the report that somebody else has changed; the rest is protected.
	foreign int
}

// contest finds what others have changed since the plan's tasks did: tasks of other agents that are not undone, with a
// later share in the same thing, in an object that the plan takes away, or below a directory that it takes away. It looks
// at records alone. idle are things that the tasks only seem to have touched. Preconditions: what the plan changes is claimed.
func (e *Engine) contest(p tasktree.Plan, idle map[tasktree.TaskID][]thing) (*contested, error) {
	c := &contested{things: map[tasktree.TaskID][]thing{}}
	if e.alone() {
		return c, nil
	}
	moves := map[tasktree.TaskID]bool{}
	for _, step := range p.Steps {
		moves[step.Task] = true
	}
	q := e.searchConflicts(moves)
	defer q.close()
	for _, step := range p.Steps {
		im, err := e.readImages(step.Task)
		if err != nil {
			return nil, err
		}
		k, _ := e.Task(step.Task)
		for _, t := range im.things() {
			v, found, err := e.j.Get(t.key(step.Task))
			if err != nil {
				return nil, storeError("look for conflicts", err)
			}
			if !found || slices.Contains(idle[step.Task], t) {
				continue
			}
			mine, err := decodeShare(v)
			if err != nil {
				return nil, fail("look for conflicts", "", Damaged, err)
			}
			who, err := q.later(q.but(k, k.Agent), t, mine, im)
			if err != nil {
				return nil, err
			}
			if who != 0 {
				c.add(e, step.Task, t, who, im)
			}
		}
	}
	c.sort()
	return c, nil
}

// alone says that no more than one agent has ever had a task.
func (e *Engine) alone() bool {
	e.tasks.mu.Lock()
	defer e.tasks.mu.Unlock()
	return len(e.tasks.tree.Agents()) < 2
}

func (c *contested) sort() {
	sort.SliceStable(c.report, func(i, j int) bool { return c.report[i].Path < c.report[j].Path })
	c.report = slices.CompactFunc(c.report, func(a, b ConflictEntry) bool { return a.Path == b.Path && a.Task == b.Task })
}

// add puts a thing of a moved task into the report, since somebody else's task has changed it.
func (c *contested) add(e *Engine, task tasktree.TaskID, t thing, who tasktree.TaskID, im *images) {
	path := e.pathOfThing(t)
	class := e.classes.of(path)
	if class == Temp || gitIndex(path) {
		return
	}
	c.foreign++
	c.things[task] = append(c.things[task], t)
	k, _ := e.Task(who)
	c.report = append(c.report, ConflictEntry{Path: path, Class: class, Agent: k.Agent, Task: who, Title: k.Title, Started: k.Started, Lost: im.loses(t)})
}

// pathOfThing is where an entry is, or an object was last.
func (e *Engine) pathOfThing(t thing) string {
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
	return path
}

// loses says what of a thing is not there any more when these images are put in its place.
func (im *images) loses(t thing) string {
	switch {
	case t.obj == 0 && im.entries[t.at] == 0:
		return lostName
	case t.obj == 0:
		return lostReplaced
	case im.contents[t.obj] != nil:
		return lostContent
	}
	return lostAttributes
}

// What a move takes from a path.
const (
	lostName       = "what is at this name: it is removed"
	lostReplaced   = "what is at this name: something else takes its place"
	lostContent    = "its content since then"
	lostNothing    = "nothing: it stays, and is not what was asked for"
	lostAttributes = "its mode, owner and attributes since then"
)

// gitIndex says whether a path is git's index, which every `git status` writes anew.
func gitIndex(path string) bool {
	parts := strings.Split(path, "/")
	n := len(parts)
	return n > 1 && parts[n-2] == ".git" && (parts[n-1] == "index" || parts[n-1] == "index.lock")
}

// refusal says whose work a move would take away.
func (c *contested) refusal(op string) error { return c.refuse(op, op+" skip", op+" force") }

// refuse is refusal for a command that is told otherwise to skip or to force.
func (c *contested) refuse(op, skip, force string) error {
	var names []string
	for i, r := range c.report {
		if i == 3 {
			names = append(names, fmt.Sprintf("and %d more", len(c.report)-i))
			break
		}
		names = append(names, fmt.Sprintf("%s (%s, task %d)", r.Path, r.Agent, r.Task))
	}
	kind, why := Conflict, "others have changed it since"
	if c.foreign == 0 {
		kind, why = Protected, "an agent moves paths of the classes SYSTEM and PLATFORM by force only"
	}
	return fail(op, c.report[0].Path, kind, fmt.Errorf(
		"%s: %s; see .tt/conflicts; `%s` leaves those paths as they are, `%s` takes them along (and can be undone)",
		why, strings.Join(names, ", "), skip, force))
}

// audit is the one line that a forced or skipping move leaves in the log, beside that of every move.
func (e *Engine) audit(op string, p *tasktree.Plan, o MoveOptions, c *contested, made tasktree.TaskID) {
	by := o.By
	if by == "" {
		by = p.Agent
	}
	if o.Force {
		e.event("force agent=%s op=%s from=%d to=%d paths=%d task=%d by=%s", p.Agent, op, p.From, p.To, len(c.report), made, by)
		return
	}
	e.event("skip agent=%s op=%s from=%d to=%d paths=%d by=%s", p.Agent, op, p.From, p.To, len(c.report), by)
}
