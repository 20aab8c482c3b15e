package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ttfs/ttfs/integration/rig"
	"github.com/ttfs/ttfs/integration/treecmp"
	"golang.org/x/sys/unix"
)

// cuts is how many power cuts a test makes.
func cuts() int {
	if os.Getenv("TTFS_NIGHTLY") != "" {
		return 60
	}
	return 4
}

// TestPowerCut: what is on the disk of a mounted workspace is copied at random instants, as a power cut leaves it: what only the kernel has in
// memory is not in the copy. With --durability power the active task can be undone exactly, whatever of its changes is there. By default,
// what was synced is there, and the store is sound, before the next mount as after it.
func TestPowerCut(t *testing.T) {
	for name, c := range map[string]struct {
		flags []string
		check func(t *testing.T, w *rig.Workspace, cut *powerCut)
	}{
		"power":   {[]string{"--durability", "power"}, undoneExactly},
		"process": {nil, syncedIsThere},
	} {
		t.Run(name, func(t *testing.T) {
			var all []*powerCut
			t.Run("work", func(t *testing.T) { all = cutUnderWork(t, c.flags) })
			for i, cut := range all {
				if t.Failed() {
					return
				}
				t.Run(fmt.Sprint(i), func(t *testing.T) {
					w := rig.Image(t, cut.image)
					otherBoot(t, w)
					w.TTFS("fsck").OK()
					w.Mount()
					c.check(t, w, cut)
					w.Unmount()
					w.TTFS("fsck").OK()
				})
			}
			t.Logf("%d power cuts", len(all))
		})
	}
}

// otherBoot has the next one to open the store take it for one that was open when the machine stopped, as it was.
func otherBoot(t *testing.T, w *rig.Workspace) {
	t.Helper()
	at := w.Path(".tt/boot")
	if _, err := os.Stat(at); err != nil {
		t.Fatalf("the store was open, and does not say so: %v", err)
	}
	if err := os.WriteFile(at, []byte("another start of the machine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// powerCut is one.
type powerCut struct {
	image  string            // what is on the disk then
	before treecmp.Tree      // when the active task began; it was synced
	synced map[string]string // content of files that were synced since, and not touched after
	calls  int64             // calls that had returned
}

// cutUnderWork lets writers work in a task and makes power cuts meanwhile.
func cutUnderWork(t *testing.T, flags []string) (all []*powerCut) {
	// Not below the test: it outlives it.
	dir, err := os.MkdirTemp(os.Getenv(rig.EnvDisk), "cut")
	if err != nil {
		t.Fatal(err)
	}
	main := filepath.Join(dir, "disk")
	rig.NewImage(t, main, 192<<20, "")
	w := rig.Image(t, main)
	w.Sh(`mkdir -p d/e; for i in 0 1 2 3 4 5 6 7; do echo "content of $i" >f$i; head -c 300000 /dev/urandom >d/b$i; ln -s f$i d/e/l$i; done; chmod 600 f3`).OK()
	w.Mount(flags...)
	w.Task("older")
	w.Sh("echo older >>f1; rm d/b7; echo new >d/e/older").OK()
	w.Task("cut")
	unix.Sync()
	before := w.Snapshot()
	random := rand.New(rand.NewPCG(3, uint64(time.Now().UnixNano())))
	ctx, stop := context.WithCancel(t.Context())
	work := &cutWork{w: w, synced: map[string]string{}}
	for i := range 3 {
		work.all.Go(func() { work.change(ctx, rand.New(rand.NewPCG(uint64(i), random.Uint64()))) })
	}
	work.all.Go(func() { work.sync(ctx) })
	for i := range cuts() {
		<-time.After(time.Duration(5+random.IntN(300)) * time.Millisecond) // an instant of no choice of ours
		cut := &powerCut{image: filepath.Join(dir, fmt.Sprint("cut", i)), before: before}
		work.mu.Lock() // nothing is noted as synced meanwhile that is not
		cut.synced = map[string]string{}
		for name, content := range work.synced {
			cut.synced[name] = content
		}
		work.mu.Unlock()
		copyDisk(t, w, main, cut.image)
		cut.calls = work.calls.Load()
		all = append(all, cut)
	}
	stop()
	work.all.Wait()
	if n := work.calls.Load(); n < 50 {
		t.Errorf("only %d calls were made", n)
	}
	t.Logf("%d calls, %d syncs", work.calls.Load(), work.syncs.Load())
	w.Unmount()
	return all
}

// copyDisk copies an image as it is between two writes to it. The daemon stands still meanwhile, so that there are such moments.
func copyDisk(t *testing.T, w *rig.Workspace, from, to string) {
	t.Helper()
	if err := syscall.Kill(w.Daemon(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(w.Daemon(), syscall.SIGCONT) }()
	var st unix.Stat_t
	if err := unix.Stat(filepath.Dir(w.Dir), &st); err != nil {
		t.Fatal(err)
	}
	written := func() []byte {
		b, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/stat", unix.Major(st.Dev), unix.Minor(st.Dev)))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	rig.Eventually(t, "a moment without writes to the disk", func() bool {
		began := written()
		if out, err := exec.Command("cp", "--sparse=always", from, to).CombinedOutput(); err != nil {
			t.Fatalf("cp: %v: %s", err, out)
		}
		return bytes.Equal(began, written())
	})
}

// cutWork are the writers.
type cutWork struct {
	w     *rig.Workspace
	all   sync.WaitGroup
	calls atomic.Int64
	syncs atomic.Int64

	mu     sync.Mutex
	synced map[string]string
}

// change changes what was there before, and what was not.
func (c *cutWork) change(ctx context.Context, random *rand.Rand) {
	p := c.w.Path
	for ctx.Err() == nil {
		n := random.IntN(8)
		small, big := p(fmt.Sprintf("f%d", n)), p(fmt.Sprintf("d/b%d", n))
		switch random.IntN(10) {
		case 0:
			_ = os.WriteFile(small, []byte(fmt.Sprint("other content ", random.Uint64())), 0o644)
		case 1:
			appendTo(small, "more\n")
		case 2:
			_ = os.Remove(small)
		case 3:
			_ = os.Rename(small, big)
		case 4:
			if f, err := os.OpenFile(big, os.O_WRONLY, 0); err == nil {
				_, _ = f.WriteAt([]byte(strings.Repeat("x", 1+random.IntN(9000))), random.Int64N(290_000))
				f.Close()
			}
		case 5:
			_ = os.Truncate(big, random.Int64N(300_000))
		case 6:
			_ = os.Chmod(p(fmt.Sprintf("d/b%d", n)), os.FileMode(0o600+random.IntN(64)))
		case 7:
			_ = os.Mkdir(p(fmt.Sprintf("d/new%d", n)), 0o755)
			_ = os.WriteFile(p(fmt.Sprintf("d/new%d/f", n)), []byte("made"), 0o644)
		case 8:
			_ = os.RemoveAll(p(fmt.Sprintf("d/new%d", n)))
		case 9:
			_ = os.Rename(p("d/e"), p(fmt.Sprintf("d/new%d/e", n)))
			_ = os.Rename(p(fmt.Sprintf("d/new%d/e", n)), p("d/e"))
		}
		c.calls.Add(1)
	}
}

func appendTo(path, text string) {
	if f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0); err == nil {
		_, _ = f.WriteString(text)
		f.Close()
	}
}

// sync makes files that nobody else touches, and syncs them and their directory.
func (c *cutWork) sync(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		name, content := fmt.Sprintf("synced%d", n), fmt.Sprintf("synced content %d", n)
		f, err := os.Create(c.w.Path(name))
		if err != nil {
			continue
		}
		_, err = f.WriteString(content)
		if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
			c.mu.Lock()
			c.synced[name] = content
			c.mu.Unlock()
			c.syncs.Add(1)
		}
	}
}

// undoneExactly: every before-image that was promised is there.
func undoneExactly(t *testing.T, w *rig.Workspace, cut *powerCut) {
	syncedIsThere(t, w, cut)
	w.Must("undo")
	w.Same(fmt.Sprintf("undone after a power cut at call %d", cut.calls), cut.before)
	if !strings.Contains(w.Read(".tt/tasks/list"), "older") {
		t.Error("the task before is gone")
	}
}

// syncedIsThere: what was synced is.
func syncedIsThere(t *testing.T, w *rig.Workspace, cut *powerCut) {
	for name, want := range cut.synced {
		if got := w.Read(name); got != want {
			t.Errorf("%s was synced with %q and is %q", name, want, got)
		}
	}
	if !strings.Contains(w.Read(".tt/tasks/list"), "cut") {
		t.Errorf("the task is gone:\n%s", w.Read(".tt/tasks/list"))
	}
}
