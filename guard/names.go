package guard

// End is one end of an operation on two paths.
type End struct {
	File File
	Path Path
	// SizeBytes is the size of the file, for Decide.
	SizeBytes int64
	// Dir says that it is a directory, for Exchanged.
	Dir bool
}

// Created says that the actor made a file, empty, at p; "": without a name (O_TMPFILE). Whatever was known of that number
// of a file is forgotten.
func (s *State) Created(a Actor, f File, p Path) Seq {
	at := s.next()
	if a.human() {
		if s.files[f] != nil || s.places[p] != nil {
			s.anew(a, s.record(f), p, at)
		}
		return at
	}
	g, m := s.enlist(a)
	k := s.know(g.mind, f)
	s.anew(a, k.rec, p, at)
	k.write(g.me, at, at, 0, 0, 0)
	s.bind(g.mind, p, k, at, false)
	if m != nil {
		o := s.know(m, f)
		o.write(m.me, at, at, 0, 0, 0)
		s.inherit(g, m, p, o, at)
	}
	return at
}

// anew is a new file under the number of r, at p.
func (s *State) anew(a Actor, r *record, p Path, at Seq) {
	r.born, r.clean, r.log, r.size = at, at, ledger{}, 0
	r.log.add(Writer{a.name(), a.Task}, at)
	s.rebound(a, p, r, at)
}

// rebound says that p names r from now on, nil: nothing. What the actor knows of p keeps up unless it was behind: so an own
// change hides nobody's. Who changed the file that p named is remembered with the path.
func (s *State) rebound(a Actor, p Path, r *record, at Seq) {
	pl := s.places[p]
	if pl == nil {
		return
	}
	if g, m := s.find(a); g != nil {
		g.own(p, at)
		if m != nil {
			m.own(p, at)
		}
	}
	if pl.file != nil {
		since := pl.log.last
		for _, e := range pl.file.log.entries {
			if e.at > since {
				pl.log.add(e.Writer, e.at)
			}
		}
	}
	pl.log.add(Writer{a.name(), a.Task}, at)
	s.settle(pl, r)
}

// own is a change of what a path names by the mind's own actor.
func (m *mind) own(p Path, at Seq) {
	if n := m.names[p]; n != nil && !n.behind(m.me) {
		n.as = at
	}
}

// Removed says that the actor unlinked p, which named f. A file that the actor knows by no other name is the next to be
// forgotten.
func (s *State) Removed(a Actor, f File, p Path) Seq {
	at := s.next()
	s.rebound(a, p, nil, at)
	g, m := s.find(a)
	if g != nil && !a.human() {
		g.fade(f)
		if m != nil {
			m.fade(f)
		}
	}
	return at
}

func (m *mind) fade(f File) {
	if k := m.files[f]; k != nil && len(k.names) <= 1 {
		m.age(k)
	}
}

// Renamed says that the actor moved f from one path to another, over whatever was there. A directory takes along all that
// is known below it.
// Preconditions: not reported when the kernel did nothing, because both paths name one file.
func (s *State) Renamed(a Actor, f File, from, to Path, dir bool) Seq {
	if dir {
		s.carry(from, to, Writer{a.name(), a.Task})
		return s.seq
	}
	at := s.next()
	s.rebound(a, from, nil, at)
	s.bound(a, f, to, at)
	s.follow(a, f, from, to, at)
	return at
}

// follow lets everybody else know the new path of a file that they knew by the old one.
func (s *State) follow(a Actor, f File, from, to Path, at Seq) {
	if s.files[f] == nil {
		return
	}
	for _, g := range s.agents {
		if k := g.files[f]; g.me != a.Agent && k.valid() && g.names[from] != nil && g.names[from].known == k {
			s.bind(g.mind, to, k, at, false)
		}
	}
}

// bound says that the actor gave f the name p.
func (s *State) bound(a Actor, f File, p Path, at Seq) {
	if s.places[p] != nil {
		s.rebound(a, p, s.record(f), at)
	}
	if a.human() {
		return
	}
	g, m := s.enlist(a)
	if s.files[f] == nil {
		return // nobody knows the file, nobody knows the path
	}
	if g.files[f].valid() || g.names[p] != nil {
		s.bind(g.mind, p, s.know(g.mind, f), at, false)
	}
	if m != nil && (m.files[f].valid() || m.names[p] != nil) {
		s.inherit(g, m, p, s.know(m, f), at)
	}
}

// Linked says that the actor gave f one more name, over whatever was there.
func (s *State) Linked(a Actor, f File, p Path) Seq {
	at := s.next()
	s.bound(a, f, p, at)
	return at
}

// Exchanged says that the actor exchanged what two paths name.
func (s *State) Exchanged(a Actor, x, y End) Seq {
	w := Writer{a.name(), a.Task}
	if x.Dir || y.Dir {
		const aside = "\x00"
		s.carry(x.Path, aside, w)
		s.carry(y.Path, x.Path, w)
		s.carry(aside, y.Path, w)
	}
	at := s.next()
	s.crossed(a, x, y.Path, at)
	s.crossed(a, y, x.Path, at)
	return at
}

// crossed is one half of an exchange: e has come to p.
func (s *State) crossed(a Actor, e End, p Path, at Seq) {
	if e.Dir {
		s.rebound(a, p, nil, at)
		return
	}
	s.bound(a, e.File, p, at)
}

// inherit binds a path for a process after its agent: a name that is new to it is as old as its agent's.
func (s *State) inherit(g *agent, m *mind, p Path, k *known, at Seq) {
	if n := g.names[p]; n != nil && m.names[p] == nil {
		at = n.as
	}
	s.bind(m, p, k, at, false)
}
