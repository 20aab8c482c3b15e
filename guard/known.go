package guard

// HasRead says whether an agent, by any of its processes, has read anything of a file.
func (s *State) HasRead(a Agent, f File) bool {
	g := s.agents[a]
	if g == nil {
		return false
	}
	if k := g.mind.files[f]; k.valid() && k.read {
		return true
	}
	for _, m := range g.procs {
		if k := m.files[f]; k.valid() && k.read {
			return true
		}
	}
	return false
}

// KnowsAll says whether an actor knows every byte of a file as it is now, at a path that is not stale: by reading or by
// writing it, and its process no less than the agent. There is nothing that it could learn by reading it.
func (s *State) KnowsAll(a Actor, f File, p Path, sizeBytes int64) bool {
	if a.human() {
		return false
	}
	g, m := s.find(a)
	if g == nil {
		return false
	}
	k := g.files[f]
	if !k.valid() || k.rec.log.foreign(g.me, k.as) || !k.rec.allBy(g.me) && !k.spans.covers(0, sizeBytes) {
		return false
	}
	return !g.behindAt(f, p) && (m == nil || !m.behindAt(f, p))
}

// behindAt says whether others have changed a file, or what a path names, since the mind knew it.
func (m *mind) behindAt(f File, p Path) bool {
	if k := m.files[f]; k.valid() && k.rec.log.foreign(m.me, k.as) {
		return true
	}
	n := m.names[p]
	return n != nil && (n.place.file == nil || n.place.file.id != f || n.stale(m.me))
}
