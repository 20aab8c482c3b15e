package identity

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/ttfs/ttfs/tasktree"
)

// The daemon may be started anew while the processes go on. What cannot be found out again is carried over: who was
// registered, from whom an orphan descends, and in which task a process was started. A process is carried with all its
// ancestors, dead ones too.

// carried is the version of a record's encoding.
const carried = 1

// place is where pids and start times mean what they mean here: this boot of the kernel, this namespace of pids.
func (p procfs) place() string {
	boot, err := os.ReadFile(filepath.Join(p.dir, "sys/kernel/random/boot_id"))
	if err != nil {
		return "" // then nothing is carried over
	}
	ns, _ := os.Readlink(filepath.Join(p.dir, "self/ns/pid"))
	return strings.TrimSpace(string(boot)) + " " + ns
}

// Carry is what a later daemon must be told of the processes that act as an agent, and of their ancestors: a record each,
// for Restore. A process of the user's has none.
//
// Shape: a byte, the version; then as varints and strings led by their length: the place, the parent's pid and start, n agents
// registered for it (the last one counts), the agent program that it runs, TTFS_AGENT of it, 1 if that was read, the
// task in which it was started, and whose.
func (r *Resolver) Carry() map[Process][]byte {
	where := r.proc.place()
	r.mu.RLock()
	defer r.mu.RUnlock()
	out := map[Process][]byte{}
	if where == "" {
		return out
	}
	for _, p := range r.procs {
		if p.gone.IsZero() && r.decideLocked(p).Agent == User || !p.gone.IsZero() && len(p.agents) == 0 {
			continue
		}
		for q := p; q != nil && out[q.key] == nil; q = q.parent {
			out[q.key] = r.carryLocked(q, where)
		}
	}
	return out
}

// CarryOne is Carry of the one process that has that pid, or thread. Errors: those of looking it up.
func (r *Resolver) CarryOne(pid int) (Process, []byte, error) {
	p, err := r.process(pid)
	if err != nil {
		return Process{}, nil, err
	}
	where := r.proc.place()
	r.mu.RLock()
	defer r.mu.RUnlock()
	return p.key, r.carryLocked(p, where), nil
}

// +checklocksread:r.mu
func (r *Resolver) carryLocked(p *process, where string) []byte {
	b := []byte{carried}
	number := func(n uint64) { b = binary.AppendUvarint(b, n) }
	text := func(s string) { number(uint64(len(s))); b = append(b, s...) }
	text(where)
	var up Process
	if p.parent != nil {
		up = p.parent.key
	}
	number(uint64(up.PID))
	number(up.Start)
	number(uint64(len(p.agents)))
	for _, a := range p.agents {
		text(string(a))
	}
	text(p.program)
	text(string(p.env))
	read := uint64(0)
	if p.loaded && !p.envUnread {
		read = 1
	}
	number(read)
	as, task := p.enteredAs, p.entered
	if who := r.decideLocked(p); !who.Root && who.Agent != as {
		as, task = who.Agent, 0
		h := r.active[as]
		if i := sort.Search(len(h), func(i int) bool { return !h[i].before(p.key) }); i > 0 {
			task = h[i-1].task
		}
	}
	if task == 0 {
		as = ""
	}
	number(uint64(task))
	text(string(as))
	return b
}

// errCarried says that a record is not one of Carry's.
var errCarried = errors.New("malformed record of a process")

// carriedProcess is a record taken apart.
type carriedProcess struct {
	where     string
	up        Process
	agents    []tasktree.Agent
	program   string
	env       tasktree.Agent
	envRead   bool
	entered   tasktree.TaskID
	enteredAs tasktree.Agent
	alive     bool
}

func parseCarried(b []byte) (*carriedProcess, error) {
	bad := len(b) == 0 || b[0] != carried
	number := func() uint64 {
		if bad {
			return 0
		}
		n, size := binary.Uvarint(b)
		if bad = size <= 0; bad {
			return 0
		}
		b = b[size:]
		return n
	}
	text := func() string {
		n := number()
		if bad = bad || n > uint64(len(b)); bad {
			return ""
		}
		s := string(b[:n])
		b = b[n:]
		return s
	}
	if bad {
		return nil, errCarried
	}
	b = b[1:]
	c := &carriedProcess{where: text()}
	pid := number()
	c.up = Process{PID: int(pid), Start: number()}
	for n := number(); n > 0 && !bad; n-- {
		a := tasktree.Agent(text())
		bad = bad || !ValidName(a)
		c.agents = append(c.agents, a)
	}
	c.program, c.env, c.envRead = text(), tasktree.Agent(text()), number() == 1
	c.entered, c.enteredAs = tasktree.TaskID(number()), tasktree.Agent(text())
	if bad || len(b) > 0 || pid > maxPID {
		return nil, errCarried
	}
	return c, nil
}

// Restore takes in what Carry gave an earlier daemon; parent is the agent that an agent is a sub-agent of. Processes that
// are gone are ancestors only, and those of another boot or namespace are nobody. It returns how many processes act as
// somebody registered, and which records are of no use any more. Preconditions: nobody has been seen yet.
func (r *Resolver) Restore(records map[Process][]byte, parent func(tasktree.Agent) tasktree.Agent) (living int, useless []Process) {
	where, now := r.proc.place(), r.now()
	all := map[Process]*carriedProcess{}
	for key, b := range records {
		c, err := parseCarried(b)
		if err != nil || c.where != where || where == "" {
			useless = append(useless, key)
			if err != nil {
				r.log.Warn("what was kept of a process cannot be read: it is taken for a new one", "pid", key.PID, "err", err)
			}
			continue
		}
		st, err := r.proc.stat(key.PID)
		c.alive = err == nil && st.start == key.Start && !st.dead
		all[key] = c
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, c := range all {
		r.restoreLocked(key, c, now)
	}
	for key, c := range all {
		p := r.procs[key]
		// The parent of a process never started after it: what says so is damaged, and would make a ring.
		if q := r.procs[c.up]; q != nil && c.up.Start <= key.Start && !q.belowLocked(p) {
			p.parent = q
		}
		p.linked = true
		if _, carried := all[c.up]; !carried && c.up.PID != 0 {
			p.linked = false
		}
		for _, a := range c.agents {
			if r.agents[a] == nil {
				r.agents[a] = &registration{parent: parent(a)}
			}
			r.livesLocked(a, false)
		}
	}
	for _, p := range r.procs {
		if p.gone.IsZero() && p.registeredLocked() != nil {
			living++
		}
	}
	r.gen++
	return living, useless
}

// +checklocks:r.mu
func (r *Resolver) restoreLocked(key Process, c *carriedProcess, now time.Time) {
	p := &process{key: key, first: now, agents: c.agents, entered: c.entered, enteredAs: c.enteredAs}
	if !c.alive {
		// What it ran cannot be read again.
		p.gone, p.loaded, p.program, p.env, p.envUnread = now, true, c.program, c.env, !c.envRead
	}
	r.procs[key] = p
	if l := r.latest[key.PID]; l == nil || l.key.Start <= key.Start {
		r.latest[key.PID] = p
	}
}

// Unregister takes back what Register did for one process.
func (r *Resolver) Unregister(pid int, a tasktree.Agent) {
	p, err := r.process(pid)
	if err != nil {
		return // it is gone
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, b := range p.agents {
		if b == a {
			p.agents = append(p.agents[:i:i], p.agents[i+1:]...)
			r.gen++
			return
		}
	}
}
