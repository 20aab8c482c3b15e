package overlay

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ttfs/ttfs/tasktree"
)

// The gate lets operations, tasks and moves go on beside one another unless they meet.
//
// An operation holds gate for reading, and names what it works on. A move, or the beginning of a task, holds gate for
// writing only for the moment in which it says what is its own: a claim. When it has the gate, no operation is under way
// that began before the claim; who comes later and meets it lets the gate go and waits for the claim's end. So a move
// works for as long as it takes, and holds up those alone who come to a path of its own, and its own agents.
//
// What a move's claim names:
//
//	agents  those whose tasks move: all that they change waits
//	spots   entries that change
//	nodes   inodes whose content or metadata change
//	deep    inodes that come or go: they, and all that is below them, wait
//	chain   the directories on the way to all of these: they stay where they are
//
// Moves exclude one another, and those who read history, by Engine.past, which they hold for as long as they take.
type gate struct {
	sync.RWMutex

	changing sync.Mutex
	// claims is a list that is never changed but replaced, under changing. Whoever holds the gate and does not find a claim
	// in it began before the claim.
	claims atomic.Pointer[[]*claim]
}

func (g *gate) list() []*claim {
	if all := g.claims.Load(); all != nil {
		return *all
	}
	return nil
}

// drain waits until no operation is under way that began before now.
func (g *gate) drain() {
	g.Lock()
	defer g.Unlock()
}

// claim is what one move, or the beginning of one task, keeps for itself. It is not changed while it is in the gate, but
// for that a move's claim is replaced by a larger one.
type claim struct {
	agents map[tasktree.Agent]struct{}
	spots  map[claimedSpot]struct{}
	nodes  map[inoKey]struct{}
	deep   map[inoKey]struct{}
	chain  map[inoKey]struct{}
	done   chan struct{} // closed when the claim ends
}

type claimedSpot struct {
	dir  inoKey
	name string
}

func newClaim(agents ...tasktree.Agent) *claim {
	c := &claim{agents: map[tasktree.Agent]struct{}{}, done: make(chan struct{})}
	for _, a := range agents {
		c.agents[a] = struct{}{}
	}
	return c
}

// target is what an operation works on: an inode, or the entry of a name in a directory.
type target struct {
	n    *node
	name string
}

// enterOp holds the gate for an operation that can meet no move, or is told in the midst that it does (meet); leaveOp lets
// it go.
func (e *Engine) enterOp() error {
	e.gate.RLock()
	if e.closed.Load() {
		e.gate.RUnlock()
		return fail("operate", "", Closed, nil)
	}
	return nil
}

func (e *Engine) leaveOp() { e.gate.RUnlock() }

// enterOn is enterOp for an operation on some targets, by an agent if it changes anything, else by "". It waits for the
// claims that the operation meets. Preconditions: the nodes are pinned; no lock is held.
func (e *Engine) enterOn(a tasktree.Agent, on ...target) error {
	for {
		if err := e.enterOp(); err != nil {
			return err
		}
		c := e.metBy(a, on)
		if c == nil {
			return nil
		}
		e.leaveOp()
		<-c.done
	}
}

// metBy is a claim that an operation meets; nil: none. Preconditions: gate is held.
func (e *Engine) metBy(a tasktree.Agent, on []target) *claim {
	for _, c := range e.gate.list() {
		if _, has := c.agents[a]; has && a != "" {
			return c
		}
		for _, t := range on {
			if t.n != nil && c.meets(e, a, t) {
				return c
			}
		}
	}
	return nil
}

func (c *claim) meets(e *Engine, a tasktree.Agent, t target) bool {
	if t.n.low() {
		// No move knows it; it may know a directory above it.
	} else if t.name != "" {
		if _, has := c.spots[claimedSpot{t.n.key, t.name}]; has {
			return true
		}
	} else if a != "" || t.n.dir == nil {
		// To look at a directory is to meet nobody: its times change with every entry.
		if _, has := c.nodes[t.n.key]; has {
			return true
		}
	}
	if len(c.deep) == 0 {
		return false
	}
	e.nodes.mu.Lock()
	defer e.nodes.mu.Unlock()
	for n := t.n; n != nil; n = n.parent {
		if _, has := c.deep[n.key]; has {
			return true
		}
	}
	return false
}

// met is how an operation says that it meets a claim with something that it found on its way.
type met struct{ c *claim }

// Error is for nobody to see.
func (m *met) Error() string { return "a move is under way" }

// meet says whether an inode that is about to lose or change its name is a move's own. The operation gives its error back,
// having let go of all that it holds, to unlessMet. Preconditions: gate is held.
func (e *Engine) meet(n *node) error {
	for _, c := range e.gate.list() {
		for _, of := range []map[inoKey]struct{}{c.nodes, c.deep, c.chain} {
			if _, has := of[n.key]; has {
				return &met{c}
			}
		}
	}
	return nil
}

// unlessMet does an operation, again after each claim that it met.
func unlessMet(f func() error) error {
	for {
		err := f()
		m, isMet := err.(*met)
		if !isMet {
			return err
		}
		<-m.c.done
	}
}

// claimAgents waits until no claim has any of the agents and claims them. Errors: Closed.
func (e *Engine) claimAgents(op string, agents ...tasktree.Agent) (*claim, error) {
	c := newClaim(agents...)
	for before := e.gate.add(c); before != nil; before = e.gate.add(c) {
		<-before.done
	}
	e.gate.drain()
	if e.closed.Load() {
		e.unclaim(c)
		return nil, fail(op, "", Closed, nil)
	}
	return c, nil
}

// add puts a claim of agents into the list, unless another has one of them.
func (g *gate) add(c *claim) (before *claim) {
	g.changing.Lock()
	defer g.changing.Unlock()
	all := g.list()
	for _, o := range all {
		for a := range c.agents {
			if _, has := o.agents[a]; has {
				return o
			}
		}
	}
	all = append(slices.Clone(all), c)
	g.claims.Store(&all)
	return nil
}

// unclaim ends a claim.
func (e *Engine) unclaim(c *claim) {
	g := &e.gate
	g.changing.Lock()
	kept := slices.DeleteFunc(slices.Clone(g.list()), func(o *claim) bool { return o == c })
	g.claims.Store(&kept)
	g.changing.Unlock()
	close(c.done)
}

// exclusive holds everything: no operation, no task that begins, no move and no reading of history is under way.
func (e *Engine) exclusive() (release func()) {
	e.past.Lock()
	for {
		e.gate.Lock()
		all := e.gate.list()
		if len(all) == 0 {
			return func() {
				e.gate.Unlock()
				e.past.Unlock()
			}
		}
		e.gate.Unlock()
		<-all[0].done
	}
}

// enterPast holds what moves change, for reading it: images, objects in hold, the tree as it was. It is not held for long
// by anybody who lets others wait. leavePast lets it go.
func (e *Engine) enterPast() error {
	e.past.RLock()
	if e.closed.Load() {
		e.past.RUnlock()
		return fail("operate", "", Closed, nil)
	}
	return nil
}

func (e *Engine) leavePast() { e.past.RUnlock() }
