package integration

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ttfs/ttfs/integration/rig"
)

// letGoLimit is how long a call may wait for a daemon that was killed: far above what is promised, a second, on a loaded machine.
const letGoLimit = 10 * time.Second

// TestKilledDaemonLetsGo: a daemon that nobody follows is killed while programs change directories and files, moves tell the kernel
// of changes in the same directories, and requests wait for one another. Every call that waits for it ends by itself, and
// every thread of it does.
func TestKilledDaemonLetsGo(t *testing.T) {
	for kind, flags := range map[string][]string{"classic": {"--transport", "classic", "--supervise", "off"}, "uring": {"--transport", "uring"}} {
		t.Run(kind, func(t *testing.T) {
			w := rig.New(t)
			if kind == "uring" && !uringWorks(t, w) {
				return // TestTransport asserts what happens instead
			}
			w.Sh("mkdir d").OK()
			longest := time.Duration(0)
			random := rand.New(rand.NewPCG(7, uint64(time.Now().UnixNano())))
			for round := range letGoRounds() {
				w.Mount(flags...)
				calls := busy(w)
				aMoment(random)
				pid := w.Daemon()
				w.KillAlone()
				began := time.Now()
				left := calls.end(letGoLimit)
				if left > 0 {
					t.Errorf("round %d: %v after the daemon was killed %d callers still wait; the threads of the daemon:\n%s", round, letGoLimit, left, threadsOf(pid))
				}
				took := time.Since(began)
				rig.Eventually(t, "the threads of the daemon to end", func() bool { return threadsOf(pid) == "" })
				if t.Failed() {
					return
				}
				longest = max(longest, took)
				w.Bury()
			}
			t.Logf("%d kills; the longest that somebody waited: %v", letGoRounds(), longest)
		})
	}
}

// TestKilledDaemonIsFollowed: the same with a supervisor. Programs go on, though a thread of the dead daemon waits for one of them.
func TestKilledDaemonIsFollowed(t *testing.T) {
	w := rig.New(t)
	w.Sh("mkdir d").OK()
	w.Mount("--transport", "classic")
	random := rand.New(rand.NewPCG(8, uint64(time.Now().UnixNano())))
	calls := busy(w)
	for range letGoRounds() {
		aMoment(random)
		w.KillDaemon()
	}
	if left := calls.end(time.Minute); left > 0 {
		t.Errorf("%d callers still wait", left)
	}
	if n := calls.dead.Load(); n > 0 {
		t.Errorf("%d calls were told that the mount is dead", n)
	}
	t.Logf("%d kills, %d calls", letGoRounds(), calls.made.Load())
}

// aMoment waits for an instant of no choice of ours.
func aMoment(random *rand.Rand) {
	<-time.After(time.Duration(20+random.IntN(200)) * time.Millisecond)
}

func letGoRounds() int {
	if os.Getenv("TTFS_NIGHTLY") != "" {
		return 500
	}
	return 8
}

// callers are programs that call on a mount until it is dead.
type callers struct {
	stop atomic.Bool
	left atomic.Int32
	made atomic.Int64 // calls
	dead atomic.Int64 // of them, by a mount without a daemon
	all  sync.WaitGroup
}

// end waits until all have seen that the mount is dead, and says how many have not.
func (c *callers) end(limit time.Duration) int {
	c.stop.Store(true)
	done := make(chan struct{})
	go func() { c.all.Wait(); close(done) }()
	select {
	case <-done:
		return 0
	case <-time.After(limit):
		return int(c.left.Load())
	}
}

// busy starts callers.
func busy(w *rig.Workspace) *callers {
	c := &callers{}
	start := func(f func(n int) error) {
		c.left.Add(1)
		c.all.Go(func() {
			defer c.left.Add(-1)
			for n := 0; !c.stop.Load(); n++ {
				err := f(n) // refusals are part of it
				c.made.Add(1)
				if errors.Is(err, syscall.ENOTCONN) || errors.Is(err, syscall.ECONNABORTED) {
					c.dead.Add(1)
				}
			}
		})
	}
	for i := range 6 {
		start(func(n int) error {
			p := w.Path(fmt.Sprintf("d/%d-%d", i, n%8))
			if err := os.WriteFile(p, []byte("some bytes"), 0o644); err != nil {
				return err
			}
			if n%2 == 0 {
				return os.Remove(p)
			}
			return os.Rename(p, w.Path(fmt.Sprintf("d/r%d", n%4)))
		})
	}
	for range 2 {
		start(func(int) error { _, err := os.ReadDir(w.Path("d")); return err })
	}
	for _, command := range []string{"undo force", "task", "redo force"} {
		start(func(int) error { return os.WriteFile(w.Path(".tt/ctl"), []byte(command), 0) })
	}
	return c
}

// threadsOf is what the threads of a process wait for; empty: it is gone.
func threadsOf(pid int) string {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	var b strings.Builder
	for _, task := range tasks {
		comm, _ := os.ReadFile(task + "/stat")
		stack, _ := os.ReadFile(task + "/stack")
		fmt.Fprintf(&b, "%s\n%s\n", comm, stack)
	}
	return b.String()
}
