package identity

import (
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/ttfs/ttfs/tasktree"
)

// An agent ends by itself some time after its last process. Two looks at least must find none, so that a process that forks
// and dies between two reads of /proc is not missed. The commands of an agent that only TTFS_AGENT names may each be a
// process of its own, started by somebody outside: pauses between them are not its end.
const (
	idleFor    = 30 * time.Second
	idleForEnv = 10 * time.Minute
)

// life is an agent that has had a process.
type life struct {
	// env: it was never registered nor a known program.
	env bool
	// idle is when it was first found without a process; zero: it had one at the last look.
	idle time.Time
}

// over says whether the agent ends now, as it has no process.
func (l *life) over(now time.Time) bool {
	limit := idleFor
	if l.env {
		limit = idleForEnv
	}
	return !l.idle.IsZero() && now.Sub(l.idle) >= limit
}

// livesLocked notes that an agent has a process.
//
// +checklocks:r.mu
func (r *Resolver) livesLocked(a tasktree.Agent, env bool) {
	if a == User {
		return
	}
	l := r.lives[a]
	if l == nil {
		l = &life{env: env}
		r.lives[a] = l
	}
	l.env = l.env && env
	l.idle = time.Time{}
}

// EndIdle ends the agents that had processes and have had none for a while, as End does, and returns them, sorted. Call it
// now and then (a minute is good). Agents that keep says are left alone; it is called without a lock held, and may be nil.
//
// A process counts for every agent that it could act as: its own, and those of its ancestors. Processes that were never
// seen are looked for in /proc, and tied to their ancestors, before anybody ends.
func (r *Resolver) EndIdle(keep func(tasktree.Agent) bool) []tasktree.Agent {
	r.sweeping.Lock()
	defer r.sweeping.Unlock()
	r.checkAll(func(*process) bool { return true })
	r.mu.Lock()
	idle := r.idleLocked()
	r.mu.Unlock()
	if keep != nil {
		idle = slices.DeleteFunc(idle, keep)
	}
	if len(idle) == 0 || !r.observeAll() {
		return nil
	}
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	still := r.idleLocked()
	var ended []tasktree.Agent
	for _, a := range idle {
		if !slices.Contains(still, a) {
			continue
		}
		l := r.lives[a]
		if l.idle.IsZero() {
			l.idle = now
		} else if l.over(now) {
			r.endLocked(a)
			ended = append(ended, a)
		}
	}
	slices.Sort(ended)
	return ended
}

// idleLocked are the agents that no living process belongs to; the others are noted to have one.
//
// +checklocks:r.mu
func (r *Resolver) idleLocked() []tasktree.Agent {
	claimed := map[tasktree.Agent]bool{}
	for _, p := range r.procs {
		if !p.gone.IsZero() {
			continue
		}
		claimed[r.decideLocked(p).Agent] = true
		claimed[p.envLocked()] = true
		if q := p.programLocked(); q != nil {
			claimed[q.programAgent()] = true
		}
		for q := p; q != nil; q = q.parent {
			for _, a := range q.agents {
				claimed[a] = true
			}
		}
	}
	var idle []tasktree.Agent
	for a, l := range r.lives {
		if claimed[a] {
			l.idle = time.Time{}
		} else {
			idle = append(idle, a)
		}
	}
	return idle
}

// observeAll takes in all processes of /proc; false when it cannot be listed.
func (r *Resolver) observeAll() bool {
	dir, err := os.Open(r.proc.dir)
	if err != nil {
		return false
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return false
	}
	now := r.now()
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if st, err := r.proc.stat(pid); err == nil && !st.dead {
			r.observe(pid, st, now)
		}
	}
	return true
}
