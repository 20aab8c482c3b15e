// Package control is the tree of files under `.tt/` and the commands of `.tt/ctl`, without a filesystem: whoever mounts
// it turns the nodes into inodes, and whoever keeps the workspace is the Backend.
//
// A command is one write. Parse takes it apart and refuses what is not understood; Execute runs it and makes the reply.
// A Session is one open of ctl: what is written to it is executed, what is read from it is the reply.
//
// Invariants:
//   - what a file holds is made when it is opened, as a snapshot for that caller; nothing is cached between opens.
//   - List never names what Lookup does not find. Numbers are spelled one way only: "01" and "+1" are not there.
//   - every refusal has a sentence that says what to do; it is the reply and what Backend.Refused is told.
//   - an error becomes an errno in Errno alone.
//
// Lock order: Session.mu is taken before the backend is called and held during the command, so that the reply belongs to
// the command. Refusals.mu is a leaf.
//
// Nothing is kept on disk.
package control

import (
	"io"
	"time"

	"github.com/ttfs/ttfs/tasktree"
)

// Caller is on whose behalf a file is opened or a command written.
type Caller struct {
	Agent tasktree.Agent
	// PID is the process (not the thread). 0: unknown.
	PID int
}

// Change is one path that a task changed or a move changes.
type Change struct {
	// Op is created, modified or deleted where a task is described; create, modify or delete where a move is.
	Op string
	// Path is relative to the workspace.
	Path string
}

// Move says how an undo, a redo, a switch or a revert is to be made.
type Move struct {
	// By is who asked; the agent that is moved is an argument of its own.
	By tasktree.Agent
	// Force moves also what conflicts or is protected, Skip all but that. Never both.
	Force, Skip bool
}

// Moved is what a move did.
type Moved struct {
	From, To tasktree.TaskID
	// Paths are what was changed, sorted.
	Paths []Change
}

// AgentInfo is one agent that the workspace knows.
type AgentInfo struct {
	Name tasktree.Agent
	// Parent is the agent that it is a sub-agent of; "" for none.
	Parent tasktree.Agent
	// Isolation is none, fork or ro: its own, or that of an agent above it, whichever lets it do less. "" is none.
	Isolation string
}

// Info describes the mount; each field is one line of `.tt/status`.
type Info struct {
	// PID is the daemon's.
	PID int
	// Mount and Store are absolute paths.
	Mount, Store string
	// Transport is classic or uring, Guard on or off.
	Transport, Guard string
	// Fork is the whole name of the fork whose tree this is, "" for the workspace.
	Fork string
}

// Mover begins tasks and moves agents. Errors hold a Kind of this package; nothing was changed when one is returned.
type Mover interface {
	BeginTask(a tasktree.Agent, title string) (tasktree.TaskID, error)
	Undo(a tasktree.Agent, m Move) (Moved, error)
	Redo(a tasktree.Agent, m Move) (Moved, error)
	Switch(a tasktree.Agent, id tasktree.TaskID, m Move) (Moved, error)
}

// History is what is known of the tasks.
type History interface {
	// Tasks are all, ascending ids.
	Tasks() []tasktree.Task
	Task(id tasktree.TaskID) (tasktree.Task, bool)
	Active(a tasktree.Agent) tasktree.TaskID
	StatusOf(id tasktree.TaskID) tasktree.Status
	Children(id tasktree.TaskID) []tasktree.TaskID
	HasBranches(id tasktree.TaskID) bool
}

// Trees is what is known of the paths of a task.
type Trees interface {
	// Files are what the task changed, sorted.
	Files(id tasktree.TaskID) ([]Change, error)
	// Preview is what a switch of the agent to the task would change, sorted. It has no effect.
	Preview(a tasktree.Agent, id tasktree.TaskID) ([]Change, error)
	// DiffTask writes a unified diff of what the task changed.
	DiffTask(w io.Writer, id tasktree.TaskID) error
	// Before, At and Log are the contents of nodes of the kind Foreign: the before-images of a task, the workspace at its
	// end as that agent sees it, and the event log. What they are is between the backend and whoever mounts the tree.
	Before(id tasktree.TaskID) (any, error)
	At(a tasktree.Agent, id tasktree.TaskID) (any, error)
	Log() (any, error)
}

// Mount is what is known of the mount and its agents.
type Mount interface {
	Info() Info
	// Agents are those with tasks or processes, sorted by name; the user is always one.
	Agents() []AgentInfo
	// PIDs are an agent's living processes, ascending, as far as seen.
	PIDs(a tasktree.Agent) []int
	Metrics(w io.Writer)
	// Why is the agent's last refusal, "" for none; Refused is told one that happened here.
	Why(a tasktree.Agent) string
	Refused(a tasktree.Agent, sentence string)
}

// Registrar ties processes to agents.
type Registrar interface {
	// Register makes the process, and all it starts, act as r.Name. Preconditions: Execute has checked the name.
	Register(by Caller, r Registration) error
	// End lets an agent's knowledge, locks and registrations go.
	End(by Caller, a tasktree.Agent) error
}

// Registration is an `agent` command.
type Registration struct {
	Name tasktree.Agent
	// Parent is "" when it was not given.
	Parent tasktree.Agent
	// Isolation is none, fork or ro; "" when it was not given: the agent keeps its own.
	Isolation string
	// PID is the process to register: the caller's own unless another was given.
	PID int
}

// Backend keeps the workspace.
type Backend interface {
	Mover
	History
	Trees
	Mount
	Registrar
}

// The interfaces below are optional: a command whose interface the backend lacks is refused as Unsupported.

// Counter counts the paths that a task changed. Without it, what the task itself says counts.
type Counter interface {
	FileCount(t tasktree.Task) int
}

// Reverter reverses one task alone.
type Reverter interface {
	Revert(a tasktree.Agent, id tasktree.TaskID, m Move) (Moved, error)
}

// Restorer brings a path back as it was at the end of a task, as a new task of the agent.
type Restorer interface {
	Restore(a tasktree.Agent, id tasktree.TaskID, path string, m Move) (Moved, error)
}

// Merging says how a fork is to be merged.
type Merging struct {
	// Strict refuses also what the fork has read and others have changed since.
	Strict bool
	// Prefer decides what both sides changed: "" refuses, mine keeps what is here, theirs takes the fork's.
	Prefer string
	DryRun bool
}

// Forker makes, merges and discards forks.
type Forker interface {
	Fork(by Caller, name tasktree.Agent, at *tasktree.TaskID) error
	Merge(by Caller, name tasktree.Agent, how Merging) (Moved, error)
	Discard(by Caller, name tasktree.Agent, force bool) error
}

// Guarder turns the guard on and off.
type Guarder interface {
	SetGuard(by Caller, on bool) error
}

// Isolator says which isolation modes beside none the backend's Register knows. Without it, they are Unsupported.
type Isolator interface {
	Isolates(mode string) bool
}

// stamp is a time in a file; "" for none.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
