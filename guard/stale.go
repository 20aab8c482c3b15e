package guard

import "slices"

// StaleEntry is a path that an agent knows and others have changed since.
type StaleEntry struct {
	Path Path
	// File is what the path names now; 0: nothing.
	File File
	// Writers are all who changed it, oldest first.
	Writers []Writer
}

// Agents are the writers' names, each once, sorted.
func (e StaleEntry) Agents() []Agent {
	var out []Agent
	for _, w := range e.Writers {
		out = append(out, w.Agent)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Stale is what others changed of what the agent has read or written, sorted by path: of a parent also what its sub-agents
// changed. Reading a file again takes it off the list.
func (s *State) Stale(a Agent) []StaleEntry {
	g := s.agents[a]
	if g == nil {
		return nil
	}
	var out []StaleEntry
	for _, p := range sortedKeys(g.names) {
		n := g.names[p]
		if !n.known.seen {
			continue
		}
		es := n.place.log.others(nil, a, n.as)
		e := StaleEntry{Path: p}
		if r := n.place.file; r != nil {
			e.File = r.id
			as := max(n.as, n.place.log.last)
			if n.known.rec == r && n.known.valid() {
				as = n.known.as
			}
			es = r.log.others(es, a, as)
		}
		if e.Writers = writers(es); e.Writers != nil {
			out = append(out, e)
		}
	}
	return out
}
