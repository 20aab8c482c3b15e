package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
	"golang.org/x/sys/unix"
)

// grown is a size of the short run, or of the nightly one.
func grown(short, nightly int) int {
	if os.Getenv("TTFS_NIGHTLY") != "" {
		return nightly
	}
	return short
}

// TestScaleSparse: a file of 100 GiB is looked at, written in the midst, undone, read in history, checked and unmounted for what
// is in it.
func TestScaleSparse(t *testing.T) {
	t.Parallel()
	w := rig.New(t)
	const size, middle = 100 << 30, 50 << 30
	w.Sh("truncate -s 100G big; printf old | dd of=big bs=1 seek=53687091200 conv=notrunc").OK()
	w.Mount()
	before := held(t, w, middle, 8)
	task := w.Task("in the midst")
	w.Sh("printf new! | dd of=big bs=1 seek=53687091200 conv=notrunc; printf end | dd of=big bs=1 seek=107374182397 conv=notrunc").OK()
	if got := held(t, w, middle, 8); got != "new!\x00\x00\x00\x00" {
		t.Errorf("written: %q", got)
	}
	if got := held(t, w, size-3, 3); got != "end" {
		t.Errorf("at the end: %q", got)
	}
	w.Must("undo")
	if got := held(t, w, middle, 8); got != before {
		t.Errorf("undone: %q, want %q", got, before)
	}
	if got := readAt(t, w.Path(fmt.Sprintf(".tt/at/%d/big", task)), middle, 8); got != "new!\x00\x00\x00\x00" {
		t.Errorf("by .tt/at: %q", got)
	}
	w.Must("redo")
	if got := held(t, w, size-3, 3); got != "end" {
		t.Errorf("redone, at the end: %q", got)
	}
	w.Sh("truncate -s 5 big").OK()
	w.Must("undo")
	if got := held(t, w, middle, 8); got != "new!\x00\x00\x00\x00" {
		t.Errorf("after a truncate by a task of its own, undone: %q", got)
	}
	w.Unmount()
	w.TTFS("fsck").OK()
	var st unix.Stat_t
	if err := unix.Stat(w.Path("big"), &st); err != nil || st.Size != size || st.Blocks*512 > 1<<20 {
		t.Errorf("it has %d bytes, %d of them allocated, %v", st.Size, st.Blocks*512, err)
	}
}

func held(t *testing.T, w *rig.Workspace, at int64, n int) string {
	t.Helper()
	return readAt(t, w.Path("big"), at, n)
}

func readAt(t *testing.T, path string, at int64, n int) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, n)
	if _, err := f.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestScaleDirectory: a directory of many entries is listed, added to, removed from, removed whole and brought back.
func TestScaleDirectory(t *testing.T) {
	t.Parallel()
	n := grown(3_000, 100_000)
	w := rig.New(t)
	if err := os.Mkdir(w.Path("d"), 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := os.WriteFile(w.Path(fmt.Sprintf("d/%d", i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w.Mount()
	count := func(dir string) int {
		t.Helper()
		names, err := os.ReadDir(w.Path(dir))
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, e := range names {
			seen[e.Name()] = true
		}
		if len(seen) != len(names) {
			t.Errorf("%s: %d names, %d of them different", dir, len(names), len(seen))
		}
		return len(names)
	}
	want := func(when, dir string, entries int) {
		t.Helper()
		if got := count(dir); got != entries {
			t.Errorf("%s: %s has %d entries, want %d", when, dir, got, entries)
		}
	}
	want("mounted", "d", n)
	one := w.Task("one more, two fewer")
	w.Sh("echo new >d/new; rm d/0 d/1").OK()
	want("changed", "d", n-1)
	w.Task("all of it")
	w.Sh("rm -r d; mkdir d; echo only >d/only").OK()
	want("removed", "d", 1)
	want("by .tt/at", fmt.Sprintf(".tt/at/%d/d", one), n-1)
	want("by .tt/at", ".tt/at/0/d", n)
	w.Must("undo")
	want("undone", "d", n-1)
	w.Must("undo")
	want("undone twice", "d", n)
	w.Must("switch 2")
	want("redone", "d", 1)
	w.Must("switch 0")
	w.Unmount()
	want("unmounted", "d", n)
	w.TTFS("fsck").OK()
}

// TestScaleDepth: trees as deep as programs can make them by going down step by step, and paths and names of the greatest length
// that the kernel takes, are undone and brought back.
func TestScaleDepth(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	w.Sh("echo before >f").OK()
	w.Task("deep")
	depth := grown(200, 1000)
	name := strings.Repeat("n", 255)
	w.Python(`
import os, sys
depth, name = int(sys.argv[1]), sys.argv[2]
top = os.open(".", os.O_RDONLY)
for i in range(depth):
    os.mkdir("level%d" % i); os.chdir("level%d" % i)
open("bottom", "w").write("deep down\n")
os.fchdir(top)
path = os.getcwd() + "/long"
os.mkdir("long")
while len(path) + 256 < 4095:
    path += "/" + name
    os.mkdir(path)
path += "/" + "x" * (4094 - len(path))
open(path, "w").write("at PATH_MAX\n")
assert len(path) == 4095, len(path)
try:
    os.mkdir(name + "n"); sys.exit("a name of 256 bytes was taken")
except OSError as e:
    assert e.errno == 36, e
`, fmt.Sprint(depth), name).OK()
	after := w.Snapshot()
	w.Must("undo")
	w.Sh("test ! -e level0; test ! -e long; test -e f").OK()
	w.Must("redo")
	w.Same("redone", after)
	w.Task("away")
	w.Sh("rm -r level0 long").OK()
	w.Must("undo")
	w.Same("removed and brought back", after)
	w.Unmount()
	w.Same("unmounted", after)
	w.TTFS("fsck").OK()
}

// TestScaleTasks: with many tasks a mount, the log, a new task, undo and switch 0 do what they do with few, and what the daemon holds
// does not grow with them.
func TestScaleTasks(t *testing.T) {
	t.Parallel()
	n := grown(600, 10_000)
	w := mounted(t)
	begin := func(from, to int) {
		t.Helper()
		w.Python(`
import os, sys
fd = os.open(".tt/ctl", os.O_RDWR)
for i in range(int(sys.argv[1]), int(sys.argv[2])):
    os.write(fd, b"task number %d" % i)
    with open("f%d" % (i % 50), "w") as f: f.write("task %d\n" % i)
`, fmt.Sprint(from), fmt.Sprint(to)).OK()
	}
	before := w.Snapshot()
	begin(0, n)
	after := w.Snapshot()
	w.Unmount()
	w.Mount()
	if out := w.TTFS("log", "-n", "10").OK().Stdout; strings.Count(out, "\n") != 10 || !strings.Contains(out, fmt.Sprintf("→ %d number %d", n, n-1)) {
		t.Errorf("log -n 10:\n%s", out)
	}
	w.Task("one more")
	w.Must("undo")
	w.Must(fmt.Sprintf("switch %d", n/2))
	if got := w.Read("f0"); got != fmt.Sprintf("task %d\n", (n/2-1)/50*50) {
		t.Errorf("half way f0 is %q", got)
	}
	w.Must("switch 0")
	w.Same("at 0", before)
	w.Must(fmt.Sprintf("switch %d", n))
	w.Same("and back", after)
	w.Unmount()
	w.TTFS("fsck").OK()
}

// TestScaleMemory: after a walk over a million files, each looked at, the daemon holds less than 200 MiB. The short run has too
// few for the kernel to be asked to forget any, and holds the daemon to what it needs for them.
func TestScaleMemory(t *testing.T) {
	n := grown(4_000, 1_000_000)
	w := rig.New(t)
	for i := range n {
		dir := w.Path(fmt.Sprintf("d%d", i/1000))
		if i%1000 == 0 {
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("file %d", i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w.Mount()
	if got := strings.TrimSpace(w.Sh("find . -type f -size 0 -name 'file *' | wc -l").OK().Stdout); got != fmt.Sprint(n) {
		t.Errorf("found %s of %d files", got, n)
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.Daemon()))
	if err != nil {
		t.Fatal(err)
	}
	var kilobytes int
	_, after, _ := strings.Cut(string(b), "VmHWM:")
	if _, err := fmt.Sscan(after, &kilobytes); err != nil || kilobytes > 200<<10 {
		t.Errorf("the daemon holds %d KiB, %v", kilobytes, err)
	}
}
