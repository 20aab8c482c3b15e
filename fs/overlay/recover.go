package overlay

// recoverMove goes on with a move that a death interrupted.
func (e *Engine) recoverMove() error {
	v, found, err := e.j.Get([]byte{kMove})
	if err != nil || !found {
		return storeError("open", err)
	}
	m, prepared, err := decodeMover(e, v)
	if err != nil {
		return fail("open", "the move under way", Damaged, err)
	}
	e.log.Info("completing a move that was interrupted", "agent", m.plan.Agent, "from", m.plan.From, "to", m.plan.To, "done", m.done, "of", len(m.parts), "backward", m.backward)
	m.resumed = true
	if prepared {
		s, err := m.next()
		if err != nil {
			return err
		}
		if s.have, err = e.readImagesAt([]byte{kNew}, s.task); err != nil {
			return err
		}
		if err := s.complete(); err != nil {
			return err
		}
	}
	return m.run()
}
