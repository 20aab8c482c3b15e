package bench

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ttfs/ttfs/integration/rig"
)

// scaled is the story of one thing that is large: lines of the table, all of one workspace.
type scaled struct {
	b     *testing.B
	w     *rig.Workspace
	what  string
	lines *[][]string
	used  time.Duration // processor time of the daemon, until the last line
}

// step measures one thing that is done, once.
func (s *scaled) step(name string, do func()) {
	s.b.Helper()
	var times []time.Duration
	timed(&times, do)
	s.line(name, ms(times))
}

// line adds a line, with the daemon's memory of now.
func (s *scaled) line(name, took string) {
	now, peak := resident(s.b, s.w.Daemon())
	used := processor(s.b, s.w.Daemon())
	*s.lines = append(*s.lines, []string{s.what, name, took, fmt.Sprintf("%d ms", (used - s.used).Milliseconds()), fmt.Sprintf("%.0f MiB, at most %.0f", mebibytes(now), mebibytes(peak))})
	s.what, s.used = "", used
	fmt.Fprintln(os.Stderr, strings.Join((*s.lines)[len(*s.lines)-1], " | "))
}

// remount measures a mount, after which the daemon is another one.
func (s *scaled) remount() {
	s.b.Helper()
	s.w.Unmount()
	var times []time.Duration
	timed(&times, func() { s.w.Mount() })
	s.used = 0
	s.line("mount", ms(times))
}

// BenchmarkScale is what large things cost (DESIGN section 9): a long timeline, a large directory, a huge sparse file, deep paths.
// A tree of many files is that of BenchmarkMemory.
func BenchmarkScale(b *testing.B) {
	lines := [][]string{{"", "done once", "took", "the daemon's processor time", "memory of the daemon after it"}}
	for _, story := range []func(*scaled){scaleTasks, scaleDirectory, scaleSparse, scaleDeep} {
		w := rig.NewMounted(b)
		story(&scaled{b: b, w: w, lines: &lines})
		w.Unmount()
	}
	b.ReportMetric(0, "ns/op")
	publish(b, "scale", "Each figure is of one run. To reach: a mount under 1 s with ten thousand tasks, and 200 MiB.", grid(lines))
}

func scaleTasks(s *scaled) {
	n, w := sizes().tasks, s.w
	s.what = fmt.Sprintf("%d tasks, each rewrites one of 50 files", n)
	s.step("begin and write them all", func() {
		ctl, err := os.OpenFile(w.Path(".tt/ctl"), os.O_RDWR, 0)
		must(s.b, err)
		defer ctl.Close()
		for i := range n {
			_, err := fmt.Fprintf(ctl, "task number %d", i)
			must(s.b, err)
			must(s.b, os.WriteFile(w.Path(fmt.Sprintf("f%d", i%50)), fmt.Appendf(nil, "task %d\n", i), 0o644))
		}
	})
	s.remount()
	s.step("`ttfs log -n 10`", func() { w.TTFS("log", "-n", "10").OK() })
	s.step("`ttfs log`", func() { w.TTFS("log").OK() })
	s.step(".tt/tasks/list.json", func() { w.Read(".tt/tasks/list.json") })
	s.step("begin a task", func() { w.Must("task one more") })
	s.step("undo of one file", func() { w.Must("undo"); w.Must("undo") })
	s.step(fmt.Sprintf("a file at task %d", n/2), func() { w.Read(fmt.Sprintf(".tt/at/%d/f0", n/2)) })
	s.step("switch to 0", func() { w.Must("switch 0") })
	s.step("and back", func() { w.Must(fmt.Sprintf("switch %d", n)) })
}

func scaleDirectory(s *scaled) {
	n, w := sizes().entries, s.w
	s.what = fmt.Sprintf("a directory of %d files", n)
	must(s.b, os.Mkdir(w.Path("d"), 0o755))
	s.step("make them", func() {
		for i := range n {
			must(s.b, os.WriteFile(w.Path(fmt.Sprintf("d/file %d", i)), nil, 0o644))
		}
	})
	s.remount()
	list := func(dir string, want int) func() {
		return func() {
			names, err := os.ReadDir(w.Path(dir))
			if must(s.b, err); len(names) != want {
				s.b.Errorf("%s has %d entries, want %d", dir, len(names), want)
			}
		}
	}
	s.step("list it", list("d", n))
	w.Task("one more")
	must(s.b, os.WriteFile(w.Path("d/new"), nil, 0o644))
	s.step("undo of one more", func() { w.Must("undo") })
	w.Task("away")
	s.step("`rm -r`", func() { w.Sh("rm -r d").OK() })
	s.step("list it as it was", list(".tt/at/1/d", n))
	s.step("undo of that", func() { w.Must("undo") })
	s.step("list it", list("d", n))
}

func scaleSparse(s *scaled) {
	const size, middle = 100 << 30, 50 << 30
	w := s.w
	s.what = "a sparse file of 100 GiB"
	f, err := os.Create(w.Path("big"))
	must(s.b, err)
	defer f.Close()
	must(s.b, f.Truncate(size))
	_, err = f.WriteAt([]byte("old"), middle)
	must(s.b, err)
	w.Task("in the midst")
	s.step("write in its midst", func() {
		g, err := os.OpenFile(w.Path("big"), os.O_RDWR, 0)
		must(s.b, err)
		_, err = g.WriteAt([]byte("new"), middle)
		must(s.b, err)
		must(s.b, g.Close())
	})
	s.step("undo of that", func() { w.Must("undo") })
	w.Task("cut")
	s.step("cut it to nothing", func() { must(s.b, os.Truncate(w.Path("big"), 0)) })
	s.step("undo of that", func() { w.Must("undo") })
	got := make([]byte, 3)
	if _, err := f.ReadAt(got, middle); err != nil || string(got) != "old" {
		s.b.Errorf("in its midst it is %q, %v", got, err)
	}
}

func scaleDeep(s *scaled) {
	w := s.w
	s.what = "paths of 4,095 bytes, and a tree 1,000 deep"
	w.Task("deep")
	s.step("make them", func() {
		w.Python(`
import os
top = os.open(".", os.O_RDONLY)
for i in range(1000): os.mkdir("level%d" % i); os.chdir("level%d" % i)
open("bottom", "w").write("deep down\n")
os.fchdir(top)
path = os.getcwd() + "/long"
os.mkdir("long")
while len(path) + 256 < 4095:
    path += "/" + "n" * 255
    os.mkdir(path)
open(path + "/" + "x" * (4094 - len(path)), "w").write("at PATH_MAX\n")
`).OK()
	})
	s.step("undo of that", func() { w.Must("undo") })
	s.step("redo of that", func() { w.Must("redo") })
	w.Task("away")
	s.step("`rm -r`", func() { w.Sh("rm -r level0 long").OK() })
	s.step("undo of that", func() { w.Must("undo") })
}
