package overlay

import (
	"sync"

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
	claims []*claim // +checklocks:RWMutex
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
	for _, c := range e.gate.claims {
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
	if t.name != "" {
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
	for _, c := range e.gate.claims {
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
	for {
		e.gate.Lock()
		if e.closed.Load() {
			e.gate.Unlock()
			return nil, fail(op, "", Closed, nil)
		}
		var before *claim
		for _, a := range agents {
			if before = e.metBy(a, nil); before != nil {
				break
			}
		}
		if before == nil {
			c := newClaim(agents...)
			e.gate.claims = append(e.gate.claims, c)
			e.gate.Unlock()
			return c, nil
		}
		e.gate.Unlock()
		<-before.done
	}
}

// unclaim ends a claim.
func (e *Engine) unclaim(c *claim) {
	e.gate.Lock()
	kept := make([]*claim, 0, len(e.gate.claims))
	for _, o := range e.gate.claims {
		if o != c {
			kept = append(kept, o)
		}
	}
	e.gate.claims = kept
	e.gate.Unlock()
	close(c.done)
}

// claimImages adds to a move's claim all that making images of the workspace can change. When it returns, no operation
// that met any of it is under way. Preconditions: past is held for writing.
func (e *Engine) claimImages(c *claim, all []*images) error {
	k := &claiming{e: e, chains: map[OID][]inoKey{}, spots: map[claimedSpot]struct{}{}, nodes: map[inoKey]struct{}{}, deep: map[inoKey]struct{}{}, chain: map[inoKey]struct{}{}}
	for _, im := range all {
		if err := k.images(im); err != nil {
			return err
		}
	}
	e.widen(c, k)
	for {
		// Who is at the entries can change no more. The directories on the way can have been moved before they were claimed.
		if err := k.occupants(all); err != nil {
			return err
		}
		before := len(k.chain)
		k.chains = map[OID][]inoKey{}
		if err := k.ways(all); err != nil {
			return err
		}
		e.widen(c, k)
		if len(k.chain) == before {
			return nil
		}
	}
}

// claimPlan is claimImages for the tasks of a plan.
func (e *Engine) claimPlan(c *claim, p tasktree.Plan) error {
	all := make([]*images, 0, len(p.Steps))
	for _, s := range p.Steps {
		im, err := e.readImages(s.Task)
		if err != nil {
			return err
		}
		all = append(all, im)
	}
	return e.claimImages(c, all)
}

// widen puts what was found into the claim, and waits for the operations under way.
func (e *Engine) widen(c *claim, k *claiming) {
	e.gate.Lock()
	defer e.gate.Unlock()
	c.spots, c.nodes, c.deep, c.chain = k.spots, k.nodes, k.deep, k.chain
	// What the claim has from now on is its own: the maps are read under the gate.
	k.spots, k.nodes, k.deep, k.chain = clone(k.spots), clone(k.nodes), clone(k.deep), clone(k.chain)
}

func clone[K comparable](m map[K]struct{}) map[K]struct{} {
	out := make(map[K]struct{}, len(m))
	for k := range m {
		out[k] = struct{}{}
	}
	return out
}

// claiming gathers a claim.
type claiming struct {
	e      *Engine
	chains map[OID][]inoKey // the directories above one, itself included
	spots  map[claimedSpot]struct{}
	nodes  map[inoKey]struct{}
	deep   map[inoKey]struct{}
	chain  map[inoKey]struct{}
}

func (k *claiming) images(im *images) error {
	for at, id := range im.entries {
		dir, found, err := k.e.getObject(at.dir)
		if err != nil {
			return err
		}
		if found {
			k.spots[claimedSpot{dir.key, at.name}] = struct{}{}
		}
		if id != 0 {
			if err := k.object(id, k.deep); err != nil {
				return err
			}
		}
	}
	for id := range im.metas {
		if err := k.object(id, k.nodes); err != nil {
			return err
		}
	}
	for id := range im.contents {
		if err := k.object(id, k.nodes); err != nil {
			return err
		}
	}
	return k.ways([]*images{im})
}

func (k *claiming) object(id OID, into map[inoKey]struct{}) error {
	o, found, err := k.e.getObject(id)
	if found {
		into[o.key] = struct{}{}
	}
	return err
}

// ways adds the directories on the way to everything.
func (k *claiming) ways(all []*images) error {
	for _, im := range all {
		for at, id := range im.entries {
			if err := k.way(at.dir); err != nil {
				return err
			}
			if err := k.wayTo(id); err != nil {
				return err
			}
		}
		for id := range im.metas {
			if err := k.wayTo(id); err != nil {
				return err
			}
		}
		for id := range im.contents {
			if err := k.wayTo(id); err != nil {
				return err
			}
		}
	}
	return nil
}

// wayTo adds the directories on the way to an object.
func (k *claiming) wayTo(id OID) error {
	if id == 0 || id == rootOID {
		return nil
	}
	o, found, err := k.e.getObject(id)
	if err != nil || !found {
		return err
	}
	if err := k.way(o.at.dir); err != nil {
		return err
	}
	return k.way(o.was.dir)
}

// way adds a directory and those above it.
func (k *claiming) way(dir OID) error {
	for depth := 0; dir != 0 && dir != rootOID && depth < maxDepth; depth++ {
		if _, seen := k.chains[dir]; seen {
			return nil
		}
		k.chains[dir] = nil
		o, found, err := k.e.getObject(dir)
		if err != nil || !found {
			return err
		}
		k.chain[o.key] = struct{}{}
		if o.was.dir != 0 {
			if err := k.way(o.was.dir); err != nil {
				return err
			}
		}
		dir = o.at.dir
	}
	return nil
}

// occupants adds what is at the entries now.
func (k *claiming) occupants(all []*images) error {
	for _, im := range all {
		for at := range im.entries {
			fd, done, err := k.e.openDir(at.dir, 0)
			if err != nil {
				continue // the move says so
			}
			var st Stat
			err = statAt(fd, at.name, &st)
			done()
			if err == nil {
				k.deep[keyOf(&st)] = struct{}{}
			} else if !absent(err) {
				return fail("move", at.name, IO, err)
			}
		}
	}
	return nil
}

// exclusive holds everything: no operation, no task that begins, no move and no reading of history is under way.
func (e *Engine) exclusive() (release func()) {
	e.past.Lock()
	for {
		e.gate.Lock()
		if len(e.gate.claims) == 0 {
			return func() {
				e.gate.Unlock()
				e.past.Unlock()
			}
		}
		c := e.gate.claims[0]
		e.gate.Unlock()
		<-c.done
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
