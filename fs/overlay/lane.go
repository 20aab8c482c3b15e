package overlay

import (
	"sync"
	"sync/atomic"

	"github.com/ttfs/ttfs/tasktree"
)

// Operations under way are counted by generation, so that who has claimed something can wait for those that began before it,
// and nobody waits for him: the list of claims is replaced, then the generation is turned, and then the older ones run out.
//
//	enter   count yourself in the generation that is; if it was turned meanwhile, take that back and do it again
//	leave   take that back; the last of an older generation wakes who waits for it
//	drain   turn the generation; wait until each older one has nobody
//
// Whoever finds the new generation, after he was counted, looks at the list of claims after that, and so finds the claim. Whoever
// was counted before the turn is seen by who waits. All of it is by atomics, of which Go has one order.
//
// There are many lanes with a count each. What an agent changes is counted in the lane of that agent, so that the beginning of
// a task waits for operations of its own agent alone, and two processors seldom write to one line of memory.

const (
	// generations is how many of a lane can have somebody at once; who turns to one more waits for the oldest to run out.
	generations = 4
	agentLanes  = 64
	nodeLanes   = 16 // of what changes nothing
)

// lane is a count of operations under way, by generation. The zero value has none.
type lane struct {
	gen atomic.Uint64 // the one in which who enters is counted; only turn changes it
	in  [generations]atomic.Int64

	mu     sync.Mutex
	oldest uint64        // +checklocks:mu all generations before it have run out
	ended  chan struct{} // +checklocks:mu closed when a generation may have run out; nil: nobody waits
}

// passage is one operation under way.
type passage struct {
	l    *lane
	slot uint64
}

func (l *lane) enter() passage {
	for {
		if p, entered := l.enterAt(l.gen.Load()); entered {
			return p
		}
	}
}

// enterAt counts an operation in a generation, unless that is past: then nobody would wait for it there.
func (l *lane) enterAt(gen uint64) (p passage, entered bool) {
	p = passage{l, gen % generations}
	l.in[p.slot].Add(1)
	if l.gen.Load() != gen {
		p.leave()
		return p, false
	}
	return p, true
}

func (p passage) leave() {
	if p.l.in[p.slot].Add(-1) == 0 && p.l.gen.Load()%generations != p.slot {
		p.l.wake()
	}
}

func (l *lane) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended != nil {
		close(l.ended)
		l.ended = nil
	}
}

// idle says that no operation is under way that began before the call.
func (l *lane) idle() bool {
	for i := range l.in {
		if l.in[i].Load() != 0 {
			return false
		}
	}
	return true
}

// turn begins a generation and gives the one before it. It waits when that many have somebody already.
func (l *lane) turn() (last uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.gen.Load()+1-l.settledLocked() >= generations {
		l.waitLocked()
	}
	return l.gen.Add(1) - 1
}

// await waits until a generation and all before it have run out. Preconditions: it was turned.
func (l *lane) await(last uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.settledLocked() <= last {
		l.waitLocked()
	}
}

// settledLocked is the oldest generation that has somebody, or the one that is.
//
// +checklocks:l.mu
func (l *lane) settledLocked() uint64 {
	for l.oldest < l.gen.Load() && l.in[l.oldest%generations].Load() == 0 {
		l.oldest++
	}
	return l.oldest
}

// waitLocked lets the lock go until somebody left an older generation.
//
// +checklocks:l.mu
func (l *lane) waitLocked() {
	if l.ended == nil {
		l.ended = make(chan struct{})
	}
	ended := l.ended
	l.mu.Unlock()
	<-ended
	l.mu.Lock()
}

// lanes are those of one engine.
type lanes struct {
	agents [agentLanes]lane
	nodes  [nodeLanes]lane
	// shut is set while nobody may enter.
	shut atomic.Pointer[shutting]
}

type shutting struct{ over chan struct{} }

// agent is the lane of what an agent changes. Others may have the same.
func (s *lanes) agent(a tasktree.Agent) *lane {
	h := uint32(2166136261) // FNV-1a
	for i := range len(a) {
		h = (h ^ uint32(a[i])) * 16777619
	}
	return &s.agents[h%agentLanes]
}

// of is the lane of an operation.
func (s *lanes) of(a tasktree.Agent, on []target) *lane {
	switch {
	case a != "":
		return s.agent(a)
	case len(on) > 0 && on[0].n != nil:
		return &s.nodes[on[0].n.id%nodeLanes]
	}
	return &s.nodes[0]
}

// enter counts an operation, which waits while everything is held.
func (s *lanes) enter(l *lane) passage {
	for {
		p := l.enter()
		shut := s.shut.Load()
		if shut == nil {
			return p
		}
		p.leave()
		<-shut.over
	}
}

// drain waits until no operation is under way that began before now, in some lanes or, without any named, in all; and for who
// holds everything.
func (s *lanes) drain(some ...*lane) {
	s.runOut(some...)
	for shut := s.shut.Load(); shut != nil; shut = s.shut.Load() {
		<-shut.over
	}
}

func (s *lanes) runOut(some ...*lane) {
	if len(some) == 0 {
		some = make([]*lane, 0, agentLanes+nodeLanes)
		for i := range s.agents {
			some = append(some, &s.agents[i])
		}
		for i := range s.nodes {
			some = append(some, &s.nodes[i])
		}
	}
	type turned struct {
		l    *lane
		last uint64
	}
	var wait []turned
	for _, l := range some {
		if !l.idle() {
			wait = append(wait, turned{l, l.turn()})
		}
	}
	for _, t := range wait {
		t.l.await(t.last)
	}
}

// hold waits until no operation is under way and lets none begin. Preconditions: nobody else holds.
func (s *lanes) hold() (release func()) {
	shut := &shutting{make(chan struct{})}
	s.shut.Store(shut)
	s.runOut()
	return func() {
		s.shut.Store(nil)
		close(shut.over)
	}
}
