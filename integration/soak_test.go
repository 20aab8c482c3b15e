package integration

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
)

// TestMountsComeAndGo: under load of several processes' worth of changes, a mount is taken away lazily, aborted, its daemon
// killed, or unmounted once the load has ended, over both transports in turn: the daemon ends each time, nobody hangs, what was
// read back was what was written, and the history is whole at the end.
func TestMountsComeAndGo(t *testing.T) {
	t.Parallel()
	w := rig.New(t)
	rounds := 16
	if os.Getenv("TTFS_NIGHTLY") == "1" {
		rounds = 200
	}
	kinds := []string{"classic", "auto"}
	uringWorks(t, w)
	for round := range rounds {
		w.Mount("--transport", kinds[round%2])
		load := startLoad(t, w, fmt.Sprint("round", round))
		load.until(50)
		pid := w.Daemon()
		switch round / 2 % 4 {
		case 0:
			load.end()
			w.Unmount()
		case 1:
			w.Kill()
			load.end()
			w.Bury()
		case 2:
			w.Abort()
			load.end()
			w.Bury()
		case 3:
			w.TTFSIn("/", "unmount", "--lazy", w.Dir).OK()
			load.end()
			rig.Eventually(t, "the daemon to end after a lazy unmount", func() bool { return !rig.Alive(pid) })
		}
		if w.Mounted() || rig.Alive(pid) {
			t.Fatalf("round %d: mounted %v, daemon lives %v", round, w.Mounted(), rig.Alive(pid))
		}
	}
	w.TTFSIn("/", "--workspace", w.Dir, "fsck").OK()
}

// load is goroutines that change files, each its own, until they are told to end.
type load struct {
	t     *testing.T
	stop  atomic.Bool
	turns atomic.Int64
	all   sync.WaitGroup
}

func startLoad(t *testing.T, w *rig.Workspace, name string) *load {
	l := &load{t: t}
	for i := range 4 {
		dir := w.Path(filepath.Join(name, fmt.Sprint(i)))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		l.all.Go(func() {
			for n := 0; !l.stop.Load(); n++ {
				l.turn(dir, n)
				l.turns.Add(1)
			}
		})
	}
	return l
}

// turn makes, reads, renames and removes. Errors are expected once the mount goes; wrong bytes never are.
func (l *load) turn(dir string, n int) {
	a, b := filepath.Join(dir, fmt.Sprint("a", n)), filepath.Join(dir, fmt.Sprint("b", n))
	want := bytes.Repeat([]byte(a), 1+n%300)
	if os.WriteFile(a, want, 0o644) != nil {
		return
	}
	if os.Rename(a, b) != nil {
		return
	}
	if got, err := os.ReadFile(b); err == nil && !bytes.Equal(got, want) {
		l.t.Errorf("%s: %d bytes were written, %d others read", b, len(want), len(got))
	}
	_, _ = os.ReadDir(dir)
	if n%3 == 0 {
		_ = os.Remove(b)
	}
}

// until waits for a number of turns.
func (l *load) until(turns int64) {
	rig.Eventually(l.t, "the load to get going", func() bool { return l.turns.Load() >= turns })
}

func (l *load) end() {
	l.stop.Store(true)
	l.all.Wait()
}
