package overlay

import "github.com/ttfs/ttfs/tasktree"

// Who reads history keeps no move up: he reads, and then looks whether a move that meets what he has read changed something
// meanwhile. What he has read is known of a path (only); else it counts as everything. If one did, he waits for its end and reads
// again. He holds past for reading, so that what he reads is not pruned, nor the engine closed.

// keptRuns is how many moves that have ended are remembered. Who reads for longer than so many moves take reads again.
const keptRuns = 64

// keptClaim is how much a remembered claim may name. A larger one is taken for one that meets everybody.
const keptClaim = 1 << 12

// readTries is how often somebody reads before moves have to wait for him.
const readTries = 8

// running is a move that changes something, or the archiver.
type running struct {
	own  *claim // nil: it meets everybody
	done chan struct{}
}

// foot is what somebody has read.
type foot struct {
	all    bool // anything
	agents map[tasktree.Agent]struct{}
	keys   map[inoKey]struct{}      // inodes
	ways   map[inoKey]struct{}      // what is on the way to them
	names  map[claimedSpot]struct{} // entries
	listed inoKey                   // a directory whose entries were looked at
}

// run says that a move begins to change what it has claimed; end, that it has ended.
func (g *gate) run(own *claim) (end func()) {
	r := &running{own: own, done: make(chan struct{})}
	g.changing.Lock()
	defer g.changing.Unlock()
	g.runs = append(g.runs, r)
	return func() {
		g.changing.Lock()
		defer g.changing.Unlock()
		for i, o := range g.runs {
			if o == r {
				g.runs = append(g.runs[:i:i], g.runs[i+1:]...)
			}
		}
		kept := &running{own: own, done: r.done}
		if own != nil && own.paths != nil && own.paths.size() > keptClaim {
			kept.own = nil
		}
		g.ended[g.ends%keptRuns] = kept
		g.ends++
		close(r.done)
	}
}

func (c *claim) size() int {
	return len(c.spots) + len(c.nodes) + len(c.times) + len(c.deep) + len(c.chain) + len(c.names)
}

// since is how many moves have ended.
func (g *gate) since() uint64 {
	g.changing.Lock()
	defer g.changing.Unlock()
	return g.ends
}

// trod says whether a move has changed what somebody has read since ends moves had ended, or changes it now, and what tells
// of that one's end; nil: none has.
func (g *gate) trod(f *foot, ends uint64) <-chan struct{} {
	g.changing.Lock()
	defer g.changing.Unlock()
	for _, r := range g.runs {
		if f.meets(r) {
			return r.done
		}
	}
	if g.ends-ends > keptRuns {
		ends = g.ends - keptRuns // these are all past; what is forgotten counts as met below
		return g.ended[ends%keptRuns].done
	}
	for ; ends < g.ends; ends++ {
		if r := g.ended[ends%keptRuns]; f.meets(r) {
			return r.done
		}
	}
	return nil
}

// by is a view for one who reads, which notes what he reads.
func (v *view) by(ft *foot) *view {
	w := *v
	w.foot = ft
	return &w
}

// movedSince says whether a move is under way, or was since swaps had a value.
func (e *Engine) movedSince(swaps uint64) bool {
	return e.moving.Load() != 0 || e.swaps.Load() != swaps
}

func (f *foot) meets(r *running) bool {
	if f.all || r.own == nil || common(f.agents, r.own.agents) {
		return true
	}
	c := r.own.paths
	if c == nil {
		return false
	}
	if common(f.keys, c.nodes) || common(f.keys, c.times) || common(f.keys, c.deep) || common(f.ways, c.deep) || common(f.names, c.spots) {
		return true
	}
	for s := range c.spots {
		if s.dir == f.listed && f.listed != (inoKey{}) {
			return true
		}
	}
	return false
}

// only says that nothing was read but the images of a plan and what is at one place of its view.
func (f *foot) only(e *Engine, p *tasktree.Plan, r *ref) error {
	f.agents, f.keys, f.ways, f.names = map[tasktree.Agent]struct{}{p.Agent: {}}, map[inoKey]struct{}{}, map[inoKey]struct{}{}, map[claimedSpot]struct{}{}
	for _, s := range p.Steps {
		k, _ := e.Task(s.Task)
		f.agents[k.Agent] = struct{}{}
	}
	k := &claiming{e: e, chains: map[OID]struct{}{}, chain: f.ways}
	var below *ref
	for at := r; at != nil; at = at.up {
		key := at.key
		if at.id != 0 {
			o, found, err := e.getObject(at.id)
			if err != nil || !found {
				return err // it stays everything
			}
			key = o.key
			if err := k.wayTo(at.id); err != nil {
				return err
			}
		}
		f.ways[key] = struct{}{}
		if below == nil {
			f.keys[key] = struct{}{}
			f.listed = key
		} else {
			f.names[claimedSpot{key, below.name}] = struct{}{}
		}
		below = at
	}
	f.all = false
	return nil
}

// reading does what reads history, again until no move has come between. f may be called several times; what it said last
// counts. Errors: Closed; those of f.
func (e *Engine) reading(f func(*foot) error) error { return e.readingBeside(nil, f) }

// readingBeside is reading for a move, which has claimed own. Waiting for a move that changes something is no circle, for that
// one waits for no claim.
func (e *Engine) readingBeside(own *claim, f func(*foot) error) error {
	for try := 0; own != nil || try < readTries; try++ {
		if err := e.enterPast(); err != nil {
			return err
		}
		ends, ft := e.gate.since(), &foot{all: true}
		err := f(ft)
		e.leavePast()
		met := e.gate.trod(ft, ends)
		if met == nil {
			return err
		}
		<-met
	}
	// Moves come one after the other: they wait once.
	door := newClaim()
	door.shut = true
	for before := e.gate.add(door); before != nil; before = e.gate.add(door) {
		<-before
	}
	defer e.unclaim(door)
	for o := e.gate.other(door); o != nil; o = e.gate.other(door) {
		<-o.done
	}
	if err := e.enterPast(); err != nil {
		return err
	}
	defer e.leavePast()
	return f(&foot{})
}

// hold keeps the moves of one agent away, from who changes how something is kept that they change. It is not held for long.
type hold struct {
	agent tasktree.Agent
	done  chan struct{}
}

// holdPast keeps an agent's moves away. When one is under way it does not, and busy tells of that one's end.
func (e *Engine) holdPast(a tasktree.Agent) (release func(), busy <-chan struct{}) {
	g := &e.gate
	g.changing.Lock()
	defer g.changing.Unlock()
	for _, o := range g.list() {
		if _, has := o.agents[a]; has && o.moves {
			return nil, o.done
		}
	}
	h := &hold{a, make(chan struct{})}
	g.holds = append(g.holds, h)
	return func() {
		g.changing.Lock()
		defer g.changing.Unlock()
		for i, o := range g.holds {
			if o == h {
				g.holds = append(g.holds[:i:i], g.holds[i+1:]...)
			}
		}
		close(h.done)
	}, nil
}
