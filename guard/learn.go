package guard

// Opened says that a file was opened by a path, and gives the version as of the open. Opened for reading, a file of up to
// SmallBytes counts as read whole; of a bigger one Read says what was read. It also notices when the path names another file
// than it did by all that was reported: then it was replaced around the mount.
// Preconditions: an open that truncates is reported as Wrote first.
func (s *State) Opened(a Actor, f File, p Path, sizeBytes int64, mode Mode) Seq {
	s.notice(f, p)
	if a.human() {
		return s.seq
	}
	g, m := s.enlist(a)
	s.know(g.mind, f).rec.size = sizeBytes // from now on it is kept who writes, also in the middle of the first read
	if mode&ForReading == 0 || sizeBytes > SmallBytes {
		return s.seq
	}
	s.learn(g.mind, f, p, s.seq, 0, sizeBytes)
	if m != nil {
		s.learn(m, f, p, s.seq, 0, 0)
	}
	return s.seq
}

// notice looks whether p names f, as it should.
func (s *State) notice(f File, p Path) {
	pl := s.places[p]
	if pl == nil || pl.file != nil && pl.file.id == f {
		return
	}
	pl.log.add(Writer{Agent: Outside}, s.next())
	s.settle(pl, s.record(f))
}

// Read says that the bytes [from, to) of a file were read, beginning at the version start (Opened, or Now before the read).
// Ranges of one version add up; of a newer version they take the place of what was known; of an older one they are nothing.
// p is the path of the handle, or "".
// Preconditions: the handle was reported by Opened.
func (s *State) Read(a Actor, f File, p Path, start Seq, from, to int64) {
	if a.human() || from >= to {
		return
	}
	g, m := s.enlist(a)
	s.learn(g.mind, f, p, start, from, to)
	if m != nil {
		s.learn(m, f, p, start, 0, 0)
	}
}

// learn is a read as of start, of m.
func (s *State) learn(m *mind, f File, p Path, start Seq, from, to int64) {
	k := s.know(m, f)
	r := k.rec
	if start < r.born {
		return
	}
	switch {
	case !k.valid():
		k.as, k.spans = start, k.spans[:0]
	case !r.log.foreign(m.me, min(k.as, start)):
		k.as = max(k.as, start)
	case start > k.as:
		k.as, k.spans = start, k.spans[:0]
	default:
		return
	}
	k.seen, k.read = true, true
	k.spans.add(from, to)
	if n := m.at(k, p); n != nil && n.place.file == r {
		n.as = max(n.as, start)
	} else if n == nil && s.names(p, r) {
		s.bind(m, p, k, start, true)
	}
}

// names says whether p names r as far as is known, so that a path of an old handle teaches nothing.
func (s *State) names(p Path, r *record) bool {
	pl := s.places[p]
	return pl == nil || pl.file == r
}

// Wrote says that a file has changed: the bytes [from, to) are the actor's now, and it ends at newSize. So a truncation is
// Wrote(n, n, n), an extension Wrote(old, n, n), a punched hole Wrote(from, to, size), a collapsed or inserted range
// Wrote(from, newSize, newSize). A gap
// between the old end and from is the actor's as well. It gives the new version, which is stale for everybody else.
// Preconditions: the change has been applied. p is the path of the handle, or "".
func (s *State) Wrote(a Actor, f File, p Path, from, to, newSize int64) Seq {
	at := s.next()
	w := Writer{a.name(), a.Task}
	if a.human() {
		if r := s.files[f]; r != nil {
			r.wrote(w, at, newSize)
		}
		return at
	}
	g, m := s.enlist(a)
	k := s.know(g.mind, f)
	r := k.rec
	if r.size >= 0 {
		from = min(from, r.size)
	}
	r.wrote(w, at, newSize)
	k.write(g.me, at, at, from, to, newSize)
	n := s.renew(g.mind, p, k, at)
	if m != nil {
		o := s.know(m, f)
		o.write(m.me, at, k.as, 0, 0, newSize)
		if n != nil {
			s.renewOf(m, p, o, n, at)
		}
	}
	return at
}

// renew keeps up what m knows of the path of a file that its actor has written. It gives nil if p names something else.
func (s *State) renew(m *mind, p Path, k *known, at Seq) *name {
	n := m.at(k, p)
	if n == nil {
		if p == "" || !s.names(p, k.rec) {
			return nil
		}
		s.bind(m, p, k, at, false)
		return m.names[p]
	}
	if n.place.file != k.rec {
		return nil
	}
	if !n.behind(m.me) {
		n.as = at
	}
	return n
}

// renewOf is renew for a process: a path that is new to it is as old as its agent's.
func (s *State) renewOf(m *mind, p Path, k *known, above *name, at Seq) {
	if m.at(k, p) == nil && m.names[p] == nil {
		at = above.as
	}
	s.renew(m, p, k, at)
}

func (r *record) wrote(w Writer, at Seq, newSize int64) {
	r.log.add(w, at)
	r.size = newSize
	if newSize == 0 {
		r.clean = at
	}
}

// write is an own change at a number. What was stale stays so; what was unknown is known as of first.
func (k *known) write(me Agent, at, first Seq, from, to, newSize int64) {
	switch {
	case !k.valid():
		k.as, k.seen, k.read, k.spans = first, true, false, k.spans[:0]
	case !k.rec.log.foreign(me, k.as):
		k.as = at
	default:
		return
	}
	k.spans.cut(newSize)
	k.spans.add(from, to)
}

// External says that a file was changed around the mount: its size, times or inode are not what they were. p is the path
// at which that was seen, or "".
func (s *State) External(f File, p Path) Seq {
	if p != "" {
		s.notice(f, p)
	}
	return s.Wrote(Actor{Agent: Outside, User: true}, f, p, 0, 0, -1)
}
