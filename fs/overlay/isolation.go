package overlay

import (
	"fmt"
	"maps"

	"github.com/ttfs/ttfs/journal"
	"github.com/ttfs/ttfs/tasktree"
)

// Isolation says how an agent's work is kept from the tree of this engine.
type Isolation string

const (
	// IsolateNone: it works in this tree.
	IsolateNone Isolation = "none"
	// IsolateFork: it works in a fork. What it would change in this tree is refused.
	IsolateFork Isolation = "fork"
	// IsolateRO: it reads only. Every change is refused.
	IsolateRO Isolation = "ro"
)

// rank orders the modes: the higher, the less an agent may do.
func (m Isolation) rank() int {
	switch m {
	case IsolateFork:
		return 1
	case IsolateRO:
		return 2
	}
	return 0
}

// Weaker says whether an agent in mode m may do more than one in mode than.
func (m Isolation) Weaker(than Isolation) bool { return m.rank() < than.rank() }

// Shape: `I`, the agent's name to the end; the value is the mode's word. No record is IsolateNone.
const kIsolation = 'I'

// isolations are the modes that agents were given, never changed in place; nil while nobody is isolated, so that a
// workspace without them pays a nil check a change.
type isolations map[tasktree.Agent]Isolation

func (e *Engine) loadIsolation() error {
	all := isolations{}
	err := e.j.Scan([]byte{kIsolation}, func(k, v []byte) error {
		m := Isolation(v)
		if m.rank() == 0 {
			return fmt.Errorf("agent %s: isolation %q is not known", k[1:], v)
		}
		all[tasktree.Agent(k[1:])] = m
		return nil
	})
	if err != nil {
		return fail("open", "the isolation of agents", Damaged, err)
	}
	e.setIsolations(all)
	return nil
}

func (e *Engine) setIsolations(all isolations) {
	if len(all) == 0 {
		e.isolated.Store(nil)
		return
	}
	e.isolated.Store(&all)
}

// Isolate gives an agent a mode, which stays, also over its end, until it is given another. Who may do so is for the
// caller to know. was is its own mode before, whatever those above it have. Errors: Invalid, what the journal says; nothing has changed then. Durability: that of the journal's
// records.
func (e *Engine) Isolate(a tasktree.Agent, m Isolation) (was Isolation, err error) {
	if m != IsolateNone && m.rank() == 0 {
		return "", fail("isolation", string(m), Invalid, nil)
	}
	e.tasks.turn.Lock()
	defer e.tasks.turn.Unlock()
	all := isolations{}
	if old := e.isolated.Load(); old != nil {
		all = maps.Clone(*old)
	}
	if was = all[a]; was == "" {
		was = IsolateNone
	}
	if was == m {
		return was, nil
	}
	var b journal.Batch
	k := append([]byte{kIsolation}, a...)
	if m == IsolateNone {
		b.Delete(k)
		delete(all, a)
	} else {
		b.Put(k, []byte(m))
		all[a] = m
	}
	if err := e.j.Commit(&b); err != nil {
		return "", storeError("isolation", err)
	}
	e.setIsolations(all)
	return was, nil
}

// IsolationOf is the mode in which an agent works: its own or that of an agent above it, whichever lets it do less.
func (e *Engine) IsolationOf(a tasktree.Agent) Isolation {
	all := e.isolated.Load()
	if all == nil {
		return IsolateNone
	}
	e.tasks.mu.Lock()
	defer e.tasks.mu.Unlock()
	mode := IsolateNone
	for range len(e.tasks.parents) + 1 {
		if m := (*all)[a]; mode.Weaker(m) {
			mode = m
		}
		if a = e.tasks.parents[a]; a == "" {
			break
		}
	}
	return mode
}

// MayChange is the one place that decides whether an agent may change this tree. Every change is asked about here before
// it has any effect, and before the guard, which would only have it read again. Errors: ReadOnly, which is also kept for
// the agent's `.tt/why`. Preconditions: tasks.mu is not held.
func (e *Engine) MayChange(op string, a tasktree.Agent) error {
	if e.isolated.Load() == nil {
		return nil
	}
	var detail string
	switch e.IsolationOf(a) {
	case IsolateNone:
		return nil
	case IsolateRO:
		detail = fmt.Sprintf("agent %s may read here and change nothing (isolation=ro); have its parent make the change", a)
	default:
		detail = fmt.Sprintf("agent %s works in a fork and changes nothing outside of it (isolation=fork); its fork is below .tt/forks", a)
	}
	err := fail(op, "", ReadOnly, fmt.Errorf("%s", detail))
	e.event("refused op=%s agent=%s decision=isolated", quoted(op), a)
	if e.opt.Refused != nil {
		e.opt.Refused(a, err.Error())
	}
	return err
}
