package overlay

import "bytes"

// interrupted is a move that a death interrupted, as it is recorded.
type interrupted struct {
	num uint64
	rec []byte
	far []byte // how far it came, when that is more than rec says
}

// interruptedMoves are the moves that were under way when the engine died. None of them meets another (meet.go), so that they
// can be gone on with in any order.
func interruptedMoves(j Journal) (all []interrupted, err error) {
	err = j.Scan([]byte{kMove}, func(k, v []byte) error {
		m := interrupted{rec: bytes.Clone(v)}
		if len(k) > 1 {
			m.num = keyNum(k, 0)
		}
		if bytes.Equal(k, farKey(m.num)) { // that of its move came just before
			if n := len(all); n > 0 && all[n-1].num == m.num {
				all[n-1].far = m.rec
			}
			return nil
		}
		all = append(all, m)
		return nil
	})
	return all, storeError("look for interrupted moves", err)
}

// mover is the move as far as it came.
func (i *interrupted) mover(e *Engine) (m *mover, prepared bool, err error) {
	if m, prepared, err = decodeMover(e, i.rec); err != nil {
		return m, prepared, err
	}
	m.num = i.num
	if i.far != nil {
		d := dec{b: i.far}
		m.done, prepared = int(d.u()), d.flag()
		if d.err != nil || len(d.b) > 0 || m.done < 0 || m.done > len(m.parts) || prepared && m.done == len(m.parts) {
			err = errShort
		}
	}
	return m, prepared, err
}

// recoverMoves goes on with the moves that a death interrupted.
func (e *Engine) recoverMoves() error {
	all, err := interruptedMoves(e.j)
	if err != nil {
		return err
	}
	for _, m := range all {
		if err := e.recoverMove(m); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) recoverMove(i interrupted) error {
	m, prepared, err := i.mover(e)
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
		if s.have, err = e.readImagesAt([]byte{kNew}, s.number()); err != nil {
			return err
		}
		s.leaveAttributes()
		if err := s.complete(); err != nil {
			return err
		}
	}
	return m.run()
}
