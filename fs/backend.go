package fs

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"syscall"

	"github.com/ttfs/ttfs/fs/control"
	"github.com/ttfs/ttfs/fs/identity"
	"github.com/ttfs/ttfs/fs/overlay"
	"github.com/ttfs/ttfs/fs/transport"
	"github.com/ttfs/ttfs/tasktree"
)

// backend is the engine as the files below `.tt` see it.
type backend struct {
	*overlay.Engine
	f                 *face
	sp                *space
	*control.Refusals // of all spaces: an agent has one
	ids               *identity.Resolver
	info              control.Info
	log               *eventLog
	limits            limits
	checks            *checks // of `.tt/fsck`, of all spaces; ended before the engine is closed
	// logger is the daemon's own log.
	logger *slog.Logger
	// conn is how requests come; set before the first does. The backends of a mount share it.
	conn *link
}

// link is the connection of a mount, once there is one.
type link struct{ conn *transport.Conn }

func (l *link) kind() transport.Kind {
	if l == nil || l.conn == nil {
		return transport.Classic
	}
	return l.conn.Kind()
}

func (l *link) metrics(w io.Writer) {
	if l == nil || l.conn == nil {
		return
	}
	fmt.Fprint(w, "# HELP ttfs_requests_total Requests of the kernel, by operation.\n# TYPE ttfs_requests_total counter\n")
	counts := l.conn.Requests()
	for _, op := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(w, "ttfs_requests_total{op=%q} %d\n", op, counts[op])
	}
	fmt.Fprintf(w, "# HELP ttfs_ring_threads Threads that serve rings.\n# TYPE ttfs_ring_threads gauge\nttfs_ring_threads %d\n", l.conn.Threads())
}

var _ control.Backend = (*backend)(nil)

// BeginTask begins a task.
func (b *backend) BeginTask(a tasktree.Agent, title string) (tasktree.TaskID, error) {
	id, err := b.Engine.BeginTask(a, title)
	if err == nil {
		b.ids.Activated(a, id)
	}
	return id, controlError("task", err)
}

func (b *backend) moved(op string, a tasktree.Agent, r overlay.MoveResult, err error) (control.Moved, error) {
	if err != nil {
		return control.Moved{}, controlError(op, err)
	}
	b.ids.Activated(a, r.To)
	for _, l := range r.Along {
		b.ids.Activated(l.Agent, l.To)
	}
	return control.Moved{From: r.From, To: r.To, Paths: changes(r.Paths)}, nil
}

func changes(all []overlay.Change) []control.Change {
	out := make([]control.Change, len(all))
	for i, c := range all {
		out[i] = control.Change{Op: c.Op, Path: c.Path}
	}
	return out
}

func options(m control.Move) overlay.MoveOptions {
	return overlay.MoveOptions{Force: m.Force, Skip: m.Skip, By: m.By, Protect: m.By != tasktree.User}
}

// Conflicts are why the agent's last move was refused.
func (b *backend) Conflicts(a tasktree.Agent) []control.ConflictEntry {
	return conflicts(b.Engine.ConflictsOf(a))
}

func conflicts(all []overlay.ConflictEntry) []control.ConflictEntry {
	var out []control.ConflictEntry
	for _, c := range all {
		out = append(out, control.ConflictEntry{Path: c.Path, Agent: string(c.Agent), Task: uint64(c.Task), Title: c.Title, Started: c.Started,
			Class: string(c.Class), Lost: c.Lost})
	}
	return out
}

// mayMove says whether one agent may move another: itself, its descendants, and the user everybody; but nobody who may not
// change this tree.
func (b *backend) mayMove(op string, by, a tasktree.Agent) error {
	if err := b.Engine.MayChange(op, by); err != nil {
		return controlError(op, err)
	}
	if by == a || by == tasktree.User || b.below(a, by) {
		return nil
	}
	return &control.Error{Op: op, What: string(a), Kind: control.NotYours, Detail: "an agent may move itself and its sub-agents"}
}

// Undo goes to the parent of the agent's active task.
func (b *backend) Undo(a tasktree.Agent, m control.Move) (control.Moved, error) {
	if err := b.mayMove("undo", m.By, a); err != nil {
		return control.Moved{}, err
	}
	r, err := b.Engine.Undo(a, options(m))
	return b.moved("undo", a, r, err)
}

// Redo goes to the child that was left last.
func (b *backend) Redo(a tasktree.Agent, m control.Move) (control.Moved, error) {
	if err := b.mayMove("redo", m.By, a); err != nil {
		return control.Moved{}, err
	}
	r, err := b.Engine.Redo(a, options(m))
	return b.moved("redo", a, r, err)
}

// Switch goes to a task.
func (b *backend) Switch(a tasktree.Agent, id tasktree.TaskID, m control.Move) (control.Moved, error) {
	if err := b.mayMove("switch", m.By, a); err != nil {
		return control.Moved{}, err
	}
	r, err := b.Engine.Switch(a, id, options(m))
	return b.moved("switch", a, r, err)
}

// Revert takes one task back, as a new one.
func (b *backend) Revert(a tasktree.Agent, id tasktree.TaskID, m control.Move) (control.Moved, error) {
	if err := b.mayMove("revert", m.By, a); err != nil {
		return control.Moved{}, err
	}
	r, err := b.Engine.Revert(a, id, options(m))
	return b.moved("revert", a, r, err)
}

// Restore brings a path back as it was at the end of a task, as a new task.
func (b *backend) Restore(a tasktree.Agent, id tasktree.TaskID, path string, m control.Move) (control.Moved, error) {
	if err := b.mayMove("restore", m.By, a); err != nil {
		return control.Moved{}, err
	}
	r, err := b.Engine.Restore(a, id, []string{path}, options(m))
	return b.moved("restore", a, r, err)
}

// Files are what a task changed.
func (b *backend) Files(id tasktree.TaskID) ([]control.Change, error) {
	all, err := b.Engine.Files(id)
	out := make([]control.Change, len(all))
	for i, c := range all {
		out[i] = control.Change{Op: c.Op, Path: c.Path}
	}
	return out, controlError("files", err)
}

// Preview is what a switch would change. A task of another agent is previewed for its own.
func (b *backend) Preview(a tasktree.Agent, id tasktree.TaskID) ([]control.Change, error) {
	if k, has := b.Engine.Task(id); has {
		a = k.Agent
	}
	all, err := b.Engine.Preview(a, id)
	return changes(all), controlError("preview", err)
}

// DiffTask writes what a task changed.
func (b *backend) DiffTask(w io.Writer, id tasktree.TaskID) error {
	return controlError("diff", b.Engine.DiffTask(w, id, nil))
}

// Before is an *overlay.Tree.
func (b *backend) Before(id tasktree.TaskID) (any, error) {
	t, err := b.Engine.Before(id)
	return t, controlError("before", err)
}

// At is an *overlay.Tree.
func (b *backend) At(a tasktree.Agent, id tasktree.TaskID) (any, error) {
	t, err := b.Engine.At(a, id)
	return t, controlError("at", err)
}

// Log is an *eventLog.
func (b *backend) Log() (any, error) { return b.log, nil }

// Info describes the mount.
func (b *backend) Info() control.Info {
	i := b.info
	i.Guard, i.Transport = "off", string(b.conn.kind())
	if b.Engine.GuardOn() {
		i.Guard = "on"
	}
	return i
}

// Metrics are the engine's, the memory's and the transport's.
func (b *backend) Metrics(w io.Writer) {
	b.Engine.Metrics(w)
	memoryMetrics(w)
	b.conn.metrics(w)
}

// SetGuard switches the guard; only the user may.
func (b *backend) SetGuard(by control.Caller, on bool) error {
	if by.Agent != tasktree.User {
		return &control.Error{Op: "guard", Kind: control.NotYours, Detail: "only the user switches the guard; ask them"}
	}
	for _, sp := range b.f.spaces() {
		sp.e.SetGuard(on)
	}
	b.f.legacy.setGuard(on)
	return nil
}

// Stale is what others changed of what the agent has read.
func (b *backend) Stale(a tasktree.Agent) []control.StaleEntry {
	var out []control.StaleEntry
	for _, s := range b.Engine.StaleOf(a) {
		out = append(out, control.StaleEntry{Path: s.Path, Writers: s.Writers})
	}
	return out
}

// Agents are those with tasks or processes; the user is always one.
func (b *backend) Agents() []control.AgentInfo {
	names := append(b.Engine.Agents(), b.ids.Agents()...)
	names = append(names, tasktree.User)
	slices.Sort(names)
	var out []control.AgentInfo
	for _, a := range slices.Compact(names) {
		parent := b.ids.Parent(a)
		if parent == "" {
			parent = b.Engine.ParentOf(a)
		}
		out = append(out, control.AgentInfo{Name: a, Parent: parent, Isolation: string(b.Engine.IsolationOf(a))})
	}
	return out
}

// PIDs are an agent's processes.
func (b *backend) PIDs(a tasktree.Agent) []int { return b.ids.PIDs(a) }

// owner of the workspace.
func ownerOf(fd int) (uid, gid uint32, err error) {
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return 0, 0, err
	}
	return st.Uid, st.Gid, nil
}
