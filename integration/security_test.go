package integration

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
)

// TestOtherUsersSeeNoHistory: a file that was private and is public now stays private in every view of the past, and so does
// the rest of .tt; through the mount, and in a fork.
func TestOtherUsersSeeNoHistory(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		return // there is no other user to be
	}
	w := mounted(t)
	w.Sh("echo secret > f; chmod 600 f; mkdir -m 700 d; echo secret > d/in").OK()
	id := w.Task("make it public")
	w.Sh("chmod 644 f; chmod 755 d; echo public > f").OK()
	w.Must("fork f")
	for _, path := range []string{"f", "d/in"} {
		if r := asNobody(w, "cat", path); r.Code != 0 {
			t.Errorf("what is public cannot be read: %s", r)
		}
	}
	n := strconv.Itoa(id)
	for _, path := range []string{"tasks/" + n + "/before/f", "tasks/" + n + "/diff", "at/1/f", "at/1/d/in", "as/x/f", "forks/f/tree/f", "log", "status", "ctl", "blame/f"} {
		if r := asNobody(w, "cat", ".tt/"+path); r.Code == 0 || !strings.Contains(r.Stderr, "Permission denied") {
			t.Errorf("another user and .tt/%s: %s", path, r)
		}
	}
	if r := asNobody(w, "ls", ".tt"); r.Code == 0 {
		t.Errorf("another user lists .tt: %s", r)
	}
	for path, mode := range map[string]os.FileMode{".tt/tasks/" + n + "/before/f": 0o600, ".tt/at/1/f": 0o600, ".tt/at/1/d": 0o700, ".tt": 0o700} {
		if st, err := os.Lstat(w.Path(path)); err != nil || st.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v, want mode %o", path, st, err, mode)
		}
	}
}

// asNobody runs a command as another user.
func asNobody(w *rig.Workspace, args ...string) *rig.Result {
	return w.Run(w.Dir, "setpriv", append([]string{"--reuid=65534", "--regid=65534", "--clear-groups"}, args...)...)
}

// TestFlood: commands that are no commands, names that are none, a command without an end, a million bytes at a time, tasks and
// agents without end: each is answered, the daemon's memory stays bounded, and the tree is as it was.
func TestFlood(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	w.Sh("echo old > f; mkdir d").OK()
	w.Task("flood")
	before := w.Snapshot()
	times := 300
	if os.Getenv("TTFS_NIGHTLY") == "1" {
		times = 100_000
	}
	f, err := os.OpenFile(w.Path(".tt/ctl"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	long := strings.Repeat("x", 1<<20)
	refused := 0
	for i := range times {
		for _, command := range []string{"nonsense " + strconv.Itoa(i), "task a\nb", "task \x00", "fork ..", "fork a/b", "fork .tt", "agent ../x", "agent user", "agent .",
			"restore 1 ../../etc/passwd", "restore 1 /etc/passwd", "restore 1 .tt/log", "switch 99999999999999999999", "switch -1", "undo agent=../..",
			"fork " + long[:4096], "agent " + long[:4096], "merge ../f", "discard ..", "restore 1 " + strings.Repeat("p/", 2000), long} {
			if len(command) == len(long) && i%50 > 0 {
				continue
			}
			if _, err := f.WriteAt([]byte(command), 0); err == nil {
				t.Fatalf("%.40q is taken for a command", command)
			}
			refused++
		}
	}
	w.Same("after what is refused", before)
	for i := range times {
		w.Must("task flood " + strconv.Itoa(i))
		w.Must("agent a" + strconv.Itoa(i) + " pid=" + strconv.Itoa(w.Daemon())) // nobody of the test
	}
	if kib := residentKiB(t, w.Daemon()); kib > 200<<10 {
		t.Errorf("the daemon takes %d KiB", kib)
	}
	w.Same("after the flood", before)
	if err := syscall.Access(w.Path("f"), 4); err != nil {
		t.Error(err)
	}
	t.Logf("%d commands refused, %d taken", refused, 2*times)
}

// residentKiB is the memory of a process.
func residentKiB(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "VmRSS:")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
