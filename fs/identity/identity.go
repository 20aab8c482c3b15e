// Package identity says on whose behalf a process acts.
//
// The first that applies: the process, or its nearest ancestor, was registered; TTFS_AGENT stands in its initial
// environment; it or an ancestor is a known agent program, and the agent is `program-PID`; else it is the user.
//
// Descent is remembered when a process is first seen, so that a later setsid, double fork or death of a parent does not
// lose it. A process that is seen only after its parents died is tied to the leader of its session, which is its ancestor
// by construction: sessions are only inherited, and the kernel does not give the leader's number away while they last.
//
// Invariants:
//   - a process is its pid and its start time; a pid alone names nobody. The parent of a process never started after it.
//   - what can change a verdict is a registration (counted by Resolver.gen) or an exec (seen by the addresses in stat);
//     a cached verdict is used only while neither happened, and for a second at most.
//   - environ and cmdline are read once per program image, in a goroutine, because the kernel takes the mmap lock of that
//     process for it, and the process may hold that lock while it waits for us. stat and status take no such lock.
//   - no file is read while mu is held.
//   - an agent ends once no process that could act as it has been there for a while; until then its dead processes are
//     remembered as ancestors.
//
// Lock order:
//
//	Resolver.sweeping
//	  Resolver.mu
//
// Nothing is kept on disk here; what a later daemon must be told is given out and taken in again (Carry, Restore).
package identity

import (
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// User is the agent of every process that nothing else claims.
const User = tasktree.User

// KnownPrograms is the default of Options.Known.
var KnownPrograms = []string{"claude", "codex", "gemini", "opencode", "aider", "goose", "cursor-agent", "amp"}

// Process is one process for ever: pids are reused, pid and start time together are not.
type Process struct {
	// PID is the thread group's id. 0: unknown.
	PID int
	// Start is when it started. Units: clock ticks (10 ms) since boot.
	Start uint64
}

// Who is the answer: on whose behalf a process acts.
type Who struct {
	Agent tasktree.Agent
	// Root says that the process is not subject to the fence: it is the agent's root process itself (the registered one,
	// or the known agent program), or its agent has none (the user, TTFS_AGENT).
	Root bool
	// Proc is the process of the thread that asked.
	Proc Process
	// RegisteredIn is what EnteredTask remembered of this process; 0: nothing yet.
	RegisteredIn tasktree.TaskID
	// Known is false when the process could not be looked at (pid 0, another pid namespace, already gone). Agent is User.
	Known bool
}

// Options are the surroundings of a Resolver; the zero value is good.
type Options struct {
	// ProcDir is where procfs is mounted. Default: /proc.
	ProcDir string
	// Known are the names of agent programs. Default: KnownPrograms.
	Known []string
	// EnvTimeout bounds the wait for environ and cmdline, in all, of one Resolve. Default: 50 ms.
	EnvTimeout time.Duration
	// Linger is how long a dead registered process is still the ancestor of orphans not seen before. Default: 1 h.
	Linger time.Duration
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Ticks is the clock of Process.Start. Default: CLOCK_BOOTTIME in units of 10 ms.
	Ticks func() uint64
	// Logger gets one line for each thing worth looking at. Default: none.
	Logger *slog.Logger
}

// Resolver knows the processes that were seen and the agents that were registered. Safe for concurrent use.
type Resolver struct {
	proc       procfs
	known      map[string]bool
	envTimeout time.Duration
	linger     time.Duration
	now        func() time.Time
	ticks      func() uint64
	log        *slog.Logger
	// reads bounds the goroutines that wait for other processes' mmap locks.
	reads chan struct{}

	sweeping   sync.Mutex
	background atomic.Bool

	mu sync.RWMutex
	// gen counts all that may change a verdict made before.
	// +checklocks:mu
	gen uint64
	// tids are the threads that asked lately.
	// +checklocks:mu
	tids map[uint32]seen
	// procs are all processes that were seen and their ancestors.
	// +checklocks:mu
	procs map[Process]*process
	// latest is the youngest process seen under a pid.
	// +checklocks:mu
	latest map[int]*process
	// agents are the registered ones.
	// +checklocks:mu
	agents map[tasktree.Agent]*registration
	// lives are the agents that had a process since they began.
	// +checklocks:mu
	lives map[tasktree.Agent]*life
	// active is the history of the agents' active tasks, oldest first.
	// +checklocks:mu
	active map[tasktree.Agent][]activation
	// sweepAt is the number of processes at which a sweep starts by itself.
	// +checklocks:mu
	sweepAt int
}

// sweepFloor is the number of remembered processes below which no sweep starts by itself.
const sweepFloor = 4096

// maxReads is how many reads of environ and cmdline may be stuck at once; further ones are put off.
const maxReads = 64

// New makes a resolver that has seen nobody.
func New(o Options) *Resolver {
	if o.ProcDir == "" {
		o.ProcDir = "/proc"
	}
	if o.Known == nil {
		o.Known = KnownPrograms
	}
	if o.EnvTimeout <= 0 {
		o.EnvTimeout = 50 * time.Millisecond
	}
	if o.Linger <= 0 {
		o.Linger = time.Hour
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Ticks == nil {
		o.Ticks = bootTicks
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Resolver{
		proc: procfs{dir: o.ProcDir}, known: map[string]bool{},
		envTimeout: o.EnvTimeout, linger: o.Linger, now: o.Now, ticks: o.Ticks, log: o.Logger,
		reads: make(chan struct{}, maxReads),
		tids:  map[uint32]seen{}, procs: map[Process]*process{}, latest: map[int]*process{},
		agents: map[tasktree.Agent]*registration{}, active: map[tasktree.Agent][]activation{},
		lives:   map[tasktree.Agent]*life{},
		sweepAt: sweepFloor,
	}
	for _, name := range o.Known {
		r.known[name] = true
	}
	return r
}

// bootTicks is now on the clock of Process.Start. Source: fs/proc/array.c, start_boottime in units of USER_HZ.
func bootTicks() uint64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0
	}
	return uint64(ts.Nano()) / uint64(10*time.Millisecond)
}

// ValidName says whether a name can be an agent's: 1 to 64 characters of [A-Za-z0-9._-], not starting with a dot. "user"
// is valid, but nobody can register it.
func ValidName(a tasktree.Agent) bool {
	if len(a) == 0 || len(a) > 64 || a[0] == '.' {
		return false
	}
	const also = "._-"
	for i := range len(a) {
		c := a[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && !strings.ContainsRune(also, rune(c)) {
			return false
		}
	}
	return true
}
