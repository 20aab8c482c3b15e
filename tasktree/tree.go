// Package tasktree is the tree of tasks and the plan of a move: pure.
//
// Every agent has one tree. Its root is task 0, before the agent's first task; a task's parent is the task that was
// active when it began. Ids are unique and rising in the whole workspace, so that an id alone names a task. One task of
// each tree is active: the chain from the root to it is what the workspace shows of this agent's work.
//
// The package decides and does nothing else: no I/O, no clock, no lock. Whoever uses it guards it and keeps what it says.
//
// A sub-agent's task hangs under the task of its parent agent that was active when it began. Taking that back takes it
// along, with all that its agent did on top of it; doing that again brings back what went along.
//
// Invariants: a parent's id is smaller than its child's, and that of the task it hangs under, too; parent and child belong
// to one agent; the active task of an agent is one of its own tasks or 0. Plans never leave a task done that hangs under
// one that is undone.
package tasktree

import (
	"fmt"
	"slices"
	"time"
)

// TaskID names a task. Units: tasks of one workspace, counted from 1; 0 is the root of every timeline.
type TaskID uint64

// Agent is a name on whose behalf a process acts.
type Agent string

// User is the human, and every process that nobody registered.
const User Agent = "user"

// Task is one unit of an agent's work.
type Task struct {
	ID, Parent TaskID
	Agent      Agent
	// Under is the task of a parent agent that this one hangs under, or of its parent where that one has none; 0: none.
	Under TaskID
	// With is the task that took this one along when it was taken back, and brings it along when it is done again: that
	// which it hangs under, or its parent; 0: none.
	With TaskID
	// Forced says that the task is a forced move, which led back to task Back: what was taken back by it is as if undone.
	Forced bool
	Back   TaskID
	// Title is one line.
	Title string
	// Auto says that the task began by itself, at a write.
	Auto bool
	// Over is the task that redo would have gone to when this one began by itself; 0: none.
	Over TaskID
	// Sealed says that the task was left by a move: it is immutable.
	Sealed bool
	// Started and Ended are for people; nothing but its age is decided by them. A zero Ended: not ended.
	Started, Ended time.Time
	// Files is the number of paths that the task changed, as counted when it was last left.
	Files int
	// Incomplete says that a before-image could not be kept (--on-store-error pass).
	Incomplete bool
	// Touched is when the task was last written to or moved, as far as that is remembered: it decides, with Started and
	// Ended, how old the task is. Pruned says that its images were given up.
	Touched time.Time
	Pruned  bool
}

// Active is when anything last happened in the task.
func (k *Task) Active() time.Time {
	at := k.Started
	for _, t := range []time.Time{k.Ended, k.Touched} {
		if t.After(at) {
			at = t
		}
	}
	return at
}

// Status is where a task stands relative to its agent's active chain.
type Status string

// The states of a task.
const (
	Current Status = "current"
	Past    Status = "past"
	Undone  Status = "undone"
)

// Kind is a reason why the tree refuses; it is an error itself.
type Kind string

// Error is the kind's own sentence.
func (k Kind) Error() string { return string(k) }

// The kinds.
const (
	NoTask      Kind = "no such task"
	AtRoot      Kind = "Already at root task"
	NothingToDo Kind = "Nothing to redo"
	OtherAgent  Kind = "the task belongs to another agent"
	Invalid     Kind = "the task does not fit the tree"
	Pruned      Kind = "its history was pruned"
	UnderUndone Kind = "it is undone, and what is to be done hangs under it: redo it first"
)

// Error is a refusal of the tree. Errors: Kind by errors.Is.
type Error struct {
	Op   string
	Task TaskID
	Kind Kind
}

func (e *Error) Error() string { return fmt.Sprintf("%s: task %d: %s", e.Op, e.Task, e.Kind) }

// Unwrap gives the kind.
func (e *Error) Unwrap() error { return e.Kind }

// Tree is the tasks of a workspace.
type Tree struct {
	tasks    map[TaskID]*Task
	children map[TaskID][]TaskID // of tasks other than 0, ascending
	roots    map[Agent][]TaskID  // children of 0 by agent, ascending
	under    map[TaskID][]TaskID // what hangs under a task, ascending
	active   map[Agent]TaskID
	// last is the child of a task that was left last: where redo goes. Key 0 is kept per agent in lastRoot.
	last     map[TaskID]TaskID
	lastRoot map[Agent]TaskID
	max      TaskID
}

// New is an empty tree.
func New() *Tree {
	return &Tree{
		tasks:    map[TaskID]*Task{},
		children: map[TaskID][]TaskID{},
		roots:    map[Agent][]TaskID{},
		under:    map[TaskID][]TaskID{},
		active:   map[Agent]TaskID{},
		last:     map[TaskID]TaskID{},
		lastRoot: map[Agent]TaskID{},
	}
}

// Next is the id that the next task will have.
func (t *Tree) Next() TaskID { return t.max + 1 }

// Reserve gives the id of a task that is about to be added; no other one gets it.
func (t *Tree) Reserve() TaskID {
	t.max++
	return t.max
}

// Release gives an id back that was reserved for a task which came to nothing, unless a later one was reserved since.
func (t *Tree) Release(id TaskID) {
	if t.max == id && t.tasks[id] == nil {
		t.max--
	}
}

// Add puts a task into the tree, as a journal tells of it. Preconditions: its parent is there, or 0.
// Errors: Invalid when the id is taken or the parent does not fit; the tree is then as before.
func (t *Tree) Add(k Task) error {
	bad := func(kind Kind) error { return &Error{Op: "add", Task: k.ID, Kind: kind} }
	if k.ID == 0 || k.Agent == "" || k.Parent >= k.ID || k.Under >= k.ID || t.tasks[k.ID] != nil {
		return bad(Invalid)
	}
	if k.Parent != 0 {
		p := t.tasks[k.Parent]
		if p == nil {
			return bad(NoTask)
		}
		if p.Agent != k.Agent {
			return bad(OtherAgent)
		}
		t.children[k.Parent] = insert(t.children[k.Parent], k.ID)
	} else {
		t.roots[k.Agent] = insert(t.roots[k.Agent], k.ID)
	}
	if k.Under != 0 {
		t.under[k.Under] = insert(t.under[k.Under], k.ID)
	}
	t.tasks[k.ID] = &k
	t.max = max(t.max, k.ID)
	return nil
}

func insert(ids []TaskID, id TaskID) []TaskID {
	at, _ := slices.BinarySearch(ids, id)
	return slices.Insert(ids, at, id)
}

// Remove takes a task out that came to nothing. This tree does not give its number again. Errors: NoTask; Invalid when it
// is active or other tasks began at it.
func (t *Tree) Remove(id TaskID) error {
	k := t.tasks[id]
	switch {
	case k == nil:
		return &Error{Op: "remove", Task: id, Kind: NoTask}
	case len(t.children[id]) > 0, t.active[k.Agent] == id:
		return &Error{Op: "remove", Task: id, Kind: Invalid}
	}
	other := func(i TaskID) bool { return i == id }
	if k.Parent == 0 {
		t.roots[k.Agent] = slices.DeleteFunc(t.roots[k.Agent], other)
		if t.lastRoot[k.Agent] == id {
			delete(t.lastRoot, k.Agent)
		}
	} else {
		t.children[k.Parent] = slices.DeleteFunc(t.children[k.Parent], other)
		if t.last[k.Parent] == id {
			delete(t.last, k.Parent)
		}
	}
	if k.Under != 0 {
		t.under[k.Under] = slices.DeleteFunc(t.under[k.Under], other)
	}
	delete(t.tasks, id)
	return nil
}

// Update replaces what is known of a task beside its place in the tree.
func (t *Tree) Update(id TaskID, change func(*Task)) (Task, error) {
	k := t.tasks[id]
	if k == nil {
		return Task{}, &Error{Op: "update", Task: id, Kind: NoTask}
	}
	was := *k
	change(k)
	k.ID, k.Parent, k.Agent, k.Under = was.ID, was.Parent, was.Agent, was.Under
	return *k, nil
}

// Get is one task; false when there is none of that id (0 is none).
func (t *Tree) Get(id TaskID) (Task, bool) {
	k := t.tasks[id]
	if k == nil {
		return Task{}, false
	}
	return *k, true
}

// All is every task, ascending by id.
func (t *Tree) All() []Task {
	all := make([]Task, 0, len(t.tasks))
	for _, k := range t.tasks {
		all = append(all, *k)
	}
	slices.SortFunc(all, func(a, b Task) int { return int(int64(a.ID) - int64(b.ID)) })
	return all
}

// Agents is every agent that has a task, sorted.
func (t *Tree) Agents() []Agent {
	names := make([]Agent, 0, len(t.roots))
	for a := range t.roots {
		names = append(names, a)
	}
	slices.Sort(names)
	return names
}

// Active is the agent's active task; 0 before its first.
func (t *Tree) Active(a Agent) TaskID { return t.active[a] }

// SetActive makes id the agent's active task and remembers, for redo, the way from every task on its chain down to it.
// It looks only at where the chain changes, so that the thousandth task begins as fast as the first.
// Errors: NoTask, OtherAgent.
func (t *Tree) SetActive(a Agent, id TaskID) error {
	if err := t.owned("activate", a, id); err != nil {
		return err
	}
	for _, k := range t.Ahead(a, id) {
		if p := t.tasks[k].Parent; p == 0 {
			t.lastRoot[a] = k
		} else {
			t.last[p] = k
		}
	}
	t.active[a] = id
	return nil
}

// Ahead are the tasks on the chain of id, id first, that are not on the chain of the agent's active task. From every
// task on that chain, the active one left out, redo goes down the chain already. Preconditions: id is the agent's, or 0.
func (t *Tree) Ahead(a Agent, id TaskID) []TaskID { return t.beyond(t.active[a], id) }

// beyond are the tasks on the chain of id, id first, that are not on the chain of at: up to where the two meet.
func (t *Tree) beyond(at, id TaskID) []TaskID {
	var ids []TaskID
	for id != 0 {
		for at > id { // a parent's id is the smaller one
			at = t.tasks[at].Parent
		}
		if at == id {
			break
		}
		ids = append(ids, id)
		id = t.tasks[id].Parent
	}
	return ids
}

// RestoreLast says which child redo goes to from a task, as a journal tells of it; parent 0 is the agent's root.
// Preconditions: the agent has no active task yet. SetActive then has the last word on its chain.
func (t *Tree) RestoreLast(a Agent, parent, child TaskID) {
	if parent == 0 {
		t.lastRoot[a] = child
		return
	}
	t.last[parent] = child
}

// Last is the child that redo goes to from the agent's task id; 0 when there is none.
func (t *Tree) Last(a Agent, id TaskID) TaskID {
	if id == 0 {
		return t.lastRoot[a]
	}
	return t.last[id]
}

// Children are the tasks that began when id was active, ascending. Of 0 they are the agent's first tasks.
func (t *Tree) Children(a Agent, id TaskID) []TaskID {
	if id == 0 {
		return slices.Clone(t.roots[a])
	}
	return slices.Clone(t.children[id])
}

// HasBranches says whether more than one task began at id.
func (t *Tree) HasBranches(id TaskID) bool { return len(t.children[id]) > 1 }

// StatusOf says where a task stands relative to its agent's active chain.
func (t *Tree) StatusOf(id TaskID) Status {
	k := t.tasks[id]
	if k == nil {
		return Undone
	}
	at := t.active[k.Agent]
	if at == id {
		return Current
	}
	for at > id {
		at = t.tasks[at].Parent
	}
	if at == id {
		return Past
	}
	return Undone
}

// Left says whether a task was taken back: it is undone, or a forced move on its own chain took it back.
func (t *Tree) Left(id TaskID) bool {
	if t.StatusOf(id) == Undone {
		return true
	}
	for at := t.active[t.tasks[id].Agent]; at > id; at = t.tasks[at].Parent {
		if k := t.tasks[at]; k.Forced && !slices.Contains(t.Chain(k.Back), id) {
			return true
		}
	}
	return false
}

// Chain is the way from the root to id, id included, 0 not.
func (t *Tree) Chain(id TaskID) []TaskID {
	var up []TaskID
	for id != 0 && t.tasks[id] != nil {
		up = append(up, id)
		id = t.tasks[id].Parent
	}
	slices.Reverse(up)
	return up
}

func (t *Tree) owned(op string, a Agent, id TaskID) error {
	if id == 0 {
		return nil
	}
	k := t.tasks[id]
	if k == nil {
		return &Error{Op: op, Task: id, Kind: NoTask}
	}
	if k.Agent != a {
		return &Error{Op: op, Task: id, Kind: OtherAgent}
	}
	return nil
}
