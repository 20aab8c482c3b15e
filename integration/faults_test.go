package integration

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
	"github.com/ttfs/ttfs/integration/treecmp"
	"golang.org/x/sys/unix"
)

// faulted is a call in the midst of which a system call of the daemon fails.
type faulted struct {
	name  string
	ready func(w *rig.Workspace) // before each time; nil: a task begins
	do    func(w *rig.Workspace) error
	// half: it is two calls, and the first is not taken back when the second is refused.
	half bool
}

func nothing(*rig.Workspace) {}

// writeSync writes and syncs.
func writeSync(w *rig.Workspace) error {
	f, err := os.OpenFile(w.Path("f"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte("SYNCED"), 2)
	return errors.Join(err, f.Sync(), f.Close())
}

// inBig writes into the midst of a big file.
func inBig(w *rig.Workspace) error {
	f, err := os.OpenFile(w.Path("big"), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(strings.Repeat("x", 300_000)), 100_001)
	return errors.Join(err, f.Close())
}

// burst changes one thing of each kind.
func burst(w *rig.Workspace) {
	w.Task("burst")
	w.Sh(`echo more >>f; mkdir n; echo made >n/made; rm gone; mv other n/other; chmod 600 d/x; ln -s f n/l; head -c 200000 /dev/zero >>big; printf xyz | dd of=big bs=1 seek=70000 conv=notrunc status=none`).OK()
}

var changing = []faulted{
	{"create", nil, func(w *rig.Workspace) error { return os.WriteFile(w.Path("made"), []byte("made"), 0o644) }, false},
	{"rewrite", nil, func(w *rig.Workspace) error { return os.WriteFile(w.Path("f"), []byte("rewritten"), 0o644) }, false},
	{"rewrite big", nil, func(w *rig.Workspace) error { return os.WriteFile(w.Path("big"), []byte("rewritten"), 0o644) }, false},
	{"write and sync", nil, writeSync, true},
	{"write into big", nil, inBig, false},
	{"truncate", nil, func(w *rig.Workspace) error { return os.Truncate(w.Path("big"), 1000) }, false},
	{"unlink", nil, func(w *rig.Workspace) error { return os.Remove(w.Path("gone")) }, false},
	{"rename over", nil, func(w *rig.Workspace) error { return os.Rename(w.Path("over"), w.Path("big")) }, false},
	{"rename a directory", nil, func(w *rig.Workspace) error { return os.Rename(w.Path("other"), w.Path("moved")) }, false},
	{"rename over a directory", nil, func(w *rig.Workspace) error { return unix.Rename(w.Path("other"), w.Path("empty")) }, false},
	{"exchange", nil, func(w *rig.Workspace) error {
		return unix.Renameat2(unix.AT_FDCWD, w.Path("other"), unix.AT_FDCWD, w.Path("f"), unix.RENAME_EXCHANGE)
	}, false},
	{"rmdir", nil, func(w *rig.Workspace) error { return os.Remove(w.Path("empty")) }, false},
	{"mkdir", nil, func(w *rig.Workspace) error { return os.Mkdir(w.Path("d/new"), 0o755) }, false},
	{"symlink", nil, func(w *rig.Workspace) error { return os.Symlink("f", w.Path("d/link")) }, false},
	{"link", nil, func(w *rig.Workspace) error { return os.Link(w.Path("f"), w.Path("d/hard")) }, false},
	{"chmod", nil, func(w *rig.Workspace) error { return os.Chmod(w.Path("d/x"), 0o600) }, false},
	{"xattr", nil, func(w *rig.Workspace) error { return unix.Setxattr(w.Path("f"), "user.a", []byte("b"), 0) }, false},
	{"list", nothing, func(w *rig.Workspace) error { _, err := os.ReadDir(w.Path("d")); return err }, false},
	{"task", nothing, command("task another"), false},
	{"undo", burst, command("undo"), false},
	{"redo", func(w *rig.Workspace) { burst(w); w.Must("undo") }, command("redo"), false},
	{"restore", burst, command("restore 1 big"), false},
	{"fork", noFork, command("fork faulty"), false},
	{"merge", func(w *rig.Workspace) {
		noFork(w)
		w.Must("fork faulty")
		w.Sh("cd .tt/forks/faulty/tree; echo of the fork >>f; rm gone; mkdir n; echo made >n/made").OK()
	}, command("merge faulty"), false},
	{"discard", func(w *rig.Workspace) { noFork(w); w.Must("fork faulty") }, command("discard faulty force"), false},
	{"old content", nothing, func(w *rig.Workspace) error { _, err := os.ReadFile(w.Path(".tt/at/1/big")); return err }, false},
}

func noFork(w *rig.Workspace) {
	if _, err := os.Stat(w.Path(".tt/forks/faulty")); err == nil {
		w.Must("discard faulty force")
	}
}

// faultCounts are what the test says at its end.
type faultCounts struct{ calls, refused, passed, remounts, deaths int }

// TestFaultyDisk: the n-th system call that the daemon makes of the files of the workspace and of its store fails, with EIO, ENOSPC, EMFILE or
// after half of a write, for n = 0, 1, 2 … until none fails (a sample, but in the nightly run). What is refused has changed nothing; what is done all
// the same can be undone exactly; and the store is sound.
func TestFaultyDisk(t *testing.T) {
	t.Parallel()
	w := rig.New(t)
	w.Sh("mkdir d other empty; echo x >d/x; echo y >other/y; for i in f gone over; do echo content >$i; done; head -c 1000000 /dev/urandom >big").OK()
	in := w.MountFaulty()
	w.Task("first")
	w.Sh("echo first >>big").OK()
	start := w.Snapshot()
	var n faultCounts
	seen := map[string]int{}
	for _, c := range changing {
		for f := range rig.Faults {
			fault := &rig.Faults[f]
			step, from := 1, 0
			if os.Getenv("TTFS_NIGHTLY") == "" {
				step, from = 5, f
			}
			for at := from; ; at += step {
				call := tryFaulted(t, w, &in, &n, &c, fault, at, start)
				if t.Failed() {
					return
				}
				if call == nil {
					break
				}
				seen[call.Name]++
				if at > 2000 {
					t.Fatalf("%s makes more than %d calls", c.name, at)
				}
			}
		}
	}
	w.Same("at the end", start)
	w.Must("switch 0")
	w.Must("switch 1")
	w.Same("gone to the beginning and back", start)
	w.Unmount()
	w.TTFS("fsck").OK()
	names := []string{}
	for name, k := range seen {
		names = append(names, fmt.Sprintf("%s %d", name, k))
	}
	slices.Sort(names)
	t.Logf("%d system calls failed: %d requests were refused, %d made all the same, the mount was made anew %d times, the daemon ended %d times; %s",
		n.calls, n.refused, n.passed, n.remounts, n.deaths, strings.Join(names, ", "))
	if n.calls < 30 || n.refused < n.calls/10 {
		t.Error("hardly anything failed: this test sees nothing")
	}
}

// tryFaulted makes one call with one fault, and has the workspace as it was again; nil: no call was hit.
func tryFaulted(t *testing.T, w *rig.Workspace, in **rig.Injector, n *faultCounts, c *faulted, fault *rig.Fault, at int, start treecmp.Tree) *rig.Call {
	t.Helper()
	if c.ready != nil {
		c.ready(w)
	} else {
		w.Task(c.name)
	}
	before := w.Snapshot()
	(*in).Arm(fault, at)
	err := c.do(w)
	call := (*in).Disarm()
	what := fmt.Sprintf("%s, %s at call %d (%v)", c.name, fault.Name, at, call)
	switch {
	case call == nil && err != nil:
		t.Fatalf("%s: %v, with no fault (%s)", what, err, w.Why())
	case call != nil:
		n.calls++
	}
	if err != nil {
		n.refused++
		if !rig.Alive(w.Daemon()) {
			n.deaths++
			t.Fatalf("%s: the daemon ended: %v", what, err)
		}
		if !isFault(err) {
			t.Errorf("%s is refused with %v (%s)", what, err, w.Why())
		}
		if !c.half {
			w.Same(what+", refused", before)
		}
	} else if call != nil {
		n.passed++
	}
	if _, probe := w.Ctl("task after " + c.name); probe != nil { // after what cannot be taken back, the journal wants to be opened anew
		n.remounts++
		w.Unmount()
		*in = w.MountFaulty()
		if err != nil && !c.half {
			w.Same(what+", refused, and mounted anew", before)
		}
	}
	w.Must("switch 1")
	w.Same(what+", taken back", start)
	return call
}

// isFault says whether an error tells of a fault of the disk.
func isFault(err error) bool {
	for _, e := range []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.ENFILE} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
