package bench

import (
	"flag"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/ttfs/ttfs/integration/rig"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		os.Exit(m.Run())
	}
	rig.Main(m)
}

// TestMedian: the one computation here that could be wrong unseen.
func TestMedian(t *testing.T) {
	times := []time.Duration{9, 1, 5}
	if got := quantile(times, 0.5); got != 5 {
		t.Errorf("median %d, want 5", got)
	}
	if got := quantile(times, 0.99); got != 9 {
		t.Errorf("p99 %d, want 9", got)
	}
	if times[0] != 9 {
		t.Error("the caller's slice was sorted")
	}
}

func quantile(times []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// round is measured in a directory of its own. What prepare makes is there
// before the round's task begins on the mount; measure belongs to the task.
type round struct {
	prepare func(dir string)
	measure func(dir string) []time.Duration
}

// compare runs b.N interleaved rounds.
func compare(b *testing.B, r round) {
	b.Helper()
	w := rig.NewMounted(b)
	bare := rig.Disk(b)
	var native, mounted []time.Duration
	b.ResetTimer()
	for i := range b.N {
		sides := []func(){
			func() {
				dir := fresh(b, bare)
				r.prepare(dir)
				native = append(native, r.measure(dir)...)
			},
			func() {
				w.Task("prepare")
				dir := fresh(b, w.Dir)
				r.prepare(dir)
				w.Task("measure")
				mounted = append(mounted, r.measure(dir)...)
			},
		}
		sides[i%2]()
		sides[1-i%2]()
	}
	b.StopTimer()
	report(b, "native", native)
	report(b, "mount", mounted)
	b.ReportMetric(float64(quantile(mounted, 0.5))/float64(quantile(native, 0.5)), "ratio")
	b.ReportMetric(0, "ns/op") // of both sides together: means nothing
}

func report(b *testing.B, name string, times []time.Duration) {
	b.Helper()
	b.ReportMetric(float64(quantile(times, 0.5))/1e3, name+"-µs")
	if len(times) >= 100 {
		b.ReportMetric(float64(quantile(times, 0.99))/1e3, name+"-p99-µs")
	}
}

func fresh(b *testing.B, parent string) string {
	b.Helper()
	dir, err := os.MkdirTemp(parent, "round")
	if err != nil {
		b.Fatal(err)
	}
	return dir
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
