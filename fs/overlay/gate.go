package overlay

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ttfs/ttfs/tasktree"
)

// The gate lets operations, tasks and moves go on beside one another unless they meet.
//
// An operation passes the gate, where it is counted, and names what it works on. A move, or the beginning of a task, says what
// is its own: a claim. Then it waits for the operations that began before the claim (lane.go), which holds nobody up; who comes
// later and meets it leaves and waits for the claim's end. So a move works for as long as it takes, and holds up those alone
// who come to a path of its own, and its own agents.
//
// A move waits for all operations that began before. The beginning of a task claims its agent alone, and waits for what that agent
// and its family change: what may not be of the one task and come after what is of the next is changed by its agent, or kept for it
// by its family (kin.go). What an operation of anybody else's does to what the agent has touched (own), or writes into its task since the
// agent wrote unseen before it (unseen.go), it does under the lock of the thing, for whichever run is there then; the beginning takes the same
// lock to tell what was written unseen, and to keep the file for the next task.
//
// What a move's claim names:
//
//	agents  those whose tasks move: all that they change waits
//	spots   entries that change
//	nodes   inodes whose content or metadata change
//	deep    inodes that come or go: they, and all that is below them, wait
//	chain   the directories on the way to all of these: they stay where they are
//
// How moves go on beside one another is in meet.go, and how history is read beside them in past.go.
type gate struct {
	lanes

	changing sync.Mutex
	// claims is a list that is never changed but replaced, under changing. Whoever was counted and does not find a claim in it
	// began before the claim.
	claims atomic.Pointer[[]*claim]

	runs  []*running         // +checklocks:changing moves that change something at this moment
	ended [keptRuns]*running // +checklocks:changing the last that did
	ends  uint64             // +checklocks:changing how many have ended
	holds []*hold            // +checklocks:changing
	queue []*claim           // +checklocks:changing claims of agents that wait, first come first
}

func (g *gate) list() []*claim {
	if all := g.claims.Load(); all != nil {
		return *all
	}
	return nil
}

// claim is what one move, or the beginning of one task, keeps for itself. A move has two: first its agents, then the paths.
// It is not changed while it is in the gate.
type claim struct {
	agents map[tasktree.Agent]struct{}
	spots  map[claimedSpot]struct{}
	nodes  map[inoKey]struct{}
	times  map[inoKey]struct{} // directories of which nothing but the times changes
	deep   map[inoKey]struct{}
	chain  map[inoKey]struct{}
	names  map[claimedSpot]struct{} // entries that must stay as they are; operations do not meet them
	done   chan struct{}            // closed when the claim ends

	in    chan struct{} // of agents: closed when the claim is in the list
	moves bool          // it is of a move
	paths *claim        // of a move's agents: the claim of its paths; nil: none yet
	shut  bool          // nobody's agents are claimed after it
}

type claimedSpot struct {
	dir  inoKey
	name string
}

func newClaim(agents ...tasktree.Agent) *claim {
	c := &claim{agents: map[tasktree.Agent]struct{}{}, done: make(chan struct{}), in: make(chan struct{})}
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

// enterOp counts an operation that can meet no move, or is told in the midst that it does (meet); leave ends it. Errors: Closed.
func (e *Engine) enterOp() (passage, error) { return e.pass(e.gate.of("", nil)) }

func (e *Engine) pass(l *lane) (passage, error) {
	p := e.gate.enter(l)
	if e.closed.Load() {
		p.leave()
		return passage{}, fail("operate", "", Closed, nil)
	}
	return p, nil
}

// enterOn is enterOp for an operation on some targets, by an agent if it changes anything, else by "". It waits for the
// claims that the operation meets. Preconditions: the nodes are pinned; no lock is held.
func (e *Engine) enterOn(a tasktree.Agent, on ...target) (passage, error) {
	for {
		p, err := e.pass(e.gate.of(a, on))
		if err != nil {
			return p, err
		}
		c := e.metBy(a, on)
		if c == nil {
			return p, nil
		}
		p.leave()
		<-c.done
	}
}

// metBy is a claim that an operation meets; nil: none. Preconditions: the operation is counted.
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
		if _, has := c.times[t.n.key]; has {
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
// having let go of all that it holds, to unlessMet. Preconditions: the operation is counted.
func (e *Engine) meet(n *node) error {
	for _, c := range e.gate.list() {
		for _, of := range [...]map[inoKey]struct{}{c.nodes, c.times, c.deep, c.chain} {
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

// claimAgents waits until no claim has any of the agents and claims them, and waits for operations of theirs and of their
// families that are under way; for those of all others a move waits when it claims paths. Errors: Closed.
func (e *Engine) claimAgents(op string, moves bool, agents ...tasktree.Agent) (*claim, error) {
	c := newClaim(agents...)
	c.moves = moves
	for before := e.gate.add(c); before != nil; before = e.gate.add(c) {
		<-before
	}
	e.gate.drain(e.familyLanes(agents...)...)
	if e.closed.Load() {
		e.unclaim(c)
		return nil, fail(op, "", Closed, nil)
	}
	return c, nil
}

// familyLanes are those of the operations that may write into a task of an agent's.
func (e *Engine) familyLanes(agents ...tasktree.Agent) (all []*lane) {
	t := &e.tasks
	t.mu.Lock()
	defer t.mu.Unlock()
	add := func(a tasktree.Agent) {
		if l := e.gate.agent(a); !slices.Contains(all, l) {
			all = append(all, l)
		}
	}
	heads := map[tasktree.Agent]bool{}
	for _, a := range agents {
		add(a)
		heads[t.firstLocked(a)] = true
	}
	if len(t.parents) == 0 {
		return all
	}
	for _, o := range t.tree.Agents() {
		if heads[t.firstLocked(o)] {
			add(o)
		}
	}
	return all
}

// add puts a claim of agents into the list, unless it meets what is there, or what has waited for longer: then it gives what
// tells of that one's end, or that it is there.
func (g *gate) add(c *claim) (before <-chan struct{}) {
	g.changing.Lock()
	defer g.changing.Unlock()
	turn := slices.Index(g.queue, c)
	if before = g.bars(c, turn); before != nil {
		if turn < 0 {
			g.queue = append(g.queue, c)
		}
		return before
	}
	if turn >= 0 {
		g.queue = slices.Delete(g.queue, turn, turn+1)
	}
	close(c.in)
	g.replace(nil, c)
	return nil
}

// bars is what a claim of agents, which is in the queue at turn or not at all, has to wait for.
//
// +checklocks:g.changing
func (g *gate) bars(c *claim, turn int) <-chan struct{} {
	for _, o := range g.list() {
		if o.shut || common(o.agents, c.agents) {
			return o.done
		}
	}
	for i, o := range g.queue {
		if i == turn {
			break
		}
		if common(o.agents, c.agents) {
			return o.in
		}
	}
	for _, h := range g.holds {
		if _, has := c.agents[h.agent]; has && c.moves {
			return h.done
		}
	}
	return nil
}

// unclaim ends a claim, and that of the paths with it.
func (e *Engine) unclaim(c *claim) {
	e.gate.changing.Lock()
	defer e.gate.changing.Unlock()
	if c.paths != nil {
		e.gate.replace(c.paths, nil)
	}
	e.gate.replace(c, nil)
}

// replace puts a claim into the list in the place of another; nil: none.
//
// +checklocks:g.changing
func (g *gate) replace(old, by *claim) {
	all := make([]*claim, 0, len(g.list())+1)
	for _, o := range g.list() {
		if o != old {
			all = append(all, o)
		}
	}
	if by != nil {
		all = append(all, by)
	}
	g.claims.Store(&all)
	if old != nil {
		close(old.done)
	}
}

// exclusive holds everything: no operation, no task that begins, no move and no reading of history is under way. The moves
// under way are waited for, and new ones and new tasks wait meanwhile; who reads history, or works, does not.
func (e *Engine) exclusive() (release func()) {
	door := newClaim()
	door.shut = true
	for before := e.gate.add(door); before != nil; before = e.gate.add(door) {
		<-before
	}
	for o := e.gate.other(door); o != nil; o = e.gate.other(door) {
		<-o.done
	}
	e.past.Lock()
	open := e.gate.hold()
	return func() {
		open()
		e.past.Unlock()
		e.unclaim(door)
	}
}

// other is a claim beside one; nil: there is none.
func (g *gate) other(than *claim) *claim {
	for _, o := range g.list() {
		if o != than {
			return o
		}
	}
	return nil
}

// exclusiveNow is exclusive, unless a move is under way: then it holds nothing. It looks at the claims after it has shut the
// gate, and who claims looks whether the gate is shut after that (drain): one of the two sees the other.
func (e *Engine) exclusiveNow() (release func(), ok bool) {
	for {
		e.past.Lock()
		open := e.gate.hold()
		release = func() {
			open()
			e.past.Unlock()
		}
		all := e.gate.list()
		if len(all) == 0 {
			return release, true
		}
		release()
		if slices.ContainsFunc(all, func(o *claim) bool { return o.moves }) {
			return nil, false
		}
		<-all[0].done
	}
}

// enterPast holds what was for reading, so that none of it is given up. It is not held for long by anybody who lets others
// wait. leavePast lets it go. Moves do not wait for it: see reading.
func (e *Engine) enterPast() error {
	e.past.RLock()
	if e.closed.Load() {
		e.past.RUnlock()
		return fail("operate", "", Closed, nil)
	}
	return nil
}

func (e *Engine) leavePast() { e.past.RUnlock() }
