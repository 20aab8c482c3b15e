package overlay

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ttfs/ttfs/journal"
	"github.com/ttfs/ttfs/tasktree"
)

// autoPause is after how long without writes the next write of an agent that never began a task begins one by itself.
const autoPause = 60 * time.Second

// autoTitle is the title of a task that began by itself.
const autoTitle = "automatic"

// taskTable is the tree, and what each task that can still be written to has touched.
type taskTable struct {
	// turn is held by who changes on whose sub-agent an agent is, or what was kept of files that are open across a move, and
	// records that, for as long as this takes; and by who begins a task that depends on either. A move takes it for its plan.
	turn sync.Mutex
	// mu is for what is in memory, for which everybody asks with every change.
	mu       sync.Mutex
	tree     *tasktree.Tree                    // +checklocks:mu
	runs     map[tasktree.TaskID]*run          // +checklocks:mu
	explicit map[tasktree.Agent]bool           // +checklocks:mu began a task itself
	written  map[tasktree.Agent]time.Time      // +checklocks:mu
	parents  map[tasktree.Agent]tasktree.Agent // +checklocks:mu
	// heading is where the agents of moves under way are before and after them, however they end: a task that they have then,
	// too.
	heading map[tasktree.Agent]tasktree.TaskID // +checklocks:mu
	ended   []*run                             // +checklocks:mu of which there may still be owners
}

// endRun forgets what a task has touched, which is not written to any more; forgetRuns does the rest.
//
// +checklocks:t.mu
func (t *taskTable) endRun(id tasktree.TaskID) {
	if r := t.runs[id]; r != nil {
		delete(t.runs, id)
		t.ended = append(t.ended, r)
	}
}

// forgetRuns takes what tasks own that are not under way any more out of the table of owners, which lasts as long as they
// touched much. Preconditions: tasks.mu is not held.
func (e *Engine) forgetRuns() {
	e.tasks.mu.Lock()
	ended := e.tasks.ended
	e.tasks.ended = nil
	e.tasks.mu.Unlock()
	e.owners.forget(ended)
}

// run is what the active task of an agent has touched: a touch is recorded once.
type run struct {
	id    tasktree.TaskID
	agent tasktree.Agent

	mu       sync.Mutex
	entries  map[OID]map[string]struct{} // +checklocks:mu
	metas    map[OID]struct{}            // +checklocks:mu
	contents map[OID]*covered            // +checklocks:mu
	// shared has what the task has touched since it is known here.
	shared map[thing]struct{} // +checklocks:mu
	// whole says that the task began here: what shared has not, it never touched.
	whole bool
}

func newRun(id tasktree.TaskID, a tasktree.Agent) *run {
	return &run{id: id, agent: a, entries: map[OID]map[string]struct{}{}, metas: map[OID]struct{}{}, contents: map[OID]*covered{}}
}

func (r *run) hasEntry(d OID, name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, has := r.entries[d][name]
	return has
}

func (r *run) markEntry(d OID, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries[d] == nil {
		r.entries[d] = map[string]struct{}{}
	}
	r.entries[d][name] = struct{}{}
}

func (r *run) hasMeta(o OID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, has := r.metas[o]
	return has
}

func (r *run) markMeta(o OID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.metas[o] = struct{}{}
}

// coverage of an object's content; nil before its first touch. The caller holds the node's mu.
func (r *run) coverage(o OID) *covered {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.contents[o]
}

func (r *run) setCoverage(o OID, c *covered) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.contents[o] = c
}

func encodeTask(k *tasktree.Task) []byte {
	var e enc
	e.u(uint64(k.Parent))
	e.s(string(k.Agent))
	e.u(uint64(k.Under))
	e.s(k.Title)
	e.flag(k.Auto)
	e.flag(k.Sealed)
	e.flag(k.Incomplete)
	e.i(stamp(k.Started))
	e.i(stamp(k.Ended))
	e.u(uint64(k.Files))
	e.u(uint64(k.Over))
	e.i(stamp(k.Touched))
	e.flag(k.Pruned)
	e.u(uint64(k.With))
	e.flag(k.Forced)
	e.u(uint64(k.Back))
	return e.b
}

func stamp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func unstamp(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

func decodeTask(id tasktree.TaskID, b []byte) (tasktree.Task, error) {
	d := dec{b: b}
	k := tasktree.Task{ID: id, Parent: tasktree.TaskID(d.u()), Agent: tasktree.Agent(d.s()), Under: tasktree.TaskID(d.u()), Title: d.s()}
	k.Auto, k.Sealed, k.Incomplete = d.flag(), d.flag(), d.flag()
	k.Started, k.Ended, k.Files = unstamp(d.i()), unstamp(d.i()), int(d.u())
	k.Over = tasktree.TaskID(d.u())
	if d.err == nil && len(d.b) > 0 { // older records end here
		k.Touched, k.Pruned = unstamp(d.i()), d.flag()
	}
	if d.err == nil && len(d.b) > 0 {
		k.With, k.Forced, k.Back = tasktree.TaskID(d.u()), d.flag(), tasktree.TaskID(d.u())
	}
	return k, d.err
}

func (e *Engine) loadTasks() error {
	t := &e.tasks
	t.tree, t.runs = tasktree.New(), map[tasktree.TaskID]*run{}
	t.explicit, t.written, t.parents = map[tasktree.Agent]bool{}, map[tasktree.Agent]time.Time{}, map[tasktree.Agent]tasktree.Agent{}
	t.heading = map[tasktree.Agent]tasktree.TaskID{}
	err := e.j.Scan([]byte{kTask}, func(k, v []byte) error {
		task, err := decodeTask(tasktree.TaskID(keyNum(k, 0)), v)
		if err != nil {
			return err
		}
		if task.Pruned {
			e.pruned.Store(task.ID, struct{}{})
		}
		if !task.Auto {
			t.explicit[task.Agent] = true
		}
		return t.tree.Add(task)
	})
	if err != nil {
		return fail("open", "the tasks", Damaged, err)
	}
	if err := e.loadParents(); err != nil {
		return err
	}
	err = e.j.Scan([]byte{kLast}, func(k, v []byte) error {
		d := dec{b: v}
		child := tasktree.TaskID(d.u())
		if len(k) >= 9 && d.err == nil {
			t.tree.RestoreLast(tasktree.Agent(k[9:]), tasktree.TaskID(keyNum(k, 0)), child)
		}
		return d.err
	})
	if err != nil {
		return storeError("open", err)
	}
	err = e.j.Scan([]byte{kActive}, func(k, v []byte) error {
		d := dec{b: v}
		id := tasktree.TaskID(d.u())
		if d.err != nil {
			return d.err
		}
		return t.tree.SetActive(tasktree.Agent(k[1:]), id)
	})
	if err != nil {
		return fail("open", "the active tasks", Damaged, err)
	}
	return nil
}

// putActive writes an agent's active task and, for redo, the last step of the way to it.
func putActive(b *journal.Batch, tree *tasktree.Tree, a tasktree.Agent, id tasktree.TaskID) {
	var v enc
	v.u(uint64(id))
	b.Put(append([]byte{kActive}, a...), v.b)
	for _, id := range tree.Ahead(a, id) {
		k, _ := tree.Get(id)
		var c enc
		c.u(uint64(id))
		if tree.Last(a, k.Parent) != id {
			b.Put(append(key(kLast, uint64(k.Parent)), a...), c.b)
		}
	}
}

// enter is the run in which the caller's change is recorded: that of its agent's active task, which begins by itself
// where none can be written to. Errors: Fenced; what the journal says. Preconditions: the agent's changes are let in by
// enterOn, or its agent is claimed.
func (e *Engine) enter(c Caller) (*run, error) {
	if e.closed.Load() {
		return nil, fail("change", "", Closed, nil)
	}
	if e.opt.ReadOnly {
		return nil, fail("change", "", ReadOnly, nil)
	}
	if broken := e.broken.Load(); broken != nil {
		return nil, fail("change", "", IO, fmt.Errorf("a move could not be ended; unmount and mount again: %w", *broken))
	}
	if err := e.MayChange("change", c.Agent); err != nil {
		return nil, err
	}
	r, err := e.entered(c)
	if r == nil && err == nil {
		r, err = e.enterNew(c)
	}
	if errors.Is(err, Fenced) {
		e.event("refused op=change agent=%s task=%d decision=fenced", c.Agent, c.Entered)
	}
	return r, err
}

// enterNew is entered where a task is to begin, unless one has begun meanwhile.
func (e *Engine) enterNew(c Caller) (r *run, err error) {
	var begun *run
	defer func() { e.began(begun, true) }()
	e.tasks.turn.Lock()
	defer e.tasks.turn.Unlock()
	if r, err = e.entered(c); r == nil && err == nil {
		begun, err = e.beginTask(c.Agent, autoTitle, true, true)
		r = begun
	}
	return r, err
}

// entered is the run for a caller's change; nil: none can be written to, and a task is to begin. Errors: as of enter.
func (e *Engine) entered(c Caller) (*run, error) {
	t := &e.tasks
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.Entered != 0 && t.tree.Left(c.Entered) {
		if k, has := t.tree.Get(c.Entered); has && k.Agent == c.Agent {
			return nil, fail("change", fmt.Sprintf("task %d", c.Entered), Fenced, nil)
		}
	}
	id := t.tree.Active(c.Agent)
	k, has := t.tree.Get(id)
	if !has || k.Sealed {
		return nil, nil
	}
	now, last := e.clock(), t.written[c.Agent]
	if k.Auto && !t.explicit[c.Agent] && !last.IsZero() && now.Sub(last) > autoPause &&
		len(e.writers.of(c.Agent)) == 0 { // what they write would have no image in a new task
		return nil, nil
	}
	t.written[c.Agent] = now
	return e.runLocked(id, c.Agent)
}

// activeRun is the run in which a change of an agent's would be recorded now; nil when a task would begin for it.
func (e *Engine) activeRun(a tasktree.Agent) *run {
	e.tasks.mu.Lock()
	defer e.tasks.mu.Unlock()
	id := e.tasks.tree.Active(a)
	if k, has := e.tasks.tree.Get(id); !has || k.Sealed {
		return nil
	}
	return e.tasks.runs[id]
}

// runLocked is the run of a task, read from the journal when the task is older than this engine.
func (e *Engine) runLocked(id tasktree.TaskID, a tasktree.Agent) (*run, error) {
	t := &e.tasks
	if r := t.runs[id]; r != nil {
		return r, nil
	}
	r, err := e.readRun(id, a)
	if err != nil {
		return nil, err
	}
	t.runs[id] = r
	return r, nil
}

// readRun makes a run of the images that are stored of it.
func (e *Engine) readRun(id tasktree.TaskID, a tasktree.Agent) (*run, error) {
	r := newRun(id, a)
	im, err := e.readImages(id)
	if err != nil {
		return nil, err
	}
	for s := range im.entries {
		r.markEntry(s.dir, s.name)
	}
	r.has(im)
	return r, nil
}
