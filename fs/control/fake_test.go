package control

import (
	"fmt"
	"io"
	"time"

	"github.com/ttfs/ttfs/tasktree"
)

// fake is a backend in memory: an agent's moves change its active task, and nothing else.
type fake struct {
	Refusals
	tasks  []tasktree.Task
	active map[tasktree.Agent]tasktree.TaskID
	agents []AgentInfo
	// fail is what every change returns; calls are those that were made.
	fail  error
	calls []string
}

// day is when everything happens.
var day = time.Date(2026, 1, 2, 3, 4, 5, 678000000, time.FixedZone("", 3600))

// newFake is a workspace: the user's 1 to 4, of which 3 was undone and 4 branches off 2; sub-agent kid of main has 6
// under main's 5.
func newFake() *fake {
	at := func(n int) time.Time { return day.Add(time.Duration(n) * time.Minute) }
	return &fake{
		tasks: []tasktree.Task{
			{ID: 1, Agent: "user", Title: "first", Started: at(1), Ended: at(2), Files: 2, Sealed: true},
			{ID: 2, Parent: 1, Agent: "user", Title: "second ünïcode", Started: at(2), Ended: at(3), Files: 1, Sealed: true},
			{ID: 3, Parent: 2, Agent: "user", Title: "undone", Started: at(3), Ended: at(4), Sealed: true},
			{ID: 4, Parent: 2, Agent: "user", Auto: true, Started: at(4)},
			{ID: 5, Agent: "main", Title: "<b>&\"quoted\"", Started: at(5)},
			{ID: 6, Agent: "kid", Under: 5, Title: "kid's", Started: at(6)},
		},
		active: map[tasktree.Agent]tasktree.TaskID{"user": 4, "main": 5, "kid": 6},
		agents: []AgentInfo{{Name: "idle"}, {Name: "kid", Parent: "main"}, {Name: "main"}, {Name: "user"}},
	}
}

func (f *fake) call(format string, args ...any) error {
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
	return f.fail
}

func (f *fake) BeginTask(a tasktree.Agent, title string) (tasktree.TaskID, error) {
	if err := f.call("task %s %q", a, title); err != nil {
		return 0, err
	}
	id := tasktree.TaskID(len(f.tasks) + 1)
	f.tasks = append(f.tasks, tasktree.Task{ID: id, Parent: f.active[a], Agent: a, Title: title, Started: day})
	f.active[a] = id
	return id, nil
}

func (f *fake) move(a tasktree.Agent, to tasktree.TaskID, err error) (Moved, error) {
	if err != nil {
		return Moved{}, err
	}
	m := Moved{From: f.active[a], To: to, Paths: []Change{{"delete", "a"}, {"modify", "b\nc"}}}
	f.active[a] = to
	return m, nil
}

func (f *fake) Undo(a tasktree.Agent, m Move) (Moved, error) {
	t, ok := f.Task(f.active[a])
	if !ok && f.fail == nil {
		return Moved{}, &Error{Kind: AtRoot}
	}
	return f.move(a, t.Parent, f.call("undo %s %+v", a, m))
}

func (f *fake) Redo(a tasktree.Agent, m Move) (Moved, error) {
	return f.move(a, f.active[a], f.call("redo %s %+v", a, m))
}

func (f *fake) Switch(a tasktree.Agent, id tasktree.TaskID, m Move) (Moved, error) {
	return f.move(a, id, f.call("switch %s %d %+v", a, id, m))
}

func (f *fake) Tasks() []tasktree.Task                  { return f.tasks }
func (f *fake) Active(a tasktree.Agent) tasktree.TaskID { return f.active[a] }

func (f *fake) Task(id tasktree.TaskID) (tasktree.Task, bool) {
	for _, t := range f.tasks {
		if t.ID == id {
			return t, true
		}
	}
	return tasktree.Task{}, false
}

func (f *fake) StatusOf(id tasktree.TaskID) tasktree.Status {
	t, _ := f.Task(id)
	at := f.active[t.Agent]
	if at == id {
		return tasktree.Current
	}
	for at != 0 {
		t, _ := f.Task(at)
		if at = t.Parent; at == id {
			return tasktree.Past
		}
	}
	return tasktree.Undone
}

func (f *fake) Children(id tasktree.TaskID) []tasktree.TaskID {
	var ids []tasktree.TaskID
	for _, t := range f.tasks {
		if t.Parent == id {
			ids = append(ids, t.ID)
		}
	}
	return ids
}

func (f *fake) HasBranches(id tasktree.TaskID) bool { return len(f.Children(id)) > 1 }

func (f *fake) Files(id tasktree.TaskID) ([]Change, error) {
	return []Change{{"created", "a b"}, {"deleted", "new\nline"}, {"modified", "x/\xffy"}}, f.fail
}

func (f *fake) Preview(a tasktree.Agent, id tasktree.TaskID) ([]Change, error) {
	return []Change{{"create", fmt.Sprintf("%s/%d", a, id)}}, f.fail
}

func (f *fake) DiffTask(w io.Writer, id tasktree.TaskID) error {
	fmt.Fprintf(w, "--- a\n+++ b %d\n", id)
	return f.fail
}

func (f *fake) Before(id tasktree.TaskID) (any, error) { return fmt.Sprintf("before %d", id), f.fail }

func (f *fake) At(a tasktree.Agent, id tasktree.TaskID) (any, error) {
	return fmt.Sprintf("at %d of %s", id, a), f.fail
}

func (f *fake) Log() (any, error)   { return "log", f.fail }
func (f *fake) Agents() []AgentInfo { return f.agents }
func (f *fake) Metrics(w io.Writer) { fmt.Fprintln(w, "ttfs_tasks 6") }

func (f *fake) PIDs(a tasktree.Agent) []int {
	return map[tasktree.Agent][]int{"kid": {12, 300}, "main": {10}}[a]
}

func (f *fake) Info() Info {
	return Info{PID: 4711, Mount: "/home/me/work", Store: "/home/me/work/.tt", Transport: "classic", Guard: "on"}
}

func (f *fake) Register(by Caller, r Registration) error { return f.call("agent %+v %+v", by, r) }
func (f *fake) End(by Caller, a tasktree.Agent) error    { return f.call("end %+v %s", by, a) }

// whole has the optional interfaces too.
type whole struct{ *fake }

func (f whole) Revert(a tasktree.Agent, id tasktree.TaskID, m Move) (Moved, error) {
	return f.move(a, id, f.call("revert %s %d %+v", a, id, m))
}

func (f whole) Restore(a tasktree.Agent, id tasktree.TaskID, path string, m Move) (Moved, error) {
	return f.move(a, id, f.call("restore %s %d %q %+v", a, id, path, m))
}

func (f whole) Fork(by Caller, name tasktree.Agent, at *tasktree.TaskID) error {
	return f.call("fork %s %s %v", by.Agent, name, at != nil)
}

func (f whole) Merge(by Caller, name tasktree.Agent, how Merging) (Moved, error) {
	return f.move(by.Agent, 7, f.call("merge %s %s %+v", by.Agent, name, how))
}

func (f whole) Discard(by Caller, name tasktree.Agent, force bool) error {
	return f.call("discard %s %s %v", by.Agent, name, force)
}

func (f whole) SetGuard(by Caller, on bool) error { return f.call("guard %s %v", by.Agent, on) }
func (f whole) Prune(by Caller, r PruneRequest) (PruneReply, error) {
	return PruneReply{Tasks: []tasktree.TaskID{1, 3}, Before: 20, After: 10}, f.call("prune %s %+v", by.Agent, r)
}
func (f whole) Isolates(mode string) bool { return mode == "ro" }
