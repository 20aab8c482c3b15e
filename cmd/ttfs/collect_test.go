package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestHeapPercent(t *testing.T) {
	for _, c := range []struct {
		liveMiB uint64
		want    int
	}{{0, 2400}, {1, 2400}, {4, 600}, {12, 200}, {24, 100}, {100, 100}, {100_000, 100}} {
		if got := heapPercent(c.liveMiB << 20); got != c.want {
			t.Errorf("with %d MiB in use %d %%, not %d", c.liveMiB, got, c.want)
		}
	}
}

// TestCollector: with much in use garbage is let lie by Go's rule, with little by the room, again and again; and what was
// before is back at the end.
func TestCollector(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(77)
	defer debug.SetGCPercent(before)
	stop := tuneCollector()
	percent := func() int {
		set := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(set)
		return int(set[0].Value.Uint64())
	}
	until := func(what string, ok func(int) bool) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); !ok(percent()); runtime.GC() {
			if time.Now().After(end) {
				t.Fatalf("%s, but it is %d %%", what, percent())
			}
		}
	}
	for range 2 {
		big := make([]byte, 64<<20)
		until("with 64 MiB in use Go's rule is to do", func(p int) bool { return p == leastPercent })
		runtime.KeepAlive(big)
		big = nil
		until("with little in use there is to be room", func(p int) bool { return p > 2*leastPercent })
	}
	stop()
	if p := percent(); p != 77 {
		t.Errorf("afterwards it is %d %%", p)
	}
	stop()
	t.Setenv("GOGC", "100")
	tuneCollector()()
	if p := percent(); p != 77 {
		t.Errorf("who has set GOGC got %d %%", p)
	}
}
