package integration

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
)

// TestFsckNames: what is wrong with a store is named, each kind by its own words; what a death left over is no damage. Afterwards
// `--repair`, or the next mount, has ended it. A flipped bit in a blob or a segment of the journal: repair_test.go; an inode that
// is gone from hold: fsck_test.go; a missing blob, and each kind of record: fs/overlay, TestRepair.
func TestFsckNames(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage func(t *testing.T, w *rig.Workspace)
		code   int
		says   string
	}{
		"nothing": {func(*testing.T, *rig.Workspace) {}, 0, ": 0 problems"},
		"a flipped bit in the index": {func(t *testing.T, w *rig.Workspace) {
			flipIn(t, w, "journal/index")
		}, 1, "index"},
		"an orphan": {func(t *testing.T, w *rig.Workspace) {
			if err := os.WriteFile(w.Path(".tt/hold/offffff"), []byte("whose?"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, 0, "hold/offffff is needed by nobody"},
		"half a move": {halfMove, 0, "a move was interrupted"},
	} {
		t.Run(name, func(t *testing.T) {
			w := mounted(t)
			w.Sh("for i in $(seq 300); do echo old $i >f$i; done").OK()
			before := w.Snapshot()
			w.Task("new")
			w.Sh("for i in $(seq 300); do echo new $i >f$i; done").OK()
			after := w.Snapshot()
			half := name == "half a move"
			if half {
				halfMove(t, w)
			} else {
				w.Unmount()
				c.damage(t, w)
			}
			for range 2 { // looking changes nothing
				if r := w.TTFS("fsck").Exit(c.code); !strings.Contains(r.Stdout+r.Stderr, c.says) {
					t.Errorf("it says %s, and not %q", r, c.says)
				}
			}
			if c.code != 0 {
				w.TTFS("fsck", "--repair").OK()
			}
			w.Mount()
			if half {
				w.Same("the move is ended", before)
			} else {
				w.Same("mounted again", after)
				w.Must("undo")
				w.Same("undone", before)
			}
			w.Must("redo")
			w.Same("redone", after)
			w.TTFS("prune", "--keep", "30d").OK() // orphans go at once
			w.Unmount()
			if r := w.TTFS("fsck").OK(); !strings.Contains(r.Stdout, ": 0 problems") || strings.Count(r.Stdout, "\n") != 1 {
				t.Errorf("in the end: %s", r)
			}
		})
	}
}

// halfMove kills the daemon in the midst of an undo of the files f1 to f300.
func halfMove(t *testing.T, w *rig.Workspace) {
	t.Helper()
	w.Unmount()
	below, err := os.OpenRoot(w.Dir) // as it is on the disk, whoever is mounted over it
	if err != nil {
		t.Fatal(err)
	}
	defer below.Close()
	w.Mount()
	for try := range 50 {
		done := make(chan error, 1)
		go func() {
			f, err := os.OpenFile(w.Path(".tt/ctl"), os.O_RDWR, 0)
			if err == nil {
				_, err = f.WriteString("undo")
				_ = f.Close()
			}
			done <- err
		}()
		seen := fmt.Sprintf("f%d", 20+try%10*20)
		rig.Eventually(t, "the move to come to "+seen, func() bool {
			b, _ := below.ReadFile(seen)
			return strings.HasPrefix(string(b), "old")
		})
		w.Kill()
		<-done
		w.Bury()
		if old := strings.Count(w.Sh("cat f[0-9]*").OK().Stdout, "old"); old < 300 {
			return
		}
		w.Mount() // it came too late
		if _, err := w.Ctl("redo"); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("no death came in the midst of a move")
}
