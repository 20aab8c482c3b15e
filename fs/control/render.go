package control

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/ttfs/ttfs/tasktree"
)

// line ends a text with a newline; nothing stays nothing.
func line(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s + "\n")
}

// lines writes changes, one a line.
func lines(changes []Change) string {
	var s strings.Builder
	for _, c := range changes {
		fmt.Fprintf(&s, "%s %s\n", c.Op, Quote(c.Path))
	}
	return s.String()
}

// status is `.tt/status.json`; the fields are also the keys of `.tt/status`, in this order.
type status struct {
	PID       int             `json:"pid"`
	Mount     string          `json:"mount"`
	Transport string          `json:"transport"`
	Store     string          `json:"store"`
	Guard     string          `json:"guard"`
	Agent     tasktree.Agent  `json:"agent"`
	Task      tasktree.TaskID `json:"task"`
	Fork      string          `json:"fork,omitempty"`
}

func statusOf(b Backend, c Caller) status {
	i := b.Info()
	return status{PID: i.PID, Mount: i.Mount, Transport: i.Transport, Store: i.Store, Guard: i.Guard, Agent: c.Agent, Task: b.Active(c.Agent), Fork: i.Fork}
}

func statusText(b Backend, c Caller) []byte {
	s := statusOf(b, c)
	text := fmt.Appendf(nil, "pid=%d\nmount=%s\ntransport=%s\nstore=%s\nguard=%s\nagent=%s\ntask=%d\n",
		s.PID, Quote(s.Mount), s.Transport, Quote(s.Store), s.Guard, s.Agent, s.Task)
	if s.Fork != "" {
		text = append(text, "fork="+s.Fork+"\n"...)
	}
	return text
}

func statusJSON(b Backend, c Caller) ([]byte, error) { return encode(statusOf(b, c)) }

func whyJSON(b Backend, c Caller) ([]byte, error) {
	return encode(struct {
		Agent tasktree.Agent `json:"agent"`
		Why   string         `json:"why"`
	}{c.Agent, b.Why(c.Agent)})
}

// encode is JSON, indented, with a newline at its end.
func encode(v any) ([]byte, error) {
	var w bytes.Buffer
	e := json.NewEncoder(&w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return w.Bytes(), err
}

// own are the agent's tasks, ascending ids.
func own(b Backend, a tasktree.Agent) []tasktree.Task {
	var all []tasktree.Task
	for _, t := range b.Tasks() {
		if t.Agent == a {
			all = append(all, t)
		}
	}
	return all
}

// listText is an agent's timeline. Shape of a line: the mark (→ current, ↯ undone, else a blank), the number, ⎇ when
// more than one task was begun after it, the title, (pruned) when nothing of it is kept, (incomplete) when not all of it is.
func listText(b Backend, a tasktree.Agent) []byte {
	var s []byte
	status := statuses(b, a)
	for _, t := range own(b, a) {
		s = fmt.Appendf(s, "%s %d", mark(status(t.ID)), t.ID)
		if b.HasBranches(t.ID) {
			s = append(s, " ⎇"...)
		}
		if t.Title != "" {
			s = append(s, " "+t.Title...)
		}
		if t.Pruned {
			s = append(s, " (pruned)"...)
		} else if t.Incomplete {
			s = append(s, " (incomplete)"...)
		}
		s = append(s, '\n')
	}
	return s
}

// mark is how a task's status is shown.
func mark(s tasktree.Status) string {
	switch s {
	case tasktree.Current:
		return "→"
	case tasktree.Undone:
		return "↯"
	}
	return " "
}

// listed is one task in list.json. Fields are added, never renamed.
type listed struct {
	ID          tasktree.TaskID `json:"id"`
	Parent      tasktree.TaskID `json:"parent"`
	Agent       tasktree.Agent  `json:"agent"`
	Under       tasktree.TaskID `json:"under"`
	Title       string          `json:"title"`
	Status      tasktree.Status `json:"status"`
	HasBranches bool            `json:"has_branches"`
	// Started and Ended are RFC 3339, UTC; null when they are not known or not yet.
	Started *time.Time `json:"started"`
	Ended   *time.Time `json:"ended"`
	Files   int        `json:"files"`
	// Pruned says that what the task changed is not kept any more.
	Pruned bool `json:"pruned,omitempty"`
	// Incomplete says that some of what it changed could not be kept: undoing it leaves that as it is.
	Incomplete bool `json:"incomplete,omitempty"`
	// Written is when it was last written to, as far as that is known.
	Written *time.Time `json:"written,omitempty"`
}

func listJSON(b Backend, a tasktree.Agent) ([]byte, error) {
	all := []listed{}
	status := statuses(b, a)
	for _, t := range own(b, a) {
		all = append(all, listed{
			ID: t.ID, Parent: t.Parent, Agent: t.Agent, Under: t.Under, Title: t.Title,
			Status: status(t.ID), HasBranches: b.HasBranches(t.ID),
			Started: moment(t.Started), Ended: moment(t.Ended), Files: fileCount(b, t), Pruned: t.Pruned, Incomplete: t.Incomplete,
			Written: moment(t.Touched),
		})
	}
	return encode(all)
}

// statuses tells where each of an agent's tasks stands, of a backend that knows of all at once for the cost of one.
func statuses(b Backend, a tasktree.Agent) func(tasktree.TaskID) tasktree.Status {
	all, ok := b.(interface {
		Statuses(tasktree.Agent) map[tasktree.TaskID]tasktree.Status
	})
	if !ok {
		return b.StatusOf
	}
	known := all.Statuses(a)
	return func(id tasktree.TaskID) tasktree.Status {
		if s, has := known[id]; has {
			return s
		}
		return b.StatusOf(id) // it began since
	}
}

// fileCount is the number of paths that a task changed, asked of a backend that counts them when they are asked for.
func fileCount(b Backend, t tasktree.Task) int {
	if c, ok := b.(Counter); ok {
		return c.FileCount(t)
	}
	return t.Files
}

// moment is nil for the zero time.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
