package tasktree

import (
	"maps"
	"testing"

	"pgregory.net/rapid"
)

// TestLastIsTheWayBack holds where redo goes against a walker that goes up to the root at every move.
func TestLastIsTheWayBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree, naive, parent := New(), map[TaskID]TaskID{}, map[TaskID]TaskID{}
		for range rapid.IntRange(0, 5).Draw(t, "restored") { // what a journal tells comes first
			child := TaskID(rapid.Uint64Range(1, 20).Draw(t, "child"))
			tree.RestoreLast("a", child/2, child)
			naive[child/2] = child
		}
		move := func(to TaskID) {
			if err := tree.SetActive("a", to); err != nil {
				t.Fatal(err)
			}
			for id := to; id != 0; id = parent[id] {
				naive[parent[id]] = id
			}
		}
		for range rapid.IntRange(1, 40).Draw(t, "moves") {
			if next := tree.Next(); next == 1 || rapid.Bool().Draw(t, "begin") {
				parent[next] = tree.Active("a")
				if err := tree.Add(Task{ID: next, Parent: parent[next], Agent: "a"}); err != nil {
					t.Fatal(err)
				}
				move(next)
			} else {
				move(TaskID(rapid.Uint64Range(0, uint64(next-1)).Draw(t, "to")))
			}
			got := maps.Clone(tree.last)
			if c, has := tree.lastRoot["a"]; has {
				got[0] = c
			}
			if !maps.Equal(got, naive) {
				t.Fatalf("redo goes %v, want %v", got, naive)
			}
		}
	})
}
