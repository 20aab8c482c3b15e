package identity

import (
	"sort"

	"github.com/ttfs/ttfs/tasktree"
)

// activation says that from a tick on an agent's active task was that.
type activation struct {
	tick uint64
	task tasktree.TaskID
}

// maxActivations bounds the history of one agent; the oldest goes first.
const maxActivations = 512

// Activated tells that an agent's active task is t from now on (it began one, or moved). It lets EnteredTask know in
// which task a process was started that is seen only later.
func (r *Resolver) Activated(a tasktree.Agent, t tasktree.TaskID) {
	tick := r.ticks()
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.active[a]
	if n := len(h); n > 0 && h[n-1].tick >= tick {
		// Within one tick the later one counts: a child that was started just after a move must not be fenced.
		h[n-1].task = t
		return
	}
	if len(h) >= maxActivations {
		h = append(h[:0], h[1:]...)
	}
	r.active[a] = append(h, activation{tick: tick, task: t})
}

// EnteredTask is the task in which this process entered its agent's work: the one that was active when it started, as
// far as Activated told, else t, the one of the first call. A root process is never tied to a task: always t.
func (r *Resolver) EnteredTask(tid uint32, t tasktree.TaskID) tasktree.TaskID {
	who := r.Resolve(tid)
	if !who.Known || who.Root {
		return t
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.procs[who.Proc]
	if p == nil {
		return t
	}
	if p.enteredAs != who.Agent {
		h := r.active[who.Agent]
		if i := sort.Search(len(h), func(i int) bool { return h[i].tick > p.key.Start }); i > 0 {
			t = h[i-1].task
		}
		p.enteredAs, p.entered = who.Agent, t
	}
	return p.entered
}
