package overlay

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/ttfs/ttfs/tasktree"
)

// kids are the agents below the actor of a family: two of its own, and one below each of those.
var kids = []tasktree.Agent{"kid1", "kid2", "grandkid1", "grandkid2"}

// begun begins a task of the parent and one of each below it: what they do hangs under it.
func (m *machine) begun() {
	m.turn(m.a)
	m.leave()
	m.begin(fmt.Sprint(m.ops))
	m.began(m.e.Active(m.a.agent))
	for _, k := range kids {
		m.agent = k
		m.begin(fmt.Sprint(m.ops))
	}
	m.turn(m.a)
}

// places says where everybody is.
func (m *machine) places() (out []tasktree.TaskID) {
	for _, k := range append([]tasktree.Agent{m.a.agent}, kids...) {
		out = append(out, m.e.Active(k))
	}
	return out
}

// runFamily lets a family of five, three deep, work in each other's files in any order, and moves the parent: the directory
// is then exactly as it was at the end of the task moved to, times included, whoever did what in between.
func runFamily(t *testing.T, seed uint64, n int) {
	s := newStand(t, seed)
	s.passes(seed%3 == 1)
	m := peopled(s, "x")
	m.family = true
	for i, k := range kids {
		m.e.SetParent(k, append([]tasktree.Agent{m.a.agent, m.a.agent}, kids...)[i])
	}
	m.begun()
	for m.ops < n {
		for range m.rng.IntN(60) {
			m.agent = append([]tasktree.Agent{m.a.agent}, kids...)[m.rng.IntN(5)]
			m.operation()
		}
		m.turn(m.a)
		if m.rng.IntN(3) == 0 {
			m.undoAndRedo()
		}
		m.move()
		m.begun()
		switch m.rng.IntN(30) {
		case 0:
			m.releaseAll()
			m.note("reopen")
			m.reopen()
		case 1:
			m.releaseAll()
			m.note("crash")
			m.crash()
		case 2:
			m.note("archive")
			m.must(m.e.Archive())
		}
	}
	m.releaseAll()
	m.leave()
	_, err := m.e.Switch(m.a.agent, 0, MoveOptions{})
	m.must(err)
	m.arrive(0)
	m.verify()
}

// undoAndRedo takes the parent's task back and does it again: everything and everybody is where it was.
func (m *machine) undoAndRedo() {
	m.note("undo and redo")
	before, at := m.mine(), m.places()
	_, err := m.e.Undo(m.a.agent, MoveOptions{})
	m.must(err)
	if d := differ(m.mine(), m.a.tasks[m.a.tasks[m.a.at].parent].disk); d != "" {
		m.fatal("undo of task %d:%s", m.a.at, d)
	}
	_, err = m.e.Redo(m.a.agent, MoveOptions{})
	m.must(err)
	if d := differ(m.mine(), before); d != "" {
		m.fatal("undo and redo of task %d:%s", m.a.at, d)
	}
	if now := m.places(); fmt.Sprint(now) != fmt.Sprint(at) {
		m.fatal("undo and redo: the family is at %v, was at %v", now, at)
	}
}

// TestFamilyModel holds moves of a family against a naive filesystem. TTFS_NIGHTLY=1 does many more.
func TestFamilyModel(t *testing.T) {
	seeds, n := uint64(8), 1500
	if underRace {
		seeds, n = 2, 700
	}
	if os.Getenv("TTFS_NIGHTLY") != "" {
		seeds, n = 60, 5000
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			runFamily(t, seed, n)
		})
	}
}

// panics is a testing.TB for goroutines that are not the test's.
type panics struct{ testing.TB }

func (p panics) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
func (p panics) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// TestManyAgents lets 32 agents do operations and moves at once, each in a directory of its own, and holds every directory
// against its naive filesystem whenever all pause; between, the engine is opened anew or dies. TTFS_NIGHTLY=1 does 10,000
// operations.
func TestManyAgents(t *testing.T) {
	const agents = 32
	rounds, each := 4, 20
	if underRace {
		rounds, each = 2, 8
	}
	if os.Getenv("TTFS_NIGHTLY") != "" {
		rounds, each = 20, 20
	}
	s := newStand(t, 1)
	s.set = func(o *Options) { o.Notify, o.Events = nil, nil } // each drops by itself what its own moves change
	s.reopen()
	all := make([]*machine, agents)
	for i := range all {
		all[i] = peopled(s.beside("setup"), fmt.Sprint("d", i))
		all[i].deaf = true
	}
	for round := range rounds {
		var wait sync.WaitGroup
		for i, m := range all {
			m.stand = s.beside(m.a.agent)
			m.stand.t, m.stand.rng = panics{t}, s.beside(tasktree.Agent(fmt.Sprintf("%*d", 1+round*agents+i, 0))).rng
			wait.Go(func() {
				defer func() {
					if r := recover(); r != nil {
						t.Errorf("%s, round %d: %v", m.a.agent, round, r)
					}
				}()
				m.atOnce(each)
			})
		}
		wait.Wait()
		if t.Failed() {
			return
		}
		if round%2 == 0 {
			s.reopen()
		} else {
			s.crash()
		}
		for _, m := range all {
			m.stand = s.beside(m.a.agent)
			m.compare()
			m.ops += 1000 // numbers of inodes are not used twice
		}
	}
	t.Logf("%d operations", agents*rounds*each)
	s.verify()
}

// atOnce does operations with moves between them.
func (m *machine) atOnce(n int) {
	for range n {
		m.operation()
		if m.rng.IntN(4) == 0 {
			m.move()
		}
	}
	m.releaseAll()
}
