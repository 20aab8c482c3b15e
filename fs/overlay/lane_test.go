package overlay

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// soon fails unless something closes before long.
func soon(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: it waits", what)
	}
}

// notYet fails if something has closed, though others had the processor.
func notYet(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	others()
	select {
	case <-c:
		t.Fatalf("%s: it did not wait", what)
	default:
	}
}

// others lets other goroutines run.
func others() {
	for range 1000 {
		runtime.Gosched()
	}
}

// during runs f and tells of its end.
func during(f func()) <-chan struct{} {
	ended := make(chan struct{})
	go func() { defer close(ended); f() }()
	return ended
}

// TestDrainWaitsForTheOlder has more drains at once than there are generations, each with an operation of its own before it, and
// lets the operations end newest first: each drain waits for those that began before it, and for none that began after.
func TestDrainWaitsForTheOlder(t *testing.T) {
	t.Parallel()
	var s lanes
	l := s.agent("a")
	var ops []passage
	var drains []<-chan struct{}
	for i := range generations - 1 {
		ops = append(ops, l.enter())
		drains = append(drains, during(func() { s.drain(l) }))
		until(t, "the generation turns", func() bool { return l.gen.Load() == uint64(i)+1 })
	}
	late := l.enter()
	// There is no generation for one more drain, which waits for the oldest.
	more := during(func() { s.drain() })
	others()
	if gen := l.gen.Load(); gen != generations-1 {
		t.Fatalf("generation %d began while that which has its count is not over", gen)
	}
	for i := len(ops) - 1; i > 0; i-- {
		ops[i].leave()
		notYet(t, "an older operation is under way", drains[i])
	}
	ops[0].leave()
	for _, d := range drains {
		soon(t, "all operations that began before have ended", d)
	}
	notYet(t, "an operation that began before is under way", more)
	last := l.enter() // counted in whichever generation is: it may be before the turn
	late.leave()
	last.leave()
	soon(t, "the last drain", more)
	if !l.idle() {
		t.Error("somebody is counted who has left")
	}
}

// TestEnterAnew comes with a generation that is over by the time that it is counted: nobody would wait for it.
func TestEnterAnew(t *testing.T) {
	t.Parallel()
	var s lanes
	l := s.agent("a")
	op := l.enter()
	gen := l.gen.Load()
	drained := during(func() { s.drain(l) })
	until(t, "the generation turns", func() bool { return l.gen.Load() != gen })
	if _, entered := l.enterAt(gen); entered {
		t.Error("it entered an old generation")
	}
	notYet(t, "an operation is under way", drained)
	op.leave()
	soon(t, "a drain", drained)
	if !l.idle() {
		t.Error("somebody is counted who has not entered")
	}
}

// TestHold holds everything: operations and claims wait for its end, and it waits for operations.
func TestHold(t *testing.T) {
	t.Parallel()
	var s lanes
	l := s.of("", nil)
	op := s.enter(l)
	var release func()
	held := during(func() { release = s.hold() })
	until(t, "it is shut", func() bool { return s.shut.Load() != nil })
	entered, drained := during(func() { s.enter(l).leave() }), during(func() { s.drain(s.agent("a")) })
	notYet(t, "an operation is under way", held)
	op.leave()
	soon(t, "to hold everything", held)
	notYet(t, "an operation that began later", entered)
	notYet(t, "a claim", drained)
	release()
	soon(t, "the operation that waited", entered)
	soon(t, "the claim that waited", drained)
}

// TestDrainAndClaim is how the gate is used: who finds a claim leaves; who does not may do what is the claimer's until he has
// drained. The race detector looks on, and so does the count.
func TestDrainAndClaim(t *testing.T) {
	t.Parallel()
	var s lanes
	var claimed atomic.Bool
	var inside atomic.Int64
	rounds := 2000
	if underRace {
		rounds = 500
	}
	var stop atomic.Bool
	var workers sync.WaitGroup
	for w := range 4 {
		l := s.of("", []target{{n: &node{id: NodeID(w % 2)}}})
		workers.Go(func() {
			for !stop.Load() {
				p := s.enter(l)
				if !claimed.Load() {
					inside.Add(1)
					inside.Add(-1)
				}
				p.leave()
			}
		})
	}
	var one sync.Mutex // claims of one thing exclude each other
	var claimers sync.WaitGroup
	for range 2 {
		claimers.Go(func() {
			for range rounds {
				one.Lock()
				claimed.Store(true)
				s.drain()
				for range 10 {
					if n := inside.Load(); n != 0 {
						t.Errorf("%d operations are under way that do not know of the claim", n)
					}
				}
				claimed.Store(false)
				one.Unlock()
			}
		})
	}
	claimers.Wait()
	stop.Store(true)
	workers.Wait()
}

// TestHoldAndClaim holds everything while others claim: one of two who come at once sees the other, and then nobody is inside.
func TestHoldAndClaim(t *testing.T) {
	t.Parallel()
	var s lanes
	var claims, held, inside atomic.Int64
	var stop atomic.Bool
	var others sync.WaitGroup
	for range 2 {
		others.Go(func() {
			for !stop.Load() {
				p := s.enter(&s.nodes[0])
				inside.Add(1)
				inside.Add(-1)
				p.leave()
			}
		})
	}
	others.Go(func() {
		for !stop.Load() {
			claims.Add(1)
			s.drain(s.agent("a"))
			if held.Load() != 0 {
				t.Error("who claimed goes on while everything is held")
			}
			claims.Add(-1)
			for range 20 {
				s.enter(s.agent("a")).leave()
			}
		}
	})
	got := 0
	for end := time.Now().Add(20 * time.Second); got < 300; {
		release := s.hold()
		if claims.Load() == 0 {
			held.Store(1)
			got++
			if n := inside.Load(); n != 0 {
				t.Errorf("%d operations go on while everything is held", n)
			}
			held.Store(0)
		}
		release()
		if time.Now().After(end) {
			break
		}
	}
	stop.Store(true)
	others.Wait()
	if got == 0 {
		t.Error("it was never held without a claim")
	}
}

// TestBeginWaitsForItsOwn has one operation under way. A task of the agent whose it is, and of its family, begins after it; one of
// anybody else's does not wait. A move waits for all.
func TestBeginWaitsForItsOwn(t *testing.T) {
	s := newStand(t, 1)
	s.must(s.create("file", "1", 0o644))
	begin := func(a tasktree.Agent) <-chan struct{} {
		return during(func() {
			if _, err := s.e.BeginTask(a, "next"); err != nil {
				t.Error(err)
			}
		})
	}
	soon(t, "a task of the sub-agent", begin("sub"))
	s.e.SetParent("sub", "one")
	soon(t, "the first task", begin("one"))
	op, err := s.e.enterOn("one", target{n: s.e.nodes.root})
	s.must(err)
	own := s.e.gate.agent("one")
	if s.e.gate.agent("other") == own || s.e.gate.agent("sub") == own {
		t.Fatal("these names have one lane: take others")
	}
	soon(t, "another agent's task", begin("other"))
	its, sub := begin("one"), begin("sub")
	until(t, "both wait", func() bool { return own.gen.Load() == 2 })
	notYet(t, "the agent's own operation is under way", its)
	notYet(t, "an operation of the family is under way", sub)
	soon(t, "another operation", during(func() { s.must(s.beside("third").rewrite("file", "2")) }))
	op.leave()
	soon(t, "the agent's task", its)
	soon(t, "the sub-agent's task", sub)
}

// TestMoveWaitsForAll has an operation of another agent under way when a move begins. What that puts into the moved task, as it
// does with what the task's agent has written unseen, is moved as well. A claim of paths by itself waits for it, too.
func TestMoveWaitsForAll(t *testing.T) {
	s := newStand(t, 1)
	s.must(s.create("file", "1", 0o644))
	s.must(s.create("late", "1", 0o644))
	before := s.snapshot(true)
	s.begin("one")
	s.must(s.rewrite("file", "2"))
	spots := func() bool {
		for _, c := range s.e.gate.list() {
			if len(c.spots)+len(c.nodes) > 0 {
				return true
			}
		}
		return false
	}
	op, err := s.e.enterOn("other", target{n: s.e.nodes.root})
	s.must(err)
	l := s.e.gate.agent("other")
	gen := l.gen.Load()
	moved := during(func() { s.undo() })
	until(t, "the move waits", func() bool { return l.gen.Load() != gen })
	notYet(t, "an operation is under way", moved)
	late := s.puts("late", "2")
	held := false
	s.point = func(string) error {
		for _, c := range s.e.gate.list() {
			_, has := c.nodes[late]
			held = held || has
		}
		return nil
	}
	op.leave()
	soon(t, "the move", moved)
	s.point = nil
	s.check("after the undo", before)
	if !held {
		t.Error("what the operation put into the task was moved, but not claimed")
	}
	s.redo()

	own, err := s.e.claimAgents("test", true, s.agent)
	s.must(err)
	im, err := s.e.readImages(s.e.Active(s.agent))
	s.must(err)
	op, err = s.e.enterOn("other", target{n: s.e.nodes.root})
	s.must(err)
	claims := during(func() {
		if err := s.e.claimImages(own, claimed{images: im}); err != nil {
			t.Error(err)
		}
	})
	until(t, "it claims", spots)
	notYet(t, "an operation is under way", claims)
	op.leave()
	soon(t, "the claim", claims)
	s.e.unclaim(own)
}

// puts does to a file what an operation under way does that finds it written to unseen, by the stand's agent.
func (s *stand) puts(path, content string) inoKey {
	s.t.Helper()
	id, err := s.walk(path)
	s.must(err)
	n, err := s.e.pin(id)
	s.must(err)
	defer s.e.unpin(n)
	n.mu.Lock()
	defer n.mu.Unlock()
	ch, err := s.e.begin(s.caller())
	s.must(err)
	fd, err := s.e.openNode(n, unix.O_RDWR)
	s.must(err)
	defer unix.Close(fd)
	s.must(ch.content(n, fd, 0, 1<<62))
	s.must(ch.commit())
	_, err = unix.Pwrite(fd, []byte(content), 0)
	s.must(err)
	return n.key
}
