package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ttfs/ttfs/integration/rig"
	"golang.org/x/sys/unix"
)

// sections are those of the page, in its order.
var sections = []string{"environment", "calls", "jobs", "machine", "properties", "forks", "agents", "memory", "scale", "allocations", "profile"}

// poll waits for a condition, for a minute at most.
func poll(condition func() bool) bool {
	for deadline := time.Now().Add(time.Minute); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// stamp says when and on what a section was measured. Sections are written one by one, so each has what may differ between them.
func stamp(b *testing.B) string {
	b.Helper()
	return fmt.Sprintf("%s, %s, Linux %s, %s; load before %s.", time.Now().UTC().Format("2006-01-02"), version(), kernel(b), machine(), load())
}

// kernel is its release.
func kernel(b *testing.B) string {
	b.Helper()
	var uts unix.Utsname
	must(b, unix.Uname(&uts))
	return unix.ByteSliceToString(uts.Release[:])
}

// machine is its processors and its memory.
func machine() string {
	var kib float64
	_, _ = fmt.Sscanf(field("/proc/meminfo", "MemTotal"), "%f kB", &kib)
	return fmt.Sprintf("%d × %s, %.0f GiB", runtime.NumCPU(), field("/proc/cpuinfo", "model name"), kib/(1<<20))
}

// load is the load averages before the run, of 1, 5 and 15 minutes.
func load() string {
	if l := strings.Fields(os.Getenv("BENCH_LOAD")); len(l) > 0 {
		return strings.Join(l, " ")
	}
	return "unknown"
}

func version() string {
	out, err := exec.Command(os.Getenv(rig.EnvBinary), "version").Output()
	if err != nil {
		return "ttfs of unknown version"
	}
	return firstLine(string(out))
}

// environment is what the figures depend on beside their section's stamp, as it was for the section that was measured last.
func environment(b *testing.B) string {
	b.Helper()
	return grid([][]string{
		{"environment", "of the section measured last"},
		{"date", time.Now().UTC().Format("2006-01-02")},
		{"kernel", kernel(b)},
		{"machine", machine()},
		{"disk", os.Getenv(rig.EnvDiskKind) + ", journaled when ext4, on a loop device"},
		{"Go", runtime.Version()},
		{"go-fuse", module("github.com/hanwen/go-fuse/v2")},
		{"io_uring", "enable_uring is " + firstLine(content("/sys/module/fuse/parameters/enable_uring"))},
	})
}

func content(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return "absent"
	}
	return string(b)
}

func field(path, name string) string {
	for line := range bytes.Lines([]byte(content(path))) {
		if key, value, ok := strings.Cut(string(line), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func module(path string) string {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", path).Output()
	if err != nil {
		return "unknown"
	}
	return firstLine(string(out))
}
