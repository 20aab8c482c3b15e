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

// stamp says when and what was measured.
func stamp(b *testing.B) string {
	b.Helper()
	return fmt.Sprintf("%s, %s.", time.Now().UTC().Format("2006-01-02"), version())
}

func version() string {
	out, err := exec.Command(os.Getenv(rig.EnvBinary), "version").Output()
	if err != nil {
		return "ttfs of unknown version"
	}
	return firstLine(string(out))
}

// environment is what the figures depend on.
func environment(b *testing.B) string {
	b.Helper()
	var uts unix.Utsname
	must(b, unix.Uname(&uts))
	lines := [][]string{
		{"environment", ""},
		{"kernel", unix.ByteSliceToString(uts.Release[:])},
		{"CPU", fmt.Sprintf("%d × %s", runtime.NumCPU(), field("/proc/cpuinfo", "model name"))},
		{"memory", field("/proc/meminfo", "MemTotal")},
		{"disk", os.Getenv(rig.EnvDiskKind) + ", journaled when ext4, on a loop device"},
		{"Go", runtime.Version()},
		{"go-fuse", module("github.com/hanwen/go-fuse/v2")},
		{"io_uring", "enable_uring is " + firstLine(content("/sys/module/fuse/parameters/enable_uring"))},
		{"ttfs", version()},
		{"date", time.Now().UTC().Format("2006-01-02")},
		{"load before", strings.Join(strings.Fields(os.Getenv("BENCH_LOAD")), " ")},
	}
	return grid(lines)
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
