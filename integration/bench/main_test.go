package bench

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/ttfs/ttfs/integration/rig"
)

func TestMain(m *testing.M) {
	if os.Getenv(envCaller) != "" {
		os.Exit(callerMain())
	}
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		os.Exit(m.Run())
	}
	if page := os.Getenv(envDoc); page != "" {
		if _, err := os.Stat(page); err != nil { // told now, not after half an hour
			fmt.Fprintf(os.Stderr, "%s: %v\n", envDoc, err)
			os.Exit(1)
		}
	}
	rig.Main(m)
}

// envBench chooses the size of the run: quick, or anything else for all of it.
const envBench = "BENCH"

// size is how much is measured.
type size struct {
	quick         bool
	callRounds    int
	jobRounds     int
	calls         int // of one kind in a round
	treeFiles     int // of the jobs' tree
	bigTree       int // files under which a task begins
	createdTree   int // files that one undo takes away
	changed       int // files that one undo brings back
	walked        int // files of which the daemon hears
	cycles        int // of the agents
	bigFileBytes  int64
	editedBytes   int // of the file in which single bytes change
	profileFor    time.Duration
	tasks         int // of one timeline
	entries       int // of one directory
	forkTrees     []int
	mergedChanges []int
}

func sizes() size {
	if os.Getenv(envBench) == "quick" {
		return size{quick: true, callRounds: 3, jobRounds: 3, calls: 60, treeFiles: 250, bigTree: 3_000, createdTree: 1_500, changed: 200,
			walked: 10_000, cycles: 5, bigFileBytes: 8 << 20, editedBytes: 10 << 20, profileFor: 10 * time.Second, tasks: 500, entries: 3_000, forkTrees: []int{100, 3_000}, mergedChanges: []int{1, 100}}
	}
	return size{callRounds: 9, jobRounds: 5, calls: 200, treeFiles: 4_650, bigTree: 100_000, createdTree: 50_000, changed: 1_000,
		walked: 1_000_000, cycles: 30, bigFileBytes: 128 << 20, editedBytes: 50 << 20, profileFor: time.Minute, tasks: 10_000, entries: 100_000, forkTrees: []int{100, 10_000, 1_000_000}, mergedChanges: []int{1, 100, 10_000}}
}

// quantile is the time below which the part q of all times is.
func quantile(times []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func median(times []time.Duration) time.Duration { return quantile(times, 0.5) }

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

func must(b testing.TB, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// timed adds how long a call took.
func timed(times *[]time.Duration, call func()) {
	start := time.Now()
	call()
	*times = append(*times, time.Since(start))
}
