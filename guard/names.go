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
	w := Writer{a.name(), a.Task}
	if a.human() {
		if s.files[f] != nil || s.places[p] != nil {
			s.anew(s.record(f), p, w, at)
		}
		return at
	}
	g, m := s.enlist(a)
	k := s.know(g.mind, f)
	s.anew(k.rec, p, w, at)
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
func (s *State) anew(r *record, p Path, w Writer, at Seq) {
	r.born, r.clean, r.log = at, at, ledger{}
	r.log.add(w, at)
	s.rebound(p, r, w, at)
}

// rebound says that p names r from now on, nil: nothing.
func (s *State) rebound(p Path, r *record, w Writer, at Seq) {
	if pl := s.places[p]; pl != nil {
		pl.log.add(w, at)
		s.settle(pl, r)
	}
}

// Removed says that the actor unlinked p, which named f.
func (s *State) Removed(a Actor, f File, p Path) Seq {
	at := s.next()
	s.rebound(p, nil, Writer{a.name(), a.Task}, at)
	if a.human() {
		return at
	}
	if g, m := s.find(a); g != nil {
		g.absent(f, p, at)
		if m != nil {
			m.absent(f, p, at)
		}
	}
	return at
}

// absent is what the mind knows of a path that it has emptied itself. A file without any name is the next to be forgotten.
func (m *mind) absent(f File, p Path, at Seq) {
	if n := m.names[p]; n != nil && !n.stale(m.me) {
		n.as = at
	}
	if k := m.files[f]; k != nil && len(k.names) <= 1 {
		m.age(k)
	}
}

// Renamed says that the actor moved f from one path to another, over whatever was there. A directory takes along all that
// is known below it.
// Preconditions: not reported when the kernel did nothing, because both paths name one file.
func (s *State) Renamed(a Actor, f File, from, to Path, dir bool) Seq {
	w := Writer{a.name(), a.Task}
	if dir {
		s.carry(from, to, w)
		return s.seq
	}
	at := s.next()
	s.rebound(from, nil, w, at)
	s.bound(a, f, to, w, at)
	s.follow(a, f, from, to, at)
	if !a.human() {
		if g, m := s.find(a); g != nil {
			g.left(from, at)
			if m != nil {
				m.left(from, at)
			}
		}
	}
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

// left is what the mind knows of a path from which it has moved a file itself.
func (m *mind) left(p Path, at Seq) {
	if n := m.names[p]; n != nil && !n.stale(m.me) {
		n.as = at
	}
}

// bound says that the actor gave f the name p.
func (s *State) bound(a Actor, f File, p Path, w Writer, at Seq) {
	if s.places[p] != nil {
		s.rebound(p, s.record(f), w, at)
	}
	if a.human() {
		return
	}
	g, m := s.enlist(a)
	if s.files[f] == nil {
		return // nobody knows the file, nobody knows the path
	}
	if g.files[f] != nil || g.names[p] != nil {
		s.bind(g.mind, p, s.know(g.mind, f), at, false)
	}
	if m != nil && (m.files[f] != nil || m.names[p] != nil) {
		s.inherit(g, m, p, s.know(m, f), at)
	}
}

// Linked says that the actor gave f one more name, over whatever was there.
func (s *State) Linked(a Actor, f File, p Path) Seq {
	at := s.next()
	s.bound(a, f, p, Writer{a.name(), a.Task}, at)
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
	s.crossed(a, x, y.Path, w, at)
	s.crossed(a, y, x.Path, w, at)
	return at
}

// crossed is one half of an exchange: e has come to p.
func (s *State) crossed(a Actor, e End, p Path, w Writer, at Seq) {
	if e.Dir {
		s.rebound(p, nil, w, at)
		return
	}
	s.bound(a, e.File, p, w, at)
}
