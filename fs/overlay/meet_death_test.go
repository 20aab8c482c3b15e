package overlay

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ttfs/ttfs/tasktree"
)

// TestDeathInTwoMoves dies while two agents' moves are under way, each at any of its points. At the next start each is
// complete or was not begun.
func TestDeathInTwoMoves(t *testing.T) {
	t.Parallel()
	s := newStand(t, 1)
	s.set = func(o *Options) { o.Notify = nil }
	s.reopen()
	s.agent = tasktree.User
	s.must(s.mkdir("d", 0o755))
	for _, f := range []string{"d/a", "d/a2", "d/b", "d/b2"} {
		s.must(s.create(f, "old "+f, 0o644))
	}
	agents := []tasktree.Agent{"a", "b"}
	for _, a := range agents {
		w := s.beside(a)
		for i := range 2 {
			_, err := w.e.BeginTask(a, "one")
			n := fmt.Sprint(i)
			s.must(errors.Join(err, w.rewrite("d/"+string(a), "new"+n), w.create("d/"+string(a)+".new"+n, "new", 0o600), w.mkdir("d/"+string(a)+".dir"+n, 0o700),
				w.create("d/"+string(a)+".dir"+n+"/f", "new", 0o600)))
			if i == 1 {
				s.must(w.rename("d/"+string(a)+"2", "d/"+string(a)+".moved", 0))
			}
		}
	}
	last := map[tasktree.Agent]tasktree.TaskID{"a": s.e.Active("a"), "b": s.e.Active("b")}
	to := func(a tasktree.Agent, end bool) error {
		id := tasktree.TaskID(0)
		if end {
			id = last[a]
		}
		_, err := s.e.Switch(a, id, MoveOptions{})
		return err
	}
	ends := map[[2]bool]map[string]string{}
	for _, e := range [][2]bool{{true, true}, {false, true}, {false, false}, {true, false}} {
		s.must(errors.Join(to("a", e[0]), to("b", e[1])))
		ends[e] = files(s.snapshot(true))
	}
	both, deaths := 0, 0
	stride := 3
	if underRace {
		stride = 7
	}
	for n, more := 1, true; more; n += stride {
		for m := n % stride; more; m += stride {
			at := [2]bool{n%2 == 0, m%2 == 0}
			s.must(errors.Join(to("a", at[0]), to("b", at[1])))
			points, died := s.dieTwice(n, m, func() error { return to("a", !at[0]) }, func() error { return to("b", !at[1]) })
			more = died[0]
			s.close()
			s.open()
			now := [2]bool{s.e.Active("a") == last["a"], s.e.Active("b") == last["b"]}
			s.checkFiles(fmt.Sprintf("a dead at %s (%d), b at %s (%d)", points[0], n, points[1], m), ends[now])
			if t.Failed() {
				return
			}
			if !died[1] {
				break // b's has no more points
			}
			deaths++
			if now[0] != at[0] && now[1] != at[1] {
				both++
			}
		}
	}
	t.Logf("%d deaths, %d of them leaving two moves half done", deaths, both)
	if both < 5 {
		t.Errorf("only %d deaths left two moves to be ended", both)
	}
	s.verify()
}

// dieTwice begins a move that stops at its n-th point and then another that dies at its m-th: there both die. It says at
// which points they did; of a move that has none so far it says that it did not.
func (s *stand) dieTwice(n, m int, first, second func() error) (at [2]string, died [2]bool) {
	run := func(f func() error, i int) chan struct{} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			at[i], died[i] = s.diesHere(func() { s.tells(f()) })
		}()
		return done
	}
	inside, die := make(chan struct{}), make(chan struct{})
	s.point = func(name string) error {
		if n--; n < 0 {
			close(inside)
			<-die
			panic(dead{name})
		}
		return nil
	}
	a := run(first, 0)
	select {
	case <-a:
		s.image()
		s.point = nil
		return at, died
	case <-inside:
	}
	s.point = func(name string) error {
		if m--; m < 0 {
			s.image()
			panic(dead{name})
		}
		return nil
	}
	<-run(second, 1)
	if !died[1] {
		s.image()
	}
	close(die)
	<-a
	s.point = nil
	return at, died
}

// tells says of an error where the test cannot be ended.
func (s *stand) tells(err error) {
	if err != nil {
		s.t.Error(err)
	}
}

// diesHere is dies, and leaves the points as they are.
func (s *stand) diesHere(f func()) (at string, died bool) {
	defer func() {
		if r := recover(); r != nil {
			d, ok := r.(dead)
			if !ok {
				panic(r)
			}
			at, died = d.at, true
		}
	}()
	f()
	return "", false
}
