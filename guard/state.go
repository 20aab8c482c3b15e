package guard

import "slices"

// State is what all agents know of one workspace. Whoever uses it guards it.
type State struct {
	seq    Seq
	tick   uint64
	files  map[File]*record
	places map[Path]*place
	agents map[Agent]*agent
	busy   map[File][]rewriter
	hot    *agent // the last one asked for
}

// agent is what an agent and its processes know.
type agent struct {
	*mind
	procs   map[Process]*mind
	hot     *mind
	hotProc Process
}

// New is the state in which nobody knows anything.
func New() *State {
	return &State{files: map[File]*record{}, places: map[Path]*place{}, agents: map[Agent]*agent{}, busy: map[File][]rewriter{}}
}

// Now is the number of the newest change: taken before a read, it is the version that the read is of.
func (s *State) Now() Seq { return s.seq }

// Version is the number of the last change of a file's content that anybody's knowledge still needs; 0: none.
func (s *State) Version(f File) Seq {
	if r := s.files[f]; r != nil {
		return r.log.last
	}
	return 0
}

// Follows says whether anybody's knowledge, or a path that somebody knows, needs the file.
func (s *State) Follows(f File) bool { return s.files[f] != nil }

// Knows says whether anything is kept for the agent.
func (s *State) Knows(a Agent) bool { return s.agents[a] != nil }

// Agents are those of which something is kept, sorted.
func (s *State) Agents() []Agent { return sortedKeys(s.agents) }

// End forgets an agent: its knowledge, its processes, its windows of rewriting. What it wrote stays in what others know.
func (s *State) End(a Agent) {
	s.endRewrites(a)
	s.expel(a)
}

// expel forgets all knowledge of an agent.
func (s *State) expel(a Agent) {
	g := s.agents[a]
	if g == nil {
		return
	}
	for _, m := range g.procs {
		s.dissolve(m)
	}
	s.dissolve(g.mind)
	delete(s.agents, a)
	if s.hot == g {
		s.hot = nil
	}
}

// EndProcess forgets what a process knew for whichever agents it acted.
func (s *State) EndProcess(p Process) {
	for _, g := range s.agents {
		if m := g.procs[p]; m != nil {
			s.endProcess(g, p, m)
		}
	}
}

// Forget makes a file unread for everybody, as if nobody had ever written it: a base was restored over it.
func (s *State) Forget(f File) Seq {
	at := s.next()
	if r := s.files[f]; r != nil {
		r.born, r.clean, r.log = at, 0, ledger{}
	}
	return at
}

func (s *State) endProcess(g *agent, p Process, m *mind) {
	s.dissolve(m)
	delete(g.procs, p)
	if g.hot == m {
		g.hot = nil
	}
}

// Stats counts what is kept.
type Stats struct{ Agents, Processes, Files, Paths, Knowledge int }

// Stats counts what is kept.
func (s *State) Stats() Stats {
	st := Stats{Agents: len(s.agents), Files: len(s.files), Paths: len(s.places)}
	for _, g := range s.agents {
		st.Processes += len(g.procs)
		st.Knowledge += len(g.files)
	}
	return st
}

// find is the agent and the process of an actor as far as they are known: both may be nil.
func (s *State) find(a Actor) (*agent, *mind) {
	g := s.hot
	if g == nil || g.me != a.Agent {
		if g = s.agents[a.Agent]; g == nil {
			return nil, nil
		}
	}
	if a.Proc.PID == 0 {
		return g, nil
	}
	if g.hot != nil && g.hotProc == a.Proc {
		return g, g.hot
	}
	return g, g.procs[a.Proc]
}

// enlist is find that makes what is missing, and notes the use. The process is nil when it is unknown who it is.
func (s *State) enlist(a Actor) (*agent, *mind) {
	g, m := s.find(a)
	s.tick++
	if g == nil {
		if len(s.agents) >= maxAgents {
			s.expel(leastUsed(s.agents, func(g *agent) uint64 { return g.used }))
		}
		g = &agent{mind: newMind(a.Agent, maxFiles), procs: map[Process]*mind{}}
		s.agents[a.Agent] = g
	}
	s.hot, g.used = g, s.tick
	if a.Proc.PID == 0 {
		return g, nil
	}
	if m == nil {
		if len(g.procs) >= maxProcesses {
			p := leastUsed(g.procs, func(m *mind) uint64 { return m.used })
			s.endProcess(g, p, g.procs[p])
		}
		m = newMind(a.Agent, maxOfProcess)
		g.procs[a.Proc] = m
	}
	g.hot, g.hotProc, m.used = m, a.Proc, s.tick
	return g, m
}

// leastUsed is the key of the value with the smallest use; no two are equal.
func leastUsed[K comparable, V any](all map[K]V, use func(V) uint64) K {
	var key K
	least := ^uint64(0)
	for k, v := range all {
		if u := use(v); u < least {
			key, least = k, u
		}
	}
	return key
}

func sortedKeys[K ~string | ~uint64, V any](all map[K]V) []K {
	keys := make([]K, 0, len(all))
	for k := range all {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// next is the number of a new change.
func (s *State) next() Seq {
	s.seq++
	return s.seq
}

// record finds or makes the record of a file. The caller lets something point to it.
func (s *State) record(f File) *record {
	r := s.files[f]
	if r == nil {
		r = &record{id: f, size: -1}
		s.files[f] = r
	}
	return r
}

func (s *State) release(r *record) {
	if r.refs--; r.refs == 0 {
		delete(s.files, r.id)
	}
}

// enter finds or makes the place of a path, which names r, and counts one more who needs it.
func (s *State) enter(p Path, r *record) *place {
	pl := s.places[p]
	if pl == nil {
		pl = &place{path: p}
		s.places[p] = pl
		s.settle(pl, r)
	}
	pl.refs++
	return pl
}

func (s *State) leave(pl *place) {
	if pl.refs--; pl.refs == 0 {
		delete(s.places, pl.path)
		s.settle(pl, nil)
	}
}

// settle says what a place names from now on.
func (s *State) settle(pl *place, r *record) {
	old := pl.file
	if r != nil {
		r.refs++
	}
	pl.file = r
	if old != nil {
		s.release(old)
	}
}
