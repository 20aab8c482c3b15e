package overlay

import (
	"errors"
	"time"

	"github.com/ttfs/ttfs/tasktree"
)

// sweep gives back what nobody refers to, and looks that hold has nothing else then that the engine would not need.
func (s *stand) sweep() {
	s.t.Helper()
	if _, err := s.e.Sweep(); err != nil {
		s.t.Fatalf("sweep: %v", err)
	}
}

// prune gives up what is older than a task picked at random. Every actor's way to the tasks that are left is open, to the
// others it is not, and nothing else has changed.
func (m *machine) prune() {
	all := m.e.Tasks()
	k := all[m.rng.IntN(len(all))]
	m.note("prune before %d", k.ID)
	before := m.snapshot(true)
	if m.rng.IntN(2) == 0 {
		m.forget(1)
	}
	res, err := m.e.Prune(PruneOptions{Before: k.Started.Add(time.Nanosecond)})
	m.must(err)
	if d := differ(m.snapshot(true), before); d != "" {
		m.fatal("prune before %d (%v) changes the workspace:%s", k.ID, res.Tasks, d)
	}
	for _, a := range m.actors {
		for id, r := range a.tasks {
			if r.gone {
				continue
			}
			task, _ := m.e.Task(id)
			_, err := m.e.Preview(a.agent, id)
			switch {
			case err == nil:
			case !errors.Is(err, Pruned):
				m.fatal("task %d after a prune: %v", id, err)
			case id != 0 && !task.Pruned:
				m.fatal("task %d is kept and cannot be reached after a prune of %v", id, res.Tasks)
			case r.fs == nil:
				m.fatal("task %d goes on and cannot be reached after a prune of %v", id, res.Tasks)
			default:
				r.gone = true
			}
			if _, err := m.e.Files(id); task.Pruned != errors.Is(err, Pruned) {
				m.fatal("files of task %d, pruned %v: %v", id, task.Pruned, err)
			}
		}
	}
}

// refused makes a move to a task that is pruned, and looks that nothing has changed.
func (m *machine) refused(what int, to tasktree.TaskID) {
	before := m.snapshot(true)
	var err error
	switch what {
	case 3, 4:
		_, err = m.e.Undo(m.a.agent, MoveOptions{})
	case 5:
		_, err = m.e.Redo(m.a.agent, MoveOptions{})
	default:
		_, err = m.e.Switch(m.a.agent, to, MoveOptions{})
	}
	if want := error(Pruned); !errors.Is(err, want) && !(m.a.at == 0 || what == 5) {
		m.fatal("a move to the pruned task %d: %v", to, err)
	}
	if d := differ(m.snapshot(true), before); d != "" || err == nil {
		m.fatal("a refused move to task %d changes the workspace (%v):%s", to, err, d)
	}
}

// reachable is one of some tasks that is not gone; the actor's own is there always.
func (m *machine) reachable(ids []tasktree.TaskID) tasktree.TaskID {
	if id := ids[m.rng.IntN(len(ids))]; !m.a.tasks[id].gone {
		return id
	}
	return m.a.at
}
