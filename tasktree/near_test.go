package tasktree

import (
	"slices"
	"testing"
	"time"
)

// TestStatuses: the same as StatusOf, for every task at once; and how near each is.
func TestStatuses(t *testing.T) {
	tree := New()
	add := func(id, parent TaskID, a Agent) {
		t.Helper()
		if err := tree.Add(Task{ID: id, Parent: parent, Agent: a}); err != nil {
			t.Fatal(err)
		}
	}
	// 1 - 2 - 4 - 6, 2 - 5 - 7, and b's 3.
	for _, k := range [][2]TaskID{{1, 0}, {2, 1}, {4, 2}, {5, 2}, {6, 4}, {7, 5}} {
		add(k[0], k[1], "a")
	}
	add(3, 0, "b")
	for _, active := range []TaskID{7, 6, 5, 2, 0} {
		if err := tree.SetActive("a", active); err != nil {
			t.Fatal(err)
		}
		all := tree.Statuses("a")
		if len(all) != 6 {
			t.Errorf("%d statuses", len(all))
		}
		for id, s := range all {
			if want := tree.StatusOf(id); s != want {
				t.Errorf("task %d is %s when %d is active, want %s", id, s, active, want)
			}
		}
	}
	if err := tree.SetActive("a", 7); err != nil {
		t.Fatal(err)
	}
	for id, steps := range map[TaskID]int{7: 0, 5: 1, 2: 2, 1: 3, 4: 3, 6: 4} {
		if !tree.Near(id, steps) || steps > 0 && tree.Near(id, steps-1) {
			t.Errorf("task %d is not just %d steps away", id, steps)
		}
	}
	if tree.Near(99, 100) {
		t.Error("a task that is none is near")
	}
	for _, c := range [][3]TaskID{{7, 6, 2}, {6, 7, 2}, {7, 7, 7}, {7, 2, 2}, {0, 6, 0}, {3, 7, 0}} {
		if at := tree.Meet(c[0], c[1]); at != c[2] {
			t.Errorf("%d and %d meet at %d, want %d", c[0], c[1], at, c[2])
		}
	}
}

// TestUnended: what is not sealed, or has no end, at any depth of a chain, and nothing else.
func TestUnended(t *testing.T) {
	tree, end := New(), time.Unix(1, 0)
	for id, k := range map[TaskID]Task{1: {Sealed: true, Ended: end}, 2: {Sealed: true}, 3: {Sealed: true, Ended: end}, 4: {Ended: end}, 5: {}, 6: {}} {
		k.ID, k.Agent = id, "a"
		tree.tasks[id] = &k
	}
	for id, parent := range map[TaskID]TaskID{2: 1, 3: 2, 4: 3, 5: 4, 6: 3} {
		tree.tasks[id].Parent = parent
	}
	var got []TaskID
	for _, k := range tree.Unended(5) {
		got = append(got, k.ID)
	}
	if !slices.Equal(got, []TaskID{5, 4, 2}) {
		t.Errorf("not ended: %v", got)
	}
}
