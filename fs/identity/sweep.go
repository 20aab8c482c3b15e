package identity

import (
	"slices"
	"time"

	"github.com/ttfs/ttfs/tasktree"
)

// PIDs are the living processes seen so far that act as the agent, ascending.
func (r *Resolver) PIDs(a tasktree.Agent) []int {
	r.checkAll(func(p *process) bool { return r.decideLocked(p).Agent == a })
	r.mu.RLock()
	defer r.mu.RUnlock()
	var pids []int
	for _, p := range r.procs {
		if p.gone.IsZero() && r.decideLocked(p).Agent == a {
			pids = append(pids, p.key.PID)
		}
	}
	slices.Sort(pids)
	return pids
}

// checkAll looks whether the processes that want says are still there.
func (r *Resolver) checkAll(want func(*process) bool) {
	now := r.now()
	var all []*process
	r.mu.RLock()
	for _, p := range r.procs {
		if p.gone.IsZero() && want(p) {
			all = append(all, p)
		}
	}
	r.mu.RUnlock()
	for _, p := range all {
		st, err := r.proc.stat(p.key.PID)
		if err == nil && st.start == p.key.Start && !st.dead || err != nil && !vanished(err) {
			continue
		}
		r.mu.Lock()
		p.gone = now
		r.mu.Unlock()
	}
}

// Sweep forgets the dead who have no living descendant, and agents of whom nothing is left. Call it now and then (a
// minute is good); it also starts by itself when many processes have been seen.
func (r *Resolver) Sweep() {
	r.sweeping.Lock()
	defer r.sweeping.Unlock()
	r.checkAll(func(*process) bool { return true })
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	keep := map[*process]bool{}
	for _, p := range r.procs {
		if !p.gone.IsZero() && (len(p.agents) == 0 || now.Sub(p.gone) > r.linger) {
			continue
		}
		for q := p; q != nil && !keep[q]; q = q.parent {
			keep[q] = true
		}
	}
	rooted := map[tasktree.Agent]bool{}
	for key, p := range r.procs {
		if keep[p] {
			for _, a := range p.agents {
				rooted[a] = true
			}
			continue
		}
		delete(r.procs, key)
		if r.latest[key.PID] == p {
			delete(r.latest, key.PID)
		}
	}
	for tid, s := range r.tids {
		if !keep[s.p] || !s.p.gone.IsZero() || now.Sub(s.due) > 10*time.Second {
			delete(r.tids, tid)
		}
	}
	r.sweepAgentsLocked(rooted)
	r.sweepAt = max(sweepFloor, 2*len(r.procs))
}

// sweepAgentsLocked forgets agents without a process, unless a sub-agent still names them.
//
// +checklocks:r.mu
func (r *Resolver) sweepAgentsLocked(rooted map[tasktree.Agent]bool) {
	for again := true; again; {
		again = false
		named := map[tasktree.Agent]bool{}
		for _, reg := range r.agents {
			named[reg.parent] = true
		}
		for a := range r.agents {
			if !rooted[a] && !named[a] {
				delete(r.agents, a)
				delete(r.active, a)
				again = true
			}
		}
	}
}
