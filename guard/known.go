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
