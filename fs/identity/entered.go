package identity

import (
	"os"
	"sort"
	"strconv"
	"strings"

	"github.com/ttfs/ttfs/tasktree"
)

// activation says that from a tick on an agent's active task was that. Within a tick, that is for processes younger than
// the one that was the youngest then.
type activation struct {
	tick     uint64
	youngest int // 0: not known
	task     tasktree.TaskID
}

// before says whether it was when a process started. Numbers of processes rise until they begin anew, which within one tick
// is not seen by a half of all.
func (a *activation) before(p Process) bool {
	if a.tick != p.Start || a.youngest == 0 {
		return a.tick <= p.Start // within one tick the later one counts: a child of just after a move must not be fenced
	}
	d := p.PID - a.youngest
	return d > 0 && d < maxPID/2 || d < -maxPID/2
}

// maxPID is the greatest number of processes. Source: PID_MAX_LIMIT.
const maxPID = 1 << 22

// maxActivations bounds the history of one agent; the oldest goes first.
const maxActivations = 512

// Activated tells that an agent's active task is t from now on (it began one, or moved). It lets EnteredTask know in
// which task a process was started that is seen only later.
func (r *Resolver) Activated(a tasktree.Agent, t tasktree.TaskID) {
	now := activation{r.ticks(), r.proc.youngest(), t}
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.active[a]
	if n := len(h); n > 0 && (h[n-1].tick > now.tick || h[n-1].tick == now.tick && h[n-1].youngest == now.youngest) {
		h[n-1].task = t
		return
	}
	if len(h) >= maxActivations {
		h = append(h[:0], h[1:]...)
	}
	r.active[a] = append(h, now)
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
		if i := sort.Search(len(h), func(i int) bool { return !h[i].before(p.key) }); i > 0 {
			t = h[i-1].task
		}
		p.enteredAs, p.entered = who.Agent, t
	}
	return p.entered
}

// youngest is the number of the process that was started last; 0: it is not told. Source: proc(5), the last field of
// loadavg.
func (p procfs) youngest() int {
	text, err := os.ReadFile(p.dir + "/loadavg")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(fields[len(fields)-1])
	return n
}
