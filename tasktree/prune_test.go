package tasktree

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestPlanPrune(t *testing.T) {
	// 1-2-3 with the branch 2-4 that is active, and 5 of another agent.
	young := func(ids ...TaskID) func(Task) bool {
		return func(k Task) bool { return !slices.Contains(ids, k.ID) }
	}
	for _, c := range []struct {
		name string
		old  func(Task) bool
		want []TaskID
	}{
		{"all", young(), []TaskID{3, 1, 2, 4, 5}},
		{"the active one is young", young(4, 5), []TaskID{3, 1, 2}},
		{"a young branch keeps the way to it, not what is before", young(3, 4, 5), []TaskID{1, 2}},
		{"a young beginning keeps all but the branch", young(1, 5), []TaskID{3}},
		{"none", young(1, 2, 3, 4, 5), nil},
	} {
		if got := build(t).PlanPrune(c.old); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	tree := build(t)
	if err := tree.Add(Task{ID: 6, Agent: "sub", Under: 4}); err != nil {
		t.Fatal(err)
	}
	if got := tree.PlanPrune(young(4)); slices.Contains(got, 6) {
		t.Errorf("a sub-agent's task goes before the one that it hangs under: %v", got)
	}
	if got := tree.PlanPrune(young()); !slices.Contains(got, 6) {
		t.Errorf("a sub-agent's task does not go with the one that it hangs under: %v", got)
	}
}

func TestPrunedIsTheEndOfTheWay(t *testing.T) {
	tree := build(t)
	for _, id := range []TaskID{1, 2} {
		if _, err := tree.Update(id, func(k *Task) { k.Pruned = true }); err != nil {
			t.Fatal(err)
		}
	}
	for to, want := range map[TaskID]error{0: Pruned, 1: Pruned, 2: nil, 3: nil, 4: nil} {
		if _, err := tree.PlanSwitch("a", to); !errors.Is(err, want) {
			t.Errorf("switch %d: %v, want %v", to, err, want)
		}
	}
}

// TestPruningKeepsEveryWay says that from wherever an agent is, every task that is kept is reached, and that after each of
// the tasks given up one by one the same holds.
func TestPruningKeepsEveryWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := New()
		n := rapid.IntRange(1, 30).Draw(t, "n")
		old := map[TaskID]bool{}
		for id := TaskID(1); id <= TaskID(n); id++ {
			parent := TaskID(rapid.Uint64Range(0, uint64(id-1)).Draw(t, "parent"))
			old[id] = rapid.Bool().Draw(t, "old")
			if err := tree.Add(Task{ID: id, Parent: parent, Agent: "a"}); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			at := TaskID(rapid.Uint64Range(0, uint64(n)).Draw(t, "at"))
			if p, err := tree.PlanSwitch("a", at); err != nil || tree.SetActive("a", p.To) != nil {
				continue // it was pruned
			}
			for _, id := range tree.PlanPrune(func(k Task) bool { return old[k.ID] }) {
				if !old[id] {
					t.Fatalf("task %d goes and is young", id)
				}
				if _, err := tree.Update(id, func(k *Task) { k.Pruned = true }); err != nil {
					t.Fatal(err)
				}
				for _, k := range tree.All() {
					if _, err := tree.PlanSwitch("a", k.ID); err != nil && !k.Pruned {
						t.Fatalf("after %d went, %d cannot be reached from %d: %v", id, k.ID, at, err)
					}
				}
			}
			if again := tree.PlanPrune(func(k Task) bool { return old[k.ID] }); len(again) > 0 {
				t.Fatalf("what was pruned goes again: %v", again)
			}
		}
	})
}
