package integration

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
	"github.com/ttfs/ttfs/integration/treecmp"
)

// TestTools lets the tools that people run change a real repository, a task
// each, and then walks the whole timeline: back one by one, forward one by one,
// to random tasks, as the plain directory after unmount, and again after a
// remount. Every stop must be what the tree was when that task ended.
func TestTools(t *testing.T) {
	t.Parallel()
	w := rig.New(t)
	realRepository(t, w)
	w.Mount()
	line := walkTools(t, w)
	last := len(line.ids) - 1

	for i := last - 1; i >= 0; i-- {
		line.move(i, "undo")
	}
	if reply, err := w.Ctl("undo"); err == nil {
		t.Errorf("undo at the root succeeded: %q", reply)
	}
	for i := 1; i <= last; i++ {
		line.move(i, "redo")
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 6 {
		line.jump(random.IntN(last + 1))
	}
	line.jump(last)

	w.Unmount()
	line.same(last, "the plain directory after unmount")
	w.Mount()
	line.same(last, "after the remount")
	line.move(last-1, "undo")
	line.jump(0)
	w.Unmount()
	line.same(0, "the plain directory, unmounted at 0")
	w.Mount()
	line.move(1, "redo")
	line.jump(last)
	w.Sh("cd repo; git fsck --strict --no-dangling; git status --porcelain >/dev/null").OK()
	if got := w.Sh("sqlite3 data.db 'PRAGMA integrity_check'").OK().Stdout; got != "ok\n" {
		t.Errorf("sqlite: %s", got)
	}
}

// timeline is what a straight line of tasks left behind, the state before the
// first in front.
type timeline struct {
	t      *testing.T
	w      *rig.Workspace
	ids    []int
	names  []string
	trees  []treecmp.Tree
	failed int
}

func (l *timeline) add(id int, name string) {
	l.ids = append(l.ids, id)
	l.names = append(l.names, name)
	l.trees = append(l.trees, l.w.Snapshot())
}

// move does undo or redo, by turns through .tt/ctl and through the command.
func (l *timeline) move(to int, verb string) {
	l.t.Helper()
	if to%2 == 0 {
		l.w.Must(verb)
	} else {
		l.w.TTFS(verb).OK()
	}
	l.same(to, verb)
}

func (l *timeline) jump(to int) {
	l.t.Helper()
	l.w.Must("switch " + itoa(l.ids[to]))
	l.same(to, "switch")
}

// same goes on after a difference, so that one run names several tools that
// suffer; the third ends the test.
func (l *timeline) same(at int, how string) {
	l.t.Helper()
	report := l.w.Differs(l.trees[at])
	if report == "" {
		return
	}
	next := "nothing"
	if at+1 < len(l.names) {
		next = l.names[at+1]
	}
	l.t.Errorf("%s: at task %d, %q (after it came %q), the tree differs:\n%s", how, l.ids[at], l.names[at], next, report)
	if l.failed++; l.failed == 3 {
		l.t.FailNow()
	}
}

func walkTools(t *testing.T, w *rig.Workspace) *timeline {
	t.Helper()
	line := &timeline{t: t, w: w}
	line.add(0, "before everything")
	for _, step := range toolSteps {
		script := `echo "task $1" > .tt/ctl; ` + step.script
		if step.python != "" {
			script = `echo "task $1" > .tt/ctl; exec "$2" -c "$3"`
		}
		if result := w.Sh(script, step.name, os.Getenv(rig.EnvPython), step.python); result.Code != 0 {
			t.Errorf("%s: %s", step.name, result) // and on: what it did change must come back all the same
		}
		id := w.Active()
		if last := line.ids[len(line.ids)-1]; id <= last {
			t.Fatalf("%s: the active task is %d, after %d", step.name, id, last)
		}
		line.add(id, step.name)
	}
	return line
}

// realRepository makes repo/ in a workspace that is not mounted yet: the source
// of a Go module of more than a thousand files, in git.
func realRepository(t *testing.T, w *rig.Workspace) {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/cockroachdb/pebble/v2").Output()
	if err != nil {
		t.Fatalf("the module cache: %v", err)
	}
	w.Sh(`cp -r "$1" repo; chmod -R u+w repo; cd repo; git init -q; git add -A; git commit -qm start; git gc -q`,
		strings.TrimSpace(string(out))).OK()
	files := 0
	err = filepath.WalkDir(w.Path("repo"), func(string, os.DirEntry, error) error { files++; return nil })
	if err != nil || files < 1000 {
		t.Fatalf("the repository has %d files, %v", files, err)
	}
}
