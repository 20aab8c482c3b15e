package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ttfs/ttfs/integration/rig"
)

// TestPrune gives up old tasks while mounted and while not: the workspace stays as it is, what is left is undone exactly,
// and what is gone says so.
func TestPrune(t *testing.T) {
	w := mounted(t)
	put(t, w, "f", strings.Repeat("first\n", 500_000))
	one := w.Task("one")
	w.Sh("sed -i s/first/second/ f; mkdir -p d/e; echo made > d/e/made; echo removed > gone").OK()
	two := w.Task("two")
	w.Sh("rm -r d gone; echo more >> f").OK()
	afterTwo := w.Snapshot()
	three := w.Task("three")
	w.Sh("rm f; mkdir f; echo below > f/below").OK()
	before := w.Snapshot()
	if r := w.Sh("TTFS_AGENT=bot sh -c \"echo 'prune keep=1s' > .tt/ctl\""); r.Code == 0 {
		t.Error("an agent prunes")
	}
	if why := w.Sh("TTFS_AGENT=bot cat .tt/why").OK().Stdout; !strings.Contains(why, "user") {
		t.Errorf("why an agent may not prune: %q", why)
	}
	w.TTFS("prune", "--keep", "soon").Exit(64)
	w.TTFS("prune", "--max-size", "1M").Exit(64)
	pruneUntil(t, w, one)
	w.Same("after the prune", before)
	saysPruned(t, w, one)
	w.TTFS("switch", itoa(one)).Exit(5)
	w.TTFS("switch", "0").Exit(5)
	w.Same("after refused moves", before)
	w.TTFS("undo").OK()
	w.Same("what is left is undone", afterTwo)
	w.TTFS("redo").OK()
	w.Same("and done again", before)
	detached(t, w)
	w.TTFS("fsck").OK()
	saysPrunedDetached(t, w, one)
	pruneUntil(t, w, three)
	w.TTFS("switch", itoa(two)).Exit(5)
	w.TTFS("fsck").OK()
	if out := w.TTFS("log").OK().Stdout; strings.Count(out, "(pruned)") < 2 || !strings.Contains(out, fmt.Sprintf("→ %d three", three)) {
		t.Errorf("log:\n%s", out)
	}
}

// pruneUntil prunes what is older than a second until a task has gone.
func pruneUntil(t *testing.T, w *rig.Workspace, id int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		var dry, got struct {
			Tasks         []int
			Before, After int64
		}
		if err := json.Unmarshal([]byte(w.TTFS("prune", "--keep", "1s", "--dry-run", "--json").OK().Stdout), &dry); err != nil {
			t.Fatal(err)
		}
		gone := false
		for _, k := range dry.Tasks {
			gone = gone || k == id
		}
		if !gone && time.Now().Before(end) {
			continue
		}
		if err := json.Unmarshal([]byte(w.TTFS("prune", "--keep", "1s", "--json").OK().Stdout), &got); err != nil {
			t.Fatal(err)
		}
		if !gone || got.Before == 0 || len(got.Tasks) < len(dry.Tasks) {
			t.Fatalf("task %d does not go: %+v, then %+v", id, dry, got)
		}
		return
	}
}

func saysPruned(t *testing.T, w *rig.Workspace, id int) {
	t.Helper()
	for _, name := range []string{"files", "diff", "before"} {
		if _, err := os.ReadFile(fmt.Sprintf("%s/.tt/tasks/%d/%s", w.Dir, id, name)); err == nil {
			t.Errorf("%s of a pruned task is read", name)
		}
	}
	if list := w.Read(".tt/tasks/list"); !strings.Contains(list, "one (pruned)") {
		t.Errorf("list:\n%s", list)
	}
	if list := w.Read(".tt/tasks/list.json"); !strings.Contains(list, `"pruned": true`) {
		t.Errorf("list.json:\n%s", list)
	}
	saysPrunedDetached(t, w, id)
}

func saysPrunedDetached(t *testing.T, w *rig.Workspace, id int) {
	t.Helper()
	if r := w.TTFS("diff", itoa(id)).Exit(5); !strings.Contains(r.Stderr, "pruned") {
		t.Errorf("diff: %q", r.Stderr)
	}
	if r := w.TTFS("show", itoa(id)).OK(); !strings.Contains(r.Stdout, "pruned") {
		t.Errorf("show: %q", r.Stdout)
	}
	if r := w.TTFS("revert", itoa(id)).Exit(5); !strings.Contains(r.Stderr, "runed") {
		t.Errorf("revert: %q", r.Stderr)
	}
}
