package guard

// Agent is a name on whose behalf a process acts.
type Agent string

// The writers that are no agents.
const (
	// User is the human, and every process that nobody registered.
	User Agent = "user"
	// Outside is whoever changed a file around the mount.
	Outside Agent = "outside the mount"
)

// File is the identity of an inode as the engine numbers it: opaque, the same for all hard links, stable over a remount.
// 0 is no file. A number may be used again once Created says so.
type File uint64

// Path is relative to the root of the workspace, without a slash at either end. "" is no path.
type Path string

// Seq orders versions. Units: changes of content or of names in one workspace, counted from 1; 0 is before all.
type Seq uint64

// Task is the number of the task in which a change was made; 0: none. It is for the report, nothing is decided by it.
type Task uint64

// Process is one process in the life of the machine. PID 0: unknown; then the agent's knowledge alone counts.
type Process struct {
	PID   int
	Start uint64
}

// Actor is who does something. User is never refused and nothing is kept of what it knows; Agent User or "" says the same.
type Actor struct {
	Agent Agent
	Task  Task
	Proc  Process
	User  bool
}

func (a Actor) human() bool {
	return a.User || a.Agent == User || a.Agent == "" || a.Agent == Outside
}

// name is under which a change is reported.
func (a Actor) name() Agent {
	if a.Agent == "" {
		return User
	}
	return a.Agent
}

// Writer is who changed a file or a path, and in which task last.
type Writer struct {
	Agent Agent
	Task  Task
}

// Span is the bytes [From, To) of a file.
type Span struct{ From, To int64 }

// Mode is what a file was opened for.
type Mode uint8

// The modes; both may be set.
const (
	ForReading Mode = 1 << iota
	ForWriting
)

// The bounds.
const (
	// SmallBytes: files up to it count as read when they are opened for reading.
	SmallBytes = 128 << 10

	maxAgents    = 1024
	maxFiles     = 4096
	maxProcesses = 256
	maxOfProcess = 512
	maxWriters   = 64
	maxSpans     = 1024
)
