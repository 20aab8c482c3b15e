package control

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/tasktree"
)

// written is a backend in which agent a has one chain of tasks, 1 to n.
type written struct {
	*fake
	files func(id tasktree.TaskID) ([]Change, error)
}

func (w written) Files(id tasktree.TaskID) ([]Change, error) { return w.files(id) }

func newWritten(n int, files func(id tasktree.TaskID) ([]Change, error)) written {
	f := newFake()
	f.tasks = nil
	for i := 1; i <= n; i++ {
		f.tasks = append(f.tasks, tasktree.Task{ID: tasktree.TaskID(i), Parent: tasktree.TaskID(i - 1), Agent: "a"})
	}
	f.active["a"], f.agents = tasktree.TaskID(n), []AgentInfo{{Name: "a"}}
	return written{f, files}
}

func TestWrites(t *testing.T) {
	steps := map[tasktree.TaskID][]Change{
		1: {{"created", "new"}, {"created", "gone"}, {"modified", "m"}, {"deleted", "back"}, {"deleted", "d"}},
		2: {{"modified", "new"}, {"deleted", "gone"}, {"deleted", "m"}, {"created", "back"}, {"created", "x\ny"}},
		3: {{"deleted", "new"}, {"created", "later"}},
	}
	w := newWritten(3, func(id tasktree.TaskID) ([]Change, error) { return steps[id], nil })
	for active, want := range map[tasktree.TaskID]string{
		0: "",
		1: "deleted back\ndeleted d\ncreated gone\nmodified m\ncreated new\n",
		2: "modified back\ndeleted d\ndeleted m\ncreated new\ncreated \"x\\ny\"\n",
		3: "modified back\ndeleted d\ncreated later\ndeleted m\ncreated \"x\\ny\"\n",
	} {
		w.active["a"] = active // what is undone is not in it
		if got := cat(t, w, "user", "agents/a/writes"); got != want {
			t.Errorf("at %d:\n%s\nwant\n%s", active, got, want)
		}
	}
	failed := errors.New("no")
	w.active["a"] = 3
	w.files = func(tasktree.TaskID) ([]Change, error) { return nil, failed }
	if _, err := writesText(w, "a"); !errors.Is(err, failed) {
		t.Errorf("a failure is told as %v", err)
	}
}

func TestWritesAreBounded(t *testing.T) {
	asked := 0
	w := newWritten(maxWritesTasks+5, func(id tasktree.TaskID) ([]Change, error) {
		asked++
		return []Change{{"modified", fmt.Sprint(id)}}, nil
	})
	got := cat(t, w, "a", "agents/a/writes")
	if n := strings.Count(got, "\n"); asked != maxWritesTasks || n != maxWritesTasks+1 || !strings.HasSuffix(got, "\n... and what task 5 and those before it changed\n") {
		t.Errorf("%d tasks were looked at, %d lines, at the end %q", asked, n, got[max(0, len(got)-60):])
	}
	w = newWritten(3, func(id tasktree.TaskID) (all []Change, _ error) {
		for i := range maxWritesPaths / 2 {
			all = append(all, Change{"created", fmt.Sprintf("%d/%d", id, i)})
		}
		return all, nil
	})
	if got := cat(t, w, "a", "agents/a/writes"); !strings.HasSuffix(got, "\n... and what task 1 and those before it changed\n") {
		t.Errorf("at the end %q", got[len(got)-60:])
	}
}

// TestWritesSincePruning: of what was pruned nothing is told, and of what came after it all.
func TestWritesSincePruning(t *testing.T) {
	w := newWritten(4, func(id tasktree.TaskID) ([]Change, error) {
		if id <= 2 {
			return nil, &Error{Kind: Pruned}
		}
		return []Change{{"modified", fmt.Sprint("f", id)}}, nil
	})
	w.tasks[0].Pruned, w.tasks[1].Pruned = true, true
	const want = "modified f3\nmodified f4\n... and what task 2 and those before it changed\n"
	if got := cat(t, w, "user", "agents/a/writes"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
