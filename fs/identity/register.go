package identity

import (
	"slices"

	"github.com/ttfs/ttfs/tasktree"
)

// registration is an agent that has been registered.
type registration struct {
	parent tasktree.Agent
	ended  bool
}

// maxRegistered bounds the agents that one process has been, one after the other. The first and the last ones are kept: whom it
// belongs to when they have ended.
const maxRegistered = 64

// Register makes a process, and all that descends from it, act as agent a from now on. parent is the agent that a is a
// sub-agent of; "" means the one that the process was registered as before, or none. The same name again is fine.
//
// Errors: Invalid; NoProcess; NotYours when the process belongs to a registered agent of which a is neither a new nor an
// existing descendant, or a has another parent already. Whether the parent exists is for the caller to know.
func (r *Resolver) Register(pid int, a, parent tasktree.Agent) error {
	fail := func(k Kind, detail string, err error) error {
		return &Error{Op: "register", Agent: a, PID: pid, Kind: k, Detail: detail, Err: err}
	}
	const names = "a name is 1 to 64 letters, digits, dots, dashes and underscores, does not start with a dot and is not \"user\""
	if !ValidName(a) || a == User {
		return fail(Invalid, names, nil)
	}
	if parent == User {
		parent = ""
	}
	if parent != "" && !ValidName(parent) {
		return fail(Invalid, "parent: "+names, nil)
	}
	p, err := r.process(pid)
	if err != nil {
		return fail(NoProcess, "", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if kind, detail := r.mayRegisterLocked(p, a, parent); kind != "" {
		return fail(kind, detail, nil)
	}
	above := p.registeredLocked()
	if above != nil && above.agentLocked() == a {
		return nil
	}
	if parent == "" && above != nil {
		parent = above.agentLocked()
	}
	if r.liveLocked(a) == nil {
		r.agents[a] = &registration{parent: parent}
	}
	r.livesLocked(a, false)
	p.agents = append(slices.DeleteFunc(p.agents, func(b tasktree.Agent) bool { return b == a }), a)
	if len(p.agents) > maxRegistered {
		p.agents = slices.Delete(p.agents, 1, 2)
	}
	r.gen++
	return nil
}

// mayRegisterLocked is the rule of who may become whom: "" when it may, else why not.
//
// +checklocksread:r.mu
func (r *Resolver) mayRegisterLocked(p *process, a, parent tasktree.Agent) (Kind, string) {
	if parent == a || r.descendsLocked(parent, a) {
		return Invalid, "an agent cannot be a sub-agent of itself"
	}
	old := r.liveLocked(a)
	above := p.registeredLocked()
	if above == nil {
		if old != nil && parent != "" && parent != old.parent {
			return NotYours, "that agent has another parent already: choose another name"
		}
		return "", ""
	}
	mine := above.agentLocked()
	switch {
	case old != nil && parent != "" && parent != old.parent:
		return NotYours, "that agent has another parent already: choose another name"
	case mine == a:
		return "", ""
	case old != nil && !r.descendsLocked(a, mine):
		return NotYours, "the process belongs to agent " + string(mine) + ", which may register sub-agents of its own only: choose another name"
	case parent != "" && parent != mine && !r.descendsLocked(parent, mine):
		return NotYours, "the parent must be " + string(mine) + " or one of its sub-agents"
	case r.descendsLocked(mine, a):
		return NotYours, "the process belongs to a sub-agent of that agent"
	}
	return "", ""
}

// RegisterFor is Register on behalf of another process: a registered caller may register only processes of its own
// agent's line. Errors: as Register.
func (r *Resolver) RegisterFor(caller uint32, pid int, a, parent tasktree.Agent) error {
	fail := func(k Kind, detail string, err error) error {
		return &Error{Op: "register", Agent: a, PID: pid, Kind: k, Detail: detail, Err: err}
	}
	c, err := r.process(int(caller))
	if err != nil {
		return fail(NoProcess, "the caller", err)
	}
	p, err := r.process(pid)
	if err != nil {
		return fail(NoProcess, "", err)
	}
	r.mu.RLock()
	from, to := c.registeredLocked(), p.registeredLocked()
	ok := from == nil || to != nil && (to.agentLocked() == from.agentLocked() || r.descendsLocked(to.agentLocked(), from.agentLocked()))
	r.mu.RUnlock()
	if !ok {
		return fail(NotYours, "an agent may register its own processes only", nil)
	}
	return r.Register(p.key.PID, a, parent)
}

// process looks a pid, or a thread's id, up.
func (r *Resolver) process(pid int) (*process, error) {
	if pid <= 0 {
		return nil, errFormat
	}
	p, _, err := r.find(uint32(pid), seen{}, r.now())
	return p, err
}

// End takes an agent's registrations back: its processes belong to whom they belonged before. Its sub-agents stay.
func (r *Resolver) End(a tasktree.Agent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endLocked(a)
}

// +checklocks:r.mu
func (r *Resolver) endLocked(a tasktree.Agent) {
	if reg := r.agents[a]; reg != nil {
		reg.ended = true
	}
	for _, p := range r.procs {
		p.agents = slices.DeleteFunc(p.agents, func(b tasktree.Agent) bool { return b == a })
	}
	delete(r.active, a)
	delete(r.lives, a)
	r.gen++
}

// liveLocked is the registration of an agent that has not ended.
//
// +checklocksread:r.mu
func (r *Resolver) liveLocked(a tasktree.Agent) *registration {
	if reg := r.agents[a]; reg != nil && !reg.ended {
		return reg
	}
	return nil
}

// descendsLocked says whether a is a sub-agent of of, at any depth; an agent is not its own.
//
// +checklocksread:r.mu
func (r *Resolver) descendsLocked(a, of tasktree.Agent) bool {
	for range len(r.agents) + 1 {
		reg := r.agents[a]
		if reg == nil || reg.parent == "" {
			return false
		}
		if a = reg.parent; a == of {
			return true
		}
	}
	return false
}

// Descends says whether agent a is a sub-agent of another, at any depth. An agent is not its own.
func (r *Resolver) Descends(a, of tasktree.Agent) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.descendsLocked(a, of)
}

// Parent is the agent that a is a sub-agent of; "" for none.
func (r *Resolver) Parent(a tasktree.Agent) tasktree.Agent {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if reg := r.agents[a]; reg != nil {
		return reg.parent
	}
	return ""
}

// Agents are the registered agents that have not ended, sorted.
func (r *Resolver) Agents() []tasktree.Agent {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var all []tasktree.Agent
	for a, reg := range r.agents {
		if !reg.ended {
			all = append(all, a)
		}
	}
	slices.Sort(all)
	return all
}
