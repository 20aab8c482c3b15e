package overlay

import (
	"encoding/binary"

	"github.com/ttfs/ttfs/journal"
	"github.com/ttfs/ttfs/tasktree"
)

// shares are all shares of all tasks as they are when the first is looked for. To look for those of hundreds of things one after
// the other would take the journal's lock as often, for which all wait who change anything.
type shares struct {
	j Journal
	v *journal.View // nil: none was looked for yet
}

// each calls f for every task's share in a thing.
func (s *shares) each(t thing, f func(id tasktree.TaskID, s share)) error {
	if s.v == nil {
		v, err := s.j.View([]byte{kShare})
		if err != nil {
			return storeError("look for conflicts", err)
		}
		s.v = v
	}
	prefix := t.prefix()
	return storeError("look for conflicts", s.v.Scan(prefix, func(k, v []byte) error {
		if len(k) != len(prefix)+8 {
			return nil
		}
		s, err := decodeShare(v)
		if err == nil {
			f(tasktree.TaskID(binary.BigEndian.Uint64(k[len(prefix):])), s)
		}
		return err
	}))
}

func (s *shares) close() {
	if s.v != nil {
		s.v.Close()
	}
}

// eachShare calls f for every task's share in a thing.
func (e *Engine) eachShare(t thing, f func(id tasktree.TaskID, s share)) error {
	all := &shares{j: e.j}
	defer all.close()
	return all.each(t, f)
}
