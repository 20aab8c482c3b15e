package tasktree

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// build makes the tree 1-2-3, 2-4, with 5 of another agent.
func build(t *testing.T) *Tree {
	t.Helper()
	tree := New()
	for _, k := range []Task{
		{ID: 1, Agent: "a"}, {ID: 2, Parent: 1, Agent: "a"}, {ID: 3, Parent: 2, Agent: "a"},
		{ID: 4, Parent: 2, Agent: "a"}, {ID: 5, Agent: "b"},
	} {
		if err := tree.Add(k); err != nil {
			t.Fatal(err)
		}
		if err := tree.SetActive(k.Agent, k.ID); err != nil {
			t.Fatal(err)
		}
	}
	return tree
}

func TestPlan(t *testing.T) {
	undo, redo := func(id TaskID) Step { return Step{Task: id} }, func(id TaskID) Step { return Step{Task: id, Redo: true} }
	for _, c := range []struct {
		name string
		to   TaskID
		want []Step
	}{
		{"sibling", 3, []Step{undo(4), redo(3)}},
		{"root", 0, []Step{undo(4), undo(2), undo(1)}},
		{"same", 4, nil},
		{"ancestor", 1, []Step{undo(4), undo(2)}},
	} {
		p, err := build(t).PlanSwitch("a", c.to)
		if err != nil || !slices.Equal(p.Steps, c.want) {
			t.Errorf("%s: %v, %v; want %v", c.name, p.Steps, err, c.want)
		}
	}
}

func TestRefusals(t *testing.T) {
	tree := build(t)
	for _, c := range []struct {
		name string
		err  error
		want Kind
	}{
		{"taken id", tree.Add(Task{ID: 2, Agent: "a"}), Invalid},
		{"root id", tree.Add(Task{Agent: "a"}), Invalid},
		{"unknown parent", tree.Add(Task{ID: 99, Parent: 98, Agent: "a"}), NoTask},
		{"parent of another", tree.Add(Task{ID: 6, Parent: 5, Agent: "a"}), OtherAgent},
		{"activate another's", tree.SetActive("a", 5), OtherAgent},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, c.err, c.want)
		}
	}
	if _, err := tree.PlanSwitch("a", 99); !errors.Is(err, NoTask) {
		t.Errorf("switch 99: %v", err)
	}
	if _, err := tree.PlanUndo("c"); !errors.Is(err, AtRoot) {
		t.Errorf("undo at the root: %v", err)
	}
	if _, err := tree.PlanRedo("a"); !errors.Is(err, NothingToDo) {
		t.Errorf("redo at a leaf: %v", err)
	}
	if got := tree.Next(); got != 6 {
		t.Errorf("a refused task took an id: next is %d", got)
	}
}

func TestRedoGoesWhereOneCameFrom(t *testing.T) {
	tree := build(t)
	for _, to := range []TaskID{3, 2} {
		if err := tree.SetActive("a", to); err != nil {
			t.Fatal(err)
		}
	}
	if p, err := tree.PlanRedo("a"); err != nil || p.To != 3 {
		t.Fatalf("redo from 2 goes to %d (%v), want 3, which was left", p.To, err)
	}
	if s := tree.StatusOf(1); s != Past {
		t.Errorf("1 is %s", s)
	}
	if s := tree.StatusOf(4); s != Undone {
		t.Errorf("4 is %s", s)
	}
	if !tree.HasBranches(2) || tree.HasBranches(1) {
		t.Error("branches are wrong")
	}
}

func TestRemove(t *testing.T) {
	tree := build(t)
	for id, want := range map[TaskID]error{2: Invalid, 4: Invalid, 99: NoTask, 3: nil} {
		if err := tree.Remove(id); !errors.Is(err, want) {
			t.Errorf("remove %d: %v, want %v", id, err, want)
		}
	}
	if got := tree.Children("a", 2); !slices.Equal(got, []TaskID{4}) || tree.HasBranches(2) || tree.Next() != 6 {
		t.Errorf("children of 2: %v, next %d", got, tree.Next())
	}
}

func TestRedoOver(t *testing.T) {
	tree := build(t)
	if err := tree.SetActive("a", 2); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		k    Task
		want error
	}{
		{Task{ID: 6, Parent: 2, Agent: "a", Over: 4}, NothingToDo},
		{Task{ID: 7, Parent: 2, Agent: "a", Auto: true}, NothingToDo},
		{Task{ID: 8, Parent: 2, Agent: "a", Auto: true, Over: 4}, nil},
	} {
		if err := errors.Join(tree.Add(c.k), tree.SetActive("a", c.k.ID)); err != nil {
			t.Fatal(err)
		}
		p, err := tree.PlanRedoOver("a")
		if !errors.Is(err, c.want) || err == nil && !slices.Equal(p.Steps, []Step{{Task: c.k.ID}, {Task: 4, Redo: true}}) {
			t.Errorf("task %d: %v, %v", c.k.ID, p, err)
		}
	}
}

// TestPlanReachesTheGoal holds plans against a walker that knows nothing but the steps.
func TestPlanReachesTheGoal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := New()
		n := rapid.IntRange(1, 30).Draw(t, "n")
		for id := TaskID(1); id <= TaskID(n); id++ {
			parent := TaskID(rapid.Uint64Range(0, uint64(id-1)).Draw(t, "parent"))
			if err := tree.Add(Task{ID: id, Parent: parent, Agent: "a"}); err != nil {
				t.Fatal(err)
			}
		}
		applied := map[TaskID]bool{}
		at := TaskID(0)
		for range 10 {
			to := TaskID(rapid.Uint64Range(0, uint64(n)).Draw(t, "to"))
			p, err := tree.PlanSwitch("a", to)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range p.Steps {
				k, _ := tree.Get(s.Task)
				switch {
				case s.Redo && (at != k.Parent || applied[s.Task]):
					t.Fatalf("redo of %d at %d", s.Task, at)
				case !s.Redo && at != s.Task:
					t.Fatalf("undo of %d at %d", s.Task, at)
				}
				applied[s.Task], at = s.Redo, s.Task
				if !s.Redo {
					at = k.Parent
				}
			}
			if at != to {
				t.Fatalf("the plan ends at %d, not %d", at, to)
			}
			if err := tree.SetActive("a", to); err != nil {
				t.Fatal(err)
			}
		}
	})
}
