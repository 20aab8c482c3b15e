package guard

var allowed = Verdict{Allow: true}

// Decide says whether the guard lets an operation pass. It changes nothing. It does not allocate when it allows.
func (s *State) Decide(q *Question, p *Policy) Verdict {
	if p.Unguarded || q.Op >= Append || q.Actor.human() {
		return allowed
	}
	v := s.decide(q, p)
	if v.Allow && q.Op == Exchange && !q.Other.Dir {
		other := *q
		other.File, other.Path, other.SizeBytes = q.Other.File, q.Other.Path, q.Other.SizeBytes
		v = s.decide(&other, p)
	}
	return v
}

// destroyed is the range of the file that would be lost, and whether the whole file is replaced, even an empty one.
func (q *Question) destroyed() (from, to int64, whole bool) {
	switch q.Op {
	case Truncate:
		return q.From, q.SizeBytes, q.From == 0
	case Punch, Overwrite:
		return q.From, min(q.To, q.SizeBytes), false
	}
	return 0, q.SizeBytes, true
}

func (s *State) decide(q *Question, p *Policy) Verdict {
	from, to, whole := q.destroyed()
	if from >= to && !whole {
		return allowed
	}
	g, m := s.find(q.Actor)
	r := s.files[q.File]
	var k *known
	own := r != nil && r.allBy(q.Actor.Agent)
	if g != nil {
		if k = g.files[q.File]; !k.valid() {
			k = nil
		}
		own = own || k != nil && k.spans.covers(from, to)
		stale, found := s.stale(m, q, own)
		if !found {
			stale, _ = s.stale(g.mind, q, own)
		}
		if stale != nil {
			return Verdict{Kind: Stale, Path: q.Path, Writers: stale}
		}
	}
	if own || q.Op == Unlink || from >= to {
		return allowed
	}
	if k != nil && k.read {
		if q.SizeBytes <= SmallBytes {
			return allowed
		}
		return Verdict{Kind: Partial, Path: q.Path, Ranges: k.spans.missing(from, to)}
	}
	return s.blind(q, r, p)
}

// stale gives who made what a mind knows stale, and whether it knows the file or the path at all. own: all that would be
// destroyed is known to the agent, so that it does not matter how the file came to its path.
func (s *State) stale(m *mind, q *Question, own bool) (ws []Writer, found bool) {
	if m == nil {
		return nil, false
	}
	k := m.files[q.File]
	if k.valid() {
		found = true
		if k.rec.log.foreign(m.me, k.as) {
			return writers(k.rec.log.others(nil, m.me, k.as)), true
		}
		if k.read || own {
			return nil, true
		}
	}
	n := m.names[q.Path]
	if n == nil || !n.known.seen {
		return nil, found
	}
	here := n.place.file != nil && n.place.file.id == q.File
	if here && !n.stale(m.me) || !here && !q.Op.atPath() {
		return nil, found
	}
	return s.replacers(m, n, s.files[q.File], !here), true
}

// replacers are who changed what a path names since the mind knew it, and what is there now.
func (s *State) replacers(m *mind, n *name, r *record, outside bool) []Writer {
	es := n.place.log.others(nil, m.me, n.as)
	if r != nil {
		es = r.log.others(es, m.me, max(n.as, n.place.log.last))
	}
	if outside {
		es = append(es, entry{Writer{Agent: Outside}, s.seq})
	}
	return writers(es)
}

// blind decides about content of which the agent knows nothing.
func (s *State) blind(q *Question, r *record, p *Policy) Verdict {
	var last []Writer
	if r != nil {
		if e, ok := r.log.newest(q.Actor.Agent); ok {
			last = []Writer{e.Writer}
		}
	}
	switch {
	case p.Blind == Deny:
	case p.Blind == Contested && len(last) == 1 && s.live(last[0].Agent, p):
	default:
		return allowed
	}
	return Verdict{Kind: Blind, Path: q.Path, Writers: last}
}

func (s *State) live(a Agent, p *Policy) bool {
	if a == User || a == Outside {
		return false
	}
	if p.Live != nil {
		return p.Live(a)
	}
	return s.Knows(a)
}
