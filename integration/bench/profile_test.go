package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ttfs/ttfs/integration/rig"
)

// BenchmarkProfile is one busy minute in one workspace: git clone, npm ci, go build and tar in turn, and four agents that
// write and take back beside them; then where the daemon's time went.
func BenchmarkProfile(b *testing.B) {
	assets := makeAssets(b)
	w := rig.New(b)
	path := filepath.Join(rig.Disk(b), "cpu")
	cmd := w.Command(context.Background(), "/", os.Getenv(rig.EnvBinary), "mount", w.Dir)
	cmd.Env = append(cmd.Env, "TTFS_CPUPROFILE="+path)
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("mount: %v: %s", err, out)
	}
	pid := 0
	_, err := fmt.Sscan(w.Status()["pid"], &pid)
	must(b, err)
	transport := w.Status()["transport"]
	var crowd []*callerProcess
	for i := range 4 {
		p := startCaller(b, w, w.Dir, w.Path(".tt/ctl"))
		p.register(w, fmt.Sprint("agent", i))
		dir := w.Path(fmt.Sprint("agent", i))
		must(b, os.Mkdir(dir, 0o755))
		_, err := p.ask("busy", dir)
		must(b, err)
		crowd = append(crowd, p)
	}
	start := time.Now()
	var done atomic.Int64
	var jobs sync.WaitGroup
	for _, course := range jobCourses() {
		if course.name == "big files" || assets.missing[course.name] != "" {
			continue
		}
		p := startCaller(b, w, w.Dir, w.Path(".tt/ctl"))
		dir := w.Path(strings.ReplaceAll(course.name, " ", "-"))
		must(b, os.Mkdir(dir, 0o755))
		jobs.Go(func() {
			for time.Since(start) < sizes().profileFor {
				if _, err := p.ask(course.name, dir); err != nil {
					b.Errorf("%s: %v", course.name, err)
					return
				}
				done.Add(1)
			}
		})
	}
	jobs.Wait()
	for _, p := range crowd {
		_, err := p.ask("idle", "")
		must(b, err)
	}
	took := time.Since(start)
	used := processor(b, pid)
	w.Unmount()
	top, err := exec.Command("go", "tool", "pprof", "-top", "-nodecount=30", os.Getenv(rig.EnvBinary), path).Output()
	must(b, err)
	cum, err := exec.Command("go", "tool", "pprof", "-top", "-cum", "-nodecount=60", "-focus", "ttfs/ttfs", os.Getenv(rig.EnvBinary), path).Output()
	must(b, err)
	b.ReportMetric(0, "ns/op")
	publish(b, "profile", fmt.Sprintf("One busy workspace for %.0f s over the %s transport: `git clone`, `tar x`, `go build` and `npm ci` at once, %d times in all, beside four agents "+
		"that write and take back without a pause. The daemon used %.0f s of processor.", took.Seconds(), transport, done.Load(), used.Seconds()),
		"```\n"+profileTop(top, 30, "")+"```\n\nOf that, with what they call, in ttfs itself:\n\n```\n"+profileTop(cum, 30, "github.com/ttfs/ttfs/")+"```\n")
}

// profileTop is the table that pprof prints, without its preamble: at most so many functions that have a name like this.
func profileTop(out []byte, most int, name string) string {
	var kept bytes.Buffer
	seen, n := false, 0
	for line := range bytes.Lines(out) {
		if !seen {
			seen = bytes.Contains(line, []byte("flat%"))
			if seen {
				kept.Write(line)
			}
			continue
		}
		if n < most && bytes.Contains(line, []byte(name)) {
			kept.Write(bytes.ReplaceAll(line, []byte("github.com/ttfs/ttfs/"), nil))
			n++
		}
	}
	return kept.String()
}

// processor is what a process has used of it.
func processor(b testing.TB, pid int) time.Duration {
	b.Helper()
	stat := content(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	var user, system int64
	_, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system)
	must(b, err)
	const ticks = 100 // a second, for every architecture that Go knows (USER_HZ)
	return time.Duration(user+system) * time.Second / ticks
}

// TestProfileTop: the table without what is above it.
func TestProfileTop(t *testing.T) {
	out := "File: ttfs\nTime: now\n      flat  flat%   sum%        cum   cum%\n     0.10s 10% 10%  0.10s 10%  runtime.x\n     0.10s 10% 20%  0.10s 10%  github.com/ttfs/ttfs/fs.f\n"
	if got := profileTop([]byte(out), 1, "ttfs/"); got != "      flat  flat%   sum%        cum   cum%\n     0.10s 10% 20%  0.10s 10%  fs.f\n" {
		t.Errorf("got %q", got)
	}
}
