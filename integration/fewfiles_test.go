package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
	"golang.org/x/sys/unix"
)

// scarce are calls that are made while the daemon can open nothing more, or little.
var scarce = []struct {
	name string
	do   func(w *rig.Workspace) error
}{
	{"create", func(w *rig.Workspace) error { return os.WriteFile(w.Path("made"), []byte("made"), 0o644) }},
	{"rewrite", func(w *rig.Workspace) error { return os.WriteFile(w.Path("f"), []byte("rewritten"), 0o644) }},
	{"rewrite big", func(w *rig.Workspace) error { return os.WriteFile(w.Path("big"), []byte("rewritten"), 0o644) }},
	{"truncate", func(w *rig.Workspace) error { return os.Truncate(w.Path("big"), 1000) }},
	{"unlink", func(w *rig.Workspace) error { return os.Remove(w.Path("gone")) }},
	{"rename over", func(w *rig.Workspace) error { return os.Rename(w.Path("over"), w.Path("big")) }},
	{"rename a directory", func(w *rig.Workspace) error { return os.Rename(w.Path("other"), w.Path("moved")) }},
	{"mkdir", func(w *rig.Workspace) error { return os.Mkdir(w.Path("d/new"), 0o755) }},
	{"symlink", func(w *rig.Workspace) error { return os.Symlink("f", w.Path("d/link")) }},
	{"link", func(w *rig.Workspace) error { return os.Link(w.Path("f"), w.Path("d/hard")) }},
	{"chmod", func(w *rig.Workspace) error { return os.Chmod(w.Path("d/x"), 0o600) }},
	{"xattr", func(w *rig.Workspace) error { return unix.Setxattr(w.Path("f"), "user.a", []byte("b"), 0) }},
	{"list", func(w *rig.Workspace) error { _, err := os.ReadDir(w.Path("d")); return err }},
	{"read", func(w *rig.Workspace) error { _, err := os.ReadFile(w.Path("d/x")); return err }},
	{"task", command("task scarce")},
	{"undo", command("undo")},
	{"redo", command("redo")},
	{"fork", command("fork scarce")},
	{"change in a fork", func(w *rig.Workspace) error {
		return os.WriteFile(w.Path(".tt/forks/scarce/tree/f"), []byte("of the fork"), 0o644)
	}},
	{"merge", command("merge scarce")},
	{"undo the merge", command("undo")},
	{"discard", command("discard scarce force")},
	{"old content", func(w *rig.Workspace) error { _, err := os.ReadFile(w.Path(".tt/at/1/big")); return err }},
}

// command writes one to .tt/ctl.
func command(line string) func(w *rig.Workspace) error {
	return func(w *rig.Workspace) error {
		f, err := os.OpenFile(w.Path(".tt/ctl"), os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.Write([]byte(line))
		return errors.Join(err, f.Close())
	}
}

// TestFewFiles: the running daemon is left with no free descriptor, with one, with two, and so on until a call is made all the same. What is refused
// is refused with ENFILE and changes nothing; with descriptors again, everything goes on, and all of it can be undone.
func TestFewFiles(t *testing.T) {
	for _, kind := range []string{"classic", "uring"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := rig.New(t)
			if kind == "uring" && !uringWorks(t, w) {
				return // TestTransport asserts what happens instead
			}
			w.Sh("mkdir d other; echo x >d/x; echo y >other/y; for i in f gone over; do echo content >$i; done; head -c 3000000 /dev/urandom >big").OK()
			w.Mount("--transport", kind)
			start := w.Snapshot()
			points, refused := 0, 0
			for _, c := range scarce {
				switch c.name {
				case "undo", "redo", "fork", "change in a fork", "merge", "undo the merge", "discard", "old content": // go on from the last
				default:
					w.Task(c.name)
				}
				for free := 0; ; free++ {
					points++
					before := w.Snapshot()
					lift := leaveFiles(t, w.Daemon(), free)
					err := c.do(w)
					lift()
					if err == nil {
						break
					}
					refused++
					if !errors.Is(err, syscall.ENFILE) {
						t.Fatalf("%s with %d free: %v (%s)", c.name, free, err, w.Why())
					}
					w.Same(fmt.Sprintf("%s was refused with %d free", c.name, free), before)
					if free > 100 {
						t.Fatalf("%s needs more than %d", c.name, free)
					}
				}
			}
			w.Must("switch 0")
			w.Same("all taken back", start)
			w.Unmount()
			w.TTFS("fsck").OK()
			t.Logf("%d points, %d refused", points, refused)
			if refused < len(scarce)/2 {
				t.Error("hardly anything was refused: this test sees nothing")
			}
		})
	}
}

// leaveFiles leaves a process that many descriptors to open. lift gives it what it had.
func leaveFiles(t *testing.T, pid, free int) (lift func()) {
	t.Helper()
	var old unix.Rlimit
	names, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err = errors.Join(err, unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &old)); err != nil {
		t.Fatal(err)
	}
	var open []int
	for _, name := range names {
		fd, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(name), "/"))
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, fd)
	}
	slices.Sort(open)
	limit := 0
	for left := free + 1; ; limit++ { // the number of the descriptor that is one too many
		if _, used := slices.BinarySearch(open, limit); !used {
			if left--; left == 0 {
				break
			}
		}
	}
	set := func(cur uint64) {
		if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: cur, Max: old.Max}, nil); err != nil {
			t.Fatal(err)
		}
	}
	set(uint64(limit))
	return func() { set(old.Cur) }
}
