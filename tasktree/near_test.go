package tasktree

import "testing"

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
}
