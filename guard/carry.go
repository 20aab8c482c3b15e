package guard

import "strings"

// below gives what comes after the directory in a path below it, with its slash.
func below(p, dir Path) (Path, bool) {
	if len(p) <= len(dir) || p[len(dir)] != '/' || !strings.HasPrefix(string(p), string(dir)) {
		return "", false
	}
	return p[len(dir):], true
}

// carry moves all that is known below one directory below another. It looks at every path that anybody knows.
func (s *State) carry(from, to Path, w Writer) {
	at := s.next()
	moved := map[*place]*place{}
	for p, pl := range s.places {
		if rest, ok := below(p, from); ok {
			moved[pl] = s.places[to+rest]
			if moved[pl] == nil {
				moved[pl] = &place{path: to + rest}
			}
		}
	}
	if len(moved) == 0 {
		return
	}
	for _, g := range s.agents {
		s.carryMind(g.mind, moved, at)
		for _, m := range g.procs {
			s.carryMind(m, moved, at)
		}
	}
	for old, pl := range moved {
		pl.log.merge(&old.log)
		pl.log.add(w, at)
		s.settle(pl, old.file)
		s.settle(old, nil)
		delete(s.places, old.path)
		s.places[pl.path] = pl
	}
}

// carryMind moves the names that m has of the places that move. A name that was not stale is not stale by the move.
func (s *State) carryMind(m *mind, moved map[*place]*place, at Seq) {
	var mine []*name
	for _, n := range m.names {
		if moved[n.place] != nil {
			mine = append(mine, n)
		}
	}
	for _, n := range mine {
		delete(m.names, n.place.path)
	}
	for _, n := range mine {
		to := moved[n.place]
		if old := m.names[to.path]; old != nil {
			s.drop(m, old)
		}
		if !n.stale(m.me) {
			n.as = at
		}
		n.place.refs--
		n.place = to
		to.refs++
		m.names[to.path] = n
	}
}
