package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ttfs/ttfs/integration/rig"
)

// memoryLimit is what the daemon may have after a million files were walked (DESIGN section 9).
const memoryLimit = 200 << 20

// BenchmarkMemory walks a big tree, every file of it looked at, and asks what the daemon holds then, over each transport.
func BenchmarkMemory(b *testing.B) {
	w := rig.New(b)
	makeTree(b, w.Dir, sizes().walked)
	lines := [][]string{{"", "to reach"}, {"mount", "1 s"}, {"walk", ""}, {"memory before", ""}, {"memory after the walk", fmt.Sprintf("%d MiB", memoryLimit>>20)}, {"of that, objects of Go", ""}}
	for _, transport := range []string{"uring", "classic"} {
		var mount, walk []time.Duration
		timed(&mount, func() { w.Mount("--transport", transport) })
		fresh, _ := resident(b, w.Daemon())
		timed(&walk, func() { walkAll(b, w.Dir) })
		now, peak := resident(b, w.Daemon())
		if now > memoryLimit {
			b.Errorf("%s: the daemon holds %.0f MiB, at most %d are allowed", transport, mebibytes(now), memoryLimit>>20)
		}
		for i, cell := range []string{"over " + transport, ms(mount), fmt.Sprintf("%.1f s", median(walk).Seconds()), fmt.Sprintf("%.0f MiB", mebibytes(fresh)),
			fmt.Sprintf("%.0f MiB, at most %.0f", mebibytes(now), mebibytes(peak)), heapOf(b, w)} {
			lines[i] = slices.Insert(lines[i], len(lines[i])-1, cell)
		}
		w.Unmount()
	}
	b.ReportMetric(0, "ns/op")
	publish(b, "memory", fmt.Sprintf("%d files, each looked at once.", sizes().walked), grid(lines))
}

// walkAll looks at every file once.
func walkAll(b *testing.B, dir string) {
	b.Helper()
	seen := 0
	must(b, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			_, err = d.Info()
			seen++
		}
		return err
	}))
	if seen != sizes().walked {
		b.Errorf("walked %d files of %d", seen, sizes().walked)
	}
}

// heapOf is what of the daemon's memory objects take, with garbage, as it says itself.
func heapOf(b *testing.B, w *rig.Workspace) string {
	b.Helper()
	var bytes int64
	_, after, _ := strings.Cut(w.Read(".tt/metrics"), "\nttfs_heap_bytes ")
	if _, err := fmt.Sscan(after, &bytes); err != nil {
		b.Fatalf(".tt/metrics has no ttfs_heap_bytes: %v", err)
	}
	return fmt.Sprintf("%.0f MiB", mebibytes(bytes))
}

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }

// resident is a process's memory in bytes, now and at most.
func resident(b testing.TB, pid int) (now, peak int64) {
	b.Helper()
	path := fmt.Sprintf("/proc/%d/status", pid)
	for name, to := range map[string]*int64{"VmRSS": &now, "VmHWM": &peak} {
		if _, err := fmt.Sscanf(field(path, name), "%d kB", to); err != nil {
			b.Fatalf("%s of %s: %v", name, path, err)
		}
		*to <<= 10
	}
	return now, peak
}

// BenchmarkEngine runs the engine's own benchmarks, which need no mount, and shows what each operation allocates.
func BenchmarkEngine(b *testing.B) {
	cmd := exec.Command("go", "test", "-json", "-run", "^$", "-bench", "^BenchmarkEngine$", "-benchtime", "3000x", "./fs/overlay")
	cmd.Dir, cmd.Env = repository(b), append(os.Environ(), "TMPDIR="+rig.Disk(b))
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		b.Fatalf("%v: %s", err, exit.Stderr)
	}
	must(b, err)
	lines := engineTable(string(out))
	if len(lines) < 2 {
		b.Fatal("there are no benchmarks in fs/overlay")
	}
	b.ReportMetric(0, "ns/op")
	publish(b, "allocations", "One operation of the engine without the kernel, on a quiet and fresh workspace.", grid(lines))
}

var engineLine = regexp.MustCompile(`^(?:BenchmarkEngine/(\w+)\S*)?\s+\d+\s+([\d.]+) ns/op\s+([\d.]+) cpu-ns/op\s+(\d+) B/op\s+(\d+) allocs/op`)

// engineTable takes the output of go test -json apart. Name and figures of a benchmark may come in two events.
func engineTable(out string) [][]string {
	lines := [][]string{{"operation", "µs", "µs of processor", "bytes", "allocations"}}
	name := ""
	for line := range strings.Lines(out) {
		var event struct{ Output string }
		if json.Unmarshal([]byte(line), &event) != nil {
			continue
		}
		if m := regexp.MustCompile(`^BenchmarkEngine/(\w+?)(?:-\d+)?\s*\t?$`).FindStringSubmatch(strings.TrimRight(event.Output, " \t\n")); m != nil {
			name = m[1]
		}
		m := engineLine.FindStringSubmatch(event.Output)
		if m == nil {
			continue
		}
		if m[1] != "" {
			name = strings.TrimRight(m[1], "-0123456789")
		}
		var wall, cpu float64
		if _, err := fmt.Sscan(m[2]+" "+m[3], &wall, &cpu); err != nil {
			continue
		}
		lines = append(lines, []string{name, short(wall / 1e3), short(cpu / 1e3), m[4], m[5]})
	}
	return lines
}

// TestEngineTable: the lines of the testing package are understood.
func TestEngineTable(t *testing.T) {
	out := `{"Action":"output","Output":"BenchmarkEngine/Lookup-2  \t"}
{"Action":"output","Output":"    3000\t      1533 ns/op\t      1500.5 cpu-ns/op\t      39 B/op\t       2 allocs/op\n"}
{"Action":"output","Output":"BenchmarkEngine/Mkdir-2  \t 3000\t      99000 ns/op\t      80000 cpu-ns/op\t      390 B/op\t       20 allocs/op\n"}
`
	if got := fmt.Sprint(engineTable(out)[1:]); got != "[[Lookup 1.53 1.50 39 2] [Mkdir 99 80 390 20]]" {
		t.Errorf("got %s", got)
	}
}
