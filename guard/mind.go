package guard

import "slices"

// record is what is kept of a file for all who know it.
type record struct {
	id   File
	refs int // knowledge and places that point here; none: it goes
	log  ledger
	// born: knowledge from before it is of another file that had the same number.
	born Seq
	// clean: when the file was last seen empty; 0: never. All its bytes are by those who wrote since.
	clean Seq
	// size is as it was last reported, -1: unknown. It is not exported: no handle survives that could write past the end.
	size int64
}

// allBy says whether every byte of the file is by me.
func (r *record) allBy(me Agent) bool { return r.clean > 0 && !r.log.foreign(me, r.clean-1) }

// place is what is kept of a path for all who know it.
type place struct {
	path Path
	refs int
	file *record // what the path names, nil: nothing
	// log is who changed what it names, and who changed what it named before.
	log ledger
}

// name is a path that a mind knows.
type name struct {
	place *place
	known *known // of the file that it last knew there
	as    Seq
}

// stale says whether another changed what the path names.
func (n *name) stale(me Agent) bool { return n.place.log.foreign(me, n.as) }

// behind says whether another changed what the path names, or the file that it still names.
func (n *name) behind(me Agent) bool {
	k := n.known
	return n.stale(me) || n.place.file == k.rec && k.valid() && k.rec.log.foreign(me, k.as)
}

// known is what one mind knows of one file.
type known struct {
	rec   *record
	as    Seq
	seen  bool // anything of its content, by reading or by writing
	read  bool // by reading
	spans spans
	names []*name

	newer, older *known // by use
}

// valid says whether something is known of this very file.
func (k *known) valid() bool { return k != nil && k.seen && k.as >= k.rec.born }

// mind is what an agent or a process knows.
type mind struct {
	me    Agent
	limit int
	used  uint64
	files map[File]*known
	names map[Path]*name

	newest, oldest *known
}

func newMind(me Agent, limit int) *mind {
	return &mind{me: me, limit: limit, files: map[File]*known{}, names: map[Path]*name{}}
}

// touch makes k the newest.
func (m *mind) touch(k *known) {
	if m.newest == k {
		return
	}
	m.unlink(k)
	k.older = m.newest
	if m.newest != nil {
		m.newest.newer = k
	} else {
		m.oldest = k
	}
	m.newest = k
}

// age makes k the oldest: the next to go.
func (m *mind) age(k *known) {
	if m.oldest == k {
		return
	}
	m.unlink(k)
	k.newer = m.oldest
	if m.oldest != nil {
		m.oldest.older = k
	} else {
		m.newest = k
	}
	m.oldest = k
}

func (m *mind) unlink(k *known) {
	if k.newer != nil {
		k.newer.older = k.older
	} else if m.newest == k {
		m.newest = k.older
	}
	if k.older != nil {
		k.older.newer = k.newer
	} else if m.oldest == k {
		m.oldest = k.newer
	}
	k.newer, k.older = nil, nil
}

// know finds or makes what m knows of a file, and makes it the newest. The record is looked up in here, after room was made.
func (s *State) know(m *mind, f File) *known {
	k := m.files[f]
	if k == nil {
		if len(m.files) >= m.limit {
			s.forget(m, m.oldest)
		}
		k = &known{rec: s.record(f)} // not before: what was forgotten may have been the last to hold the record
		k.rec.refs++
		m.files[f] = k
	}
	m.touch(k)
	return k
}

// forget drops k and the paths by which m knew it.
func (s *State) forget(m *mind, k *known) {
	for len(k.names) > 0 {
		s.drop(m, k.names[len(k.names)-1])
	}
	m.unlink(k)
	delete(m.files, k.rec.id)
	s.release(k.rec)
}

// drop forgets a path.
func (s *State) drop(m *mind, n *name) {
	delete(m.names, n.place.path)
	n.known.unname(n)
	s.leave(n.place)
}

// at is the name of k at a path. Most files have one, and to compare it is cheaper than to look it up.
func (m *mind) at(k *known, p Path) *name {
	if len(k.names) > 4 {
		if n := m.names[p]; n != nil && n.known == k {
			return n
		}
		return nil
	}
	for _, n := range k.names {
		if n.place.path == p {
			return n
		}
	}
	return nil
}

func (k *known) unname(n *name) {
	i := slices.Index(k.names, n)
	k.names = slices.Delete(k.names, i, i+1)
}

// bind makes p a path by which m knows k, as of a number. An own change does not move the number of a stale name;
// reading it (fresh) does.
func (s *State) bind(m *mind, p Path, k *known, as Seq, fresh bool) {
	if p == "" {
		return
	}
	n := m.names[p]
	if n == nil {
		n = &name{place: s.enter(p, k.rec), known: k, as: as}
		m.names[p] = n
		k.names = append(k.names, n)
		if len(m.names) > m.limit {
			s.shed(m, k)
		}
		return
	}
	if n.known != k {
		n.known.unname(n)
		n.known = k
		k.names = append(k.names, n)
	}
	if fresh || !n.behind(m.me) {
		n.as = max(n.as, as)
	}
}

// shed makes room for one path: the oldest file's go, or of k, which is in use, the oldest.
func (s *State) shed(m *mind, k *known) {
	for o := m.oldest; o != k; o = o.newer {
		if len(o.names) > 0 {
			s.forget(m, o)
			return
		}
	}
	s.drop(m, k.names[0])
}

// dissolve forgets all.
func (s *State) dissolve(m *mind) {
	for m.oldest != nil {
		s.forget(m, m.oldest)
	}
}
