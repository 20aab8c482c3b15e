package guard

import "slices"

// rewriter is an agent with handles on a file that it created or truncated.
type rewriter struct {
	Writer
	handles int
}

// BeginRewrite opens a window: the actor created the file or opened it with O_TRUNC, and writes it anew. Each call needs
// its EndRewrite, when that handle is closed.
func (s *State) BeginRewrite(f File, a Actor) {
	for i := range s.busy[f] {
		if w := &s.busy[f][i]; w.Agent == a.name() {
			w.handles++
			w.Task = a.Task
			return
		}
	}
	s.busy[f] = append(s.busy[f], rewriter{Writer{a.name(), a.Task}, 1})
}

// EndRewrite closes a window of the actor; without one it does nothing.
func (s *State) EndRewrite(f File, a Actor) {
	ws := s.busy[f]
	for i := range ws {
		if ws[i].Agent != a.name() {
			continue
		}
		if ws[i].handles--; ws[i].handles == 0 {
			s.setBusy(f, slices.Delete(ws, i, i+1))
		}
		return
	}
}

func (s *State) setBusy(f File, ws []rewriter) {
	if len(ws) == 0 {
		delete(s.busy, f)
		return
	}
	s.busy[f] = ws
}

// endRewrites closes all windows of an agent.
func (s *State) endRewrites(a Agent) {
	for f, ws := range s.busy {
		s.setBusy(f, slices.DeleteFunc(ws, func(w rewriter) bool { return w.Agent == a }))
	}
}

// MayOpenForWriting says whether the actor may open a file for writing now: not (Busy) while another is rewriting it, unless
// it opens for appending only or is the user. The user's own rewriting keeps agents out.
func (s *State) MayOpenForWriting(f File, p Path, a Actor, appending bool) Verdict {
	if len(s.busy) == 0 || appending || a.human() {
		return allowed
	}
	for _, w := range s.busy[f] {
		if w.Agent != a.name() {
			return Verdict{Kind: Busy, Path: p, Writers: []Writer{w.Writer}}
		}
	}
	return allowed
}
