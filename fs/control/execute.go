package control

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ttfs/ttfs/tasktree"
)

// Execute runs a command. The reply begins with `ok`; a move's goes on with the task that is active now, then the task
// before, the number of paths, and the paths, a line each. Errors: any Kind, with a sentence for `.tt/why`.
func Execute(c Command, by Caller, b Backend) (string, error) {
	switch c.Verb {
	case Task:
		id, err := b.BeginTask(by.Agent, c.Title)
		if err != nil {
			return "", wrap(c, err)
		}
		return fmt.Sprintf("ok %d\n", id), nil
	case Undo, Redo, Switch, Revert, Restore:
		return move(c, by, b)
	case Agent, End:
		return register(c, by, b)
	case Fork, Merge, Discard:
		return fork(c, by, b)
	case Guard:
		g, ok := b.(Guarder)
		if !ok {
			return "", unsupported(c)
		}
		if err := g.SetGuard(by, c.On); err != nil {
			return "", wrap(c, err)
		}
		return "ok\n", nil
	case Prune:
		return prune(c, by, b)
	}
	return "", refuse(string(c.Verb), "unknown command; "+known())
}

// move runs what changes paths.
func move(c Command, by Caller, b Backend) (string, error) {
	who := by.Agent
	if c.Agent != "" {
		if err := mayMove(by.Agent, c.Agent, b); err != nil {
			return "", wrap(c, err)
		}
		who = c.Agent
	}
	if c.Verb == Switch && c.ID != 0 || c.Verb == Revert || c.Verb == Restore && c.ID != 0 {
		if err := ownTask(c, who, b); err != nil {
			return "", err
		}
	}
	var m Moved
	var err error
	how := Move{By: by.Agent, Force: c.Force, Skip: c.Skip}
	switch c.Verb {
	case Undo:
		m, err = b.Undo(who, how)
	case Redo:
		m, err = b.Redo(who, how)
	case Switch:
		m, err = b.Switch(who, c.ID, how)
	case Revert:
		r, ok := b.(Reverter)
		if !ok {
			return "", unsupported(c)
		}
		m, err = r.Revert(who, c.ID, how)
	case Restore:
		r, ok := b.(Restorer)
		if !ok {
			return "", unsupported(c)
		}
		m, err = r.Restore(who, c.ID, c.Path, how)
	}
	if err != nil {
		return "", wrap(c, err)
	}
	return reply(m), nil
}

// ownTask refuses a task that is not there, and another agent's where a move needs one's own.
func ownTask(c Command, who tasktree.Agent, b Backend) error {
	t, ok := b.Task(c.ID)
	if !ok {
		return wrap(c, &Error{Kind: NoTask, Detail: "see .tt/tasks/list for those that exist"})
	}
	if c.Verb != Restore && t.Agent != who {
		return wrap(c, &Error{Kind: NotYours, Detail: fmt.Sprintf(
			"task %d is %s's; your own are in .tt/tasks/list, and agent=%s moves that agent if it is your sub-agent", t.ID, t.Agent, t.Agent)})
	}
	return nil
}

// mayMove is the rule that an agent moves itself and its descendants, and the user anybody.
func mayMove(by, who tasktree.Agent, b Backend) error {
	parents := map[tasktree.Agent]tasktree.Agent{}
	for _, a := range b.Agents() {
		parents[a.Name] = a.Parent
	}
	if _, ok := parents[who]; !ok && who != by {
		return &Error{Kind: NoAgent, Detail: "see .tt/agents for those that exist"}
	}
	if by == tasktree.User || by == who {
		return nil
	}
	for a, n := parents[who], 0; a != "" && n <= len(parents); a, n = parents[a], n+1 {
		if a == by {
			return nil
		}
	}
	return &Error{Kind: NotYours, Detail: "an agent moves itself and its sub-agents; ask the user to do it"}
}

// register runs agent and end.
func register(c Command, by Caller, b Backend) (string, error) {
	if c.Verb == End {
		name := c.Name
		if name == "" {
			name = by.Agent
		}
		if name == tasktree.User {
			return "", wrap(c, &Error{Kind: Invalid, Detail: "the user has no end; name an agent"})
		}
		if err := mayMove(by.Agent, name, b); err != nil {
			return "", wrap(c, err)
		}
		if err := b.End(by, name); err != nil {
			return "", wrap(c, err)
		}
		return "ok\n", nil
	}
	if c.Isolation != "" && c.Isolation != "none" {
		if i, ok := b.(Isolator); !ok || !i.Isolates(c.Isolation) {
			return "", unsupported(c)
		}
	}
	if c.Parent != "" && c.Parent != tasktree.User && !exists(c.Parent, b) {
		return "", wrap(c, &Error{Kind: NoAgent, Detail: fmt.Sprintf("the parent %s is not there; register it first", c.Parent)})
	}
	pid := c.PID
	if pid == 0 {
		pid = by.PID
	}
	if pid == 0 {
		return "", wrap(c, &Error{Kind: Invalid, Detail: "your process is in another pid namespace; give its number with pid=, or set TTFS_AGENT"})
	}
	r := Registration{Name: c.Name, Parent: c.Parent, Isolation: c.Isolation, PID: pid}
	if err := b.Register(by, r); err != nil {
		return "", wrap(c, err)
	}
	return fmt.Sprintf("ok %s\n", c.Name), nil
}

// exists says whether the workspace knows the agent.
func exists(a tasktree.Agent, b Backend) bool {
	for _, i := range b.Agents() {
		if i.Name == a {
			return true
		}
	}
	return false
}

// fork runs fork, merge and discard.
func fork(c Command, by Caller, b Backend) (string, error) {
	f, ok := b.(Forker)
	if !ok {
		return "", unsupported(c)
	}
	var err error
	switch c.Verb {
	case Fork:
		err = f.Fork(by, c.Name, c.At)
	case Merge:
		var m Moved
		if m, err = f.Merge(by, c.Name, Merging{Strict: c.Strict, Prefer: c.Prefer, DryRun: c.DryRun}); err == nil {
			return reply(m), nil
		}
	case Discard:
		err = f.Discard(by, c.Name, c.Force)
	}
	if err != nil {
		return "", wrap(c, err)
	}
	return "ok\n", nil
}

// reply is that of a move.
func reply(m Moved) string {
	var s strings.Builder
	fmt.Fprintf(&s, "ok %d\nfrom %d\nchanged %d\n", m.To, m.From, len(m.Paths))
	s.WriteString(lines(m.Paths))
	return s.String()
}

// unsupported is for commands that the backend does not have.
func unsupported(c Command) error {
	return wrap(c, &Error{Kind: Unsupported, Detail: "this version of ttfs understands the command but cannot do it; see .tt/README for what it can"})
}

// wrap gives an error the command that it is about, and a kind if it has none. One of this package stays one.
func wrap(c Command, err error) error {
	op, what := string(c.Verb), ""
	switch {
	case c.Verb == Switch || c.Verb == Revert || c.Verb == Restore:
		what = fmt.Sprint(c.ID)
	case c.Name != "":
		what = string(c.Name)
	}
	if e, ok := err.(*Error); ok {
		named := *e
		if named.Op == "" {
			named.Op, named.What = op, what
		}
		return &named
	}
	return &Error{Op: op, What: what, Kind: kindOf(err), Err: err}
}

// kindOf is the kind that an error holds, Failed for none.
func kindOf(err error) Kind {
	for _, e := range errnos {
		if errors.Is(err, e.kind) {
			return e.kind
		}
	}
	return Failed
}
