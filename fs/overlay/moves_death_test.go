package overlay

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/tasktree"
)

// where says which tasks there are, who is at which, and what is skipped for good: all that a move may change beside the files.
func where(s *stand) string {
	out := ""
	for _, k := range s.e.Tasks() {
		out += fmt.Sprintf("%d of %s %q %s sealed=%v with=%d\n", k.ID, k.Agent, k.Title, s.e.StatusOf(k.ID), k.Sealed, k.With)
	}
	for _, a := range []tasktree.Agent{"a", "b", "p", "c", "g", "other"} {
		out += fmt.Sprintf("%s at %d; ", a, s.e.Active(a))
	}
	return out
}

// strangersFamily is a family of three, three deep, in whose newest tasks' files a stranger has worked.
func strangersFamily(t *testing.T) *stand {
	s, _ := family(t)
	s.must(s.as("other", func() error {
		return errors.Join(s.append("g", " other"), s.append("d/two/deep/x", " other"), s.write("big", 50, "other"))
	}))
	s.agent = "p"
	return s
}

// displacedByForce is displaced after a's forced undo over b's work.
func displacedByForce(t *testing.T) *stand {
	s := displaced(t)
	_, err := s.e.Undo("a", MoveOptions{Force: true})
	s.must(err)
	return s
}

// TestDeathInMovesOfAgents dies at every point of every kind of move that several agents may make, and then starts anew. What is
// there then is to the last time what was there before the move, or it is what the move leads to; and the tasks, and where
// everybody is, are of the same side. From there the move is made, and is taken back exactly where it can be.
func TestDeathInMovesOfAgents(t *testing.T) {
	t.Parallel()
	undo := func(a tasktree.Agent, o MoveOptions) func(*stand) error {
		return func(s *stand) error { _, err := s.e.Undo(a, o); return err }
	}
	redo := func(a tasktree.Agent) func(*stand) error {
		return func(s *stand) error { _, err := s.e.Redo(a, MoveOptions{}); return err }
	}
	goes := func(a tasktree.Agent, id tasktree.TaskID, o MoveOptions) func(*stand) error {
		return func(s *stand) error { _, err := s.e.Switch(a, id, o); return err }
	}
	after := func(mk func(*testing.T) *stand, acts ...func(*stand) error) func(*testing.T) *stand {
		return func(t *testing.T) *stand {
			s := mk(t)
			for _, f := range acts {
				s.must(f(s))
			}
			return s
		}
	}
	families := func(t *testing.T) *stand { s, _ := family(t); return s }
	threes := func(t *testing.T) *stand { s, _ := three(t); return s }
	contestedThree := func(t *testing.T) *stand {
		s, _ := three(t)
		s.must(s.append("g", ", three"))
		return s
	}
	force, skip := MoveOptions{Force: true}, MoveOptions{Skip: true}
	revert := func(o MoveOptions) func(*stand) error {
		return func(s *stand) error { _, err := s.e.Revert("a", 3, o); return err }
	}
	restore := func(path string) func(*stand) error {
		return func(s *stand) error { _, err := s.e.Restore("a", 2, []string{path}, MoveOptions{}); return err }
	}
	for _, c := range []struct {
		name      string
		make      func(*testing.T) *stand
		act, back func(*stand) error // back: nil, when there is no exact way back
		refused   bool
	}{
		{"undo that skips", displaced, undo("a", skip), nil, false},
		{"switch that skips", displaced, goes("a", 0, skip), nil, false},
		{"redo after a skip", after(displaced, undo("a", skip)), redo("a"), nil, false},
		{"refused undo", displaced, undo("a", MoveOptions{}), nil, true},
		{"refused switch", displaced, goes("a", 0, MoveOptions{}), nil, true},
		{"force", displaced, undo("a", force), undo("a", MoveOptions{}), false},
		{"force over two tasks", displaced, goes("a", 0, force), undo("a", MoveOptions{}), false},
		{"undo of a force", displacedByForce, undo("a", MoveOptions{}), redo("a"), false},
		{"redo of a force", after(displacedByForce, undo("a", MoveOptions{})), redo("a"), undo("a", MoveOptions{}), false},
		{"force over a force", after(displacedByForce, func(s *stand) error {
			return s.as("b", func() error { return errors.Join(s.append("f", " b again"), s.rewrite("plain", "b")) })
		}), undo("b", force), undo("b", MoveOptions{}), false},
		{"revert", threes, revert(MoveOptions{}), undo("a", MoveOptions{}), false},
		{"refused revert", contestedThree, revert(MoveOptions{}), nil, true},
		{"revert that skips", contestedThree, revert(skip), undo("a", MoveOptions{}), false},
		{"forced revert", contestedThree, revert(force), undo("a", MoveOptions{}), false},
		{"undo of a revert", after(threes, revert(MoveOptions{})), undo("a", MoveOptions{}), redo("a"), false},
		{"restore of a file", threes, restore("g"), undo("a", MoveOptions{}), false},
		{"restore of a directory", threes, restore("d"), undo("a", MoveOptions{}), false},
		{"restore of what is gone", threes, restore("gone"), undo("a", MoveOptions{}), false},
		{"undo of a restore", after(threes, restore("d")), undo("a", MoveOptions{}), redo("a"), false},
		{"undo three deep", families, undo("p", MoveOptions{}), redo("p"), false},
		{"redo three deep", after(families, undo("p", MoveOptions{})), redo("p"), undo("p", MoveOptions{}), false},
		{"switch to 0 three deep", families, goes("p", 0, MoveOptions{}), goes("p", 5, MoveOptions{}), false},
		{"switch from 0 three deep", after(families, goes("p", 0, MoveOptions{})), goes("p", 5, MoveOptions{}), goes("p", 0, MoveOptions{}), false},
		{"forced undo of the middle one", families, undo("c", force), undo("c", MoveOptions{}), false},
		{"undo three deep that skips", strangersFamily, undo("p", skip), nil, false},
		{"refused undo three deep", strangersFamily, undo("p", MoveOptions{}), nil, true},
		{"forced undo three deep", strangersFamily, undo("p", force), undo("p", MoveOptions{}), false},
		{"undo of a forced one three deep", after(strangersFamily, undo("p", force)), undo("p", MoveOptions{}), redo("p"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			whole := c.make(t)
			was := where(whole)
			if err := c.act(whole); c.refused != errors.Is(err, Conflict) || !c.refused && err != nil {
				t.Fatalf("alive: %v", err)
			}
			end, is := timeless(whole.snapshot(true)), where(whole)
			whole.close()
			step := 1
			switch deep := strings.Contains(c.name, "three deep"); {
			case underRace:
				step = 4
			case deep && os.Getenv("TTFS_NIGHTLY") == "":
				step = 3 // TestFamilyDies has every point of theirs
			}
			points, before, done := 0, 0, 0
			for n := 0; ; n += step {
				s := c.make(t)
				start := s.snapshot(true)
				s.dieAt(n)
				at, died := s.dies(func() { _ = c.act(s) })
				if !died && !c.refused {
					break
				}
				if !died {
					s.image() // a refusal has no effects to die between: it dies when it is said
				}
				points++
				s.close()
				s.open()
				what := fmt.Sprintf("dead at %s (%d)", at, n)
				switch now := where(s); {
				case now == was:
					before++
					s.check(what+", not begun", start)
				case now == is && !c.refused:
					done++
					if d := differ(timeless(s.snapshot(true)), end); d != "" {
						t.Fatalf("%s, done:%s", what, d)
					}
				default:
					t.Fatalf("%s: it is neither as before\n%s\nnor as after\n%s\nbut\n%s", what, was, is, now)
				}
				if where(s) == was && !c.refused {
					s.must(c.act(s))
					if d := differ(timeless(s.snapshot(true)), end); d != "" {
						t.Fatalf("%s, made after that:%s", what, d)
					}
				}
				if c.back != nil {
					s.must(c.back(s))
					s.check(what+", and taken back", start)
				}
				s.verify()
				s.close()
				if !died {
					break
				}
			}
			t.Logf("%d points: %d not begun, %d done", points, before, done)
			if !c.refused && (points < 2 || before == 0 || done == 0) {
				t.Errorf("%d points to die at, %d not begun, %d done", points, before, done)
			}
		})
	}
}
