package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ttfs/ttfs/integration/rig"
	"golang.org/x/sys/unix"
)

// peersUpTo is the biggest tree of which peers make a copy here: of a million files they take minutes.
const peersUpTo = 10_000

// BenchmarkForks is making, reading, merging and discarding forks, beside what people have for it.
func BenchmarkForks(b *testing.B) {
	if why := noForks(b); why != "" {
		b.ReportMetric(0, "ns/op")
		publish(b, "forks", "Not measured: "+why+".", "")
		return
	}
	s := &story{lines: [][]string{{"", "ttfs", "what people have", "to reach"}}}
	for _, files := range sizes().forkTrees {
		b.Run(fmt.Sprint("make ", files), func(b *testing.B) { makeForks(b, s, files) })
	}
	b.Run("read", func(b *testing.B) { readFork(b, s) })
	for _, changed := range sizes().mergedChanges {
		b.Run(fmt.Sprint("merge ", changed), func(b *testing.B) { mergeFork(b, s, changed) })
	}
	publish(b, "forks", "Medians.", grid(s.lines))
}

// noForks says why there are none; "" when there are.
func noForks(b *testing.B) string {
	b.Helper()
	w := mountMust(b)
	reply, err := w.Ctl("fork probe")
	if err == nil {
		_, err = os.Lstat(w.Path(".tt/forks/probe/tree"))
	}
	if err != nil {
		return "this ttfs makes no forks: " + strings.TrimRight(firstLine(strings.TrimPrefix(reply, "error ")), ".")
	}
	return ""
}

func forkTree(w *rig.Workspace, name string) string {
	return w.Path(filepath.Join(".tt", "forks", name, "tree"))
}

func makeForks(b *testing.B, s *story, files int) {
	w := rig.New(b)
	makeTree(b, w.Dir, files)
	others := "not copied: minutes"
	if files <= peersUpTo {
		others = copies(b, w)
	}
	others += "; kernel overlayfs " + ms(overlays(b, w.Dir))
	w.Mount()
	c := caller{ctl: w.Path(".tt/ctl")}
	var made, engine, discarded []time.Duration
	for i := range 20 {
		name := "f" + strconv.Itoa(i)
		before := forkTime(b, w)
		timed(&made, func() { c.must(b, "fork "+name) })
		engine = append(engine, forkTime(b, w)-before)
		must(b, os.WriteFile(filepath.Join(forkTree(w, name), "one"), page, 0o644))
		discarded = append(discarded, discard(b, &c, name))
	}
	s.add(fmt.Sprintf("fork, %d files: in the engine; by `.tt/ctl`; discard", files), ms(engine)+"; "+ms(made)+"; "+ms(discarded), others, "1 ms")
	b.ReportMetric(0, "ns/op")
}

// forkTime is how long the engine has taken for all forks so far.
func forkTime(b *testing.B, w *rig.Workspace) time.Duration {
	b.Helper()
	text, err := os.ReadFile(w.Path(".tt/metrics"))
	must(b, err)
	_, after, _ := strings.Cut(string(text), "\nttfs_fork_nanoseconds_total ")
	n, err := strconv.ParseInt(firstLine(after), 10, 64)
	must(b, err)
	return time.Duration(n)
}

// discard is how long it takes once nothing is open in the fork: the kernel tells of a closed file a little later.
func discard(b *testing.B, c *caller, name string) (took time.Duration) {
	b.Helper()
	var err error
	if !poll(func() bool {
		var times []time.Duration
		timed(&times, func() { _, err = c.command("discard " + name) })
		took = times[0]
		return !errors.Is(err, unix.EBUSY)
	}) || err != nil {
		b.Fatalf("discard %s: %v", name, err)
	}
	return took
}

// copies is git worktree add and cp of the same tree.
func copies(b *testing.B, w *rig.Workspace) string {
	b.Helper()
	beside := rig.Disk(b)
	w.Sh("git init -q && git add -A && git commit -qm start").OK()
	var worktree, copied []time.Duration
	for i := range 3 {
		timed(&worktree, func() { w.Sh(`git worktree add -q --detach "$1"`, filepath.Join(beside, "w"+strconv.Itoa(i))).OK() })
		timed(&copied, func() {
			w.Run("/", "cp", "-a", "--reflink=auto", w.Dir, filepath.Join(beside, "c"+strconv.Itoa(i))).OK()
		})
	}
	w.Sh("rm -rf .git").OK()
	return "`git worktree add` " + ms(worktree) + ", `cp -a --reflink=auto` " + ms(copied)
}

func overlays(b *testing.B, lower string) (times []time.Duration) {
	b.Helper()
	for range 3 {
		disk := rig.Disk(b)
		for _, d := range []string{"upper", "work", "mount"} {
			must(b, os.Mkdir(filepath.Join(disk, d), 0o755))
		}
		at := filepath.Join(disk, "mount")
		timed(&times, func() {
			must(b, unix.Mount("overlay", at, "overlay", 0, "lowerdir="+lower+",upperdir="+filepath.Join(disk, "upper")+",workdir="+filepath.Join(disk, "work")))
		})
		must(b, unix.Unmount(at, 0))
	}
	return times
}

// readFork reads every file of the jobs' tree in the workspace and in a fork that has changed none, by an agent there and here.
func readFork(b *testing.B, s *story) {
	a := makeAssets(b)
	w := rig.New(b)
	w.Run(w.Dir, "cp", "-r", filepath.Join(assetsDir(), "tree"), "tree").OK()
	w.Mount()
	c := caller{ctl: w.Path(".tt/ctl")}
	c.must(b, "fork reader")
	read := func(dir, who string) {
		cmd := exec.Command("sh", "-c", who+"find tree -type f -print0 | xargs -0 cat >/dev/null")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}
	var main, fork []time.Duration
	for range sizes().jobRounds {
		timed(&main, func() { read(w.Dir, "echo agent main >.tt/ctl; ") })
		timed(&fork, func() { read(forkTree(w, "reader"), "") })
	}
	s.add(fmt.Sprintf("an agent reads %d untouched files in its fork", a.files), fmt.Sprintf("%s, %.2f times as an agent in the workspace", ms(fork), float64(median(fork))/float64(median(main))), "", "1 time")
	b.ReportMetric(0, "ns/op")
}

// mergeFork changes files in a fork and brings them back.
func mergeFork(b *testing.B, s *story, changed int) {
	w := rig.New(b)
	makeTree(b, w.Dir, changed)
	w.Mount()
	c := caller{ctl: w.Path(".tt/ctl")}
	var merged []time.Duration
	for i := range 3 {
		name := "m" + strconv.Itoa(i)
		c.must(b, "fork "+name)
		eachFile(b, forkTree(w, name), func(path string, _ int64) {
			must(b, os.WriteFile(path, fmt.Appendf(nil, "changed %d\n", i), 0o644))
		})
		var why error
		timed(&merged, func() { _, why = c.command("merge " + name) })
		if why != nil {
			s.add(fmt.Sprintf("merge of %d changed files", changed), "not measured: "+firstLine(why.Error()), "", "")
			return
		}
	}
	s.add(fmt.Sprintf("merge of %d changed files", changed), ms(merged), "", "")
	b.ReportMetric(0, "ns/op")
}
