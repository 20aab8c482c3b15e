package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// heapRoom is the garbage that is let lie between two collections at least. Go's own rule, as much again as is in use, means
// 4 MiB for the 1 to 2 that a daemon has in use: in a busy one it collected every 3 ms, an eighth of its processor time, and
// each collection calls threads to other CPUs than that of the caller who waits. A daemon that has more in use than this
// collects by Go's rule, so that much memory is not made more.
const heapRoom = 24 << 20

// leastPercent is Go's own rule.
const leastPercent = 100

// collector sets after each collection how much garbage there may be until the next one.
type collector struct {
	percent int // as it is set
	over    atomic.Bool
}

// tuneCollector gives the collector its rule, unless who started the daemon has given it one (GOGC). stop ends that.
func tuneCollector() (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	c := &collector{percent: heapPercent(4 << 20)} // what the runtime takes for the least
	before := debug.SetGCPercent(c.percent)
	c.watch()
	return func() {
		if c.over.CompareAndSwap(false, true) {
			debug.SetGCPercent(before)
		}
	}
}

// heapPercent is the garbage that may be, in percent of what is in use.
func heapPercent(liveBytes uint64) int {
	return int(max(leastPercent, 100*heapRoom/max(liveBytes, 1<<20)))
}

// round is an object that nobody holds: its finalizer runs after the next collection.
type round struct{ c *collector }

func (c *collector) watch() { runtime.SetFinalizer(&round{c}, (*round).end) }

func (r *round) end() {
	c := r.c
	if c.over.Load() {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	// Setting it stops the world for a moment: not for a change that hardly matters.
	if p := heapPercent(live[0].Value.Uint64()); p > c.percent+c.percent/4 || p < c.percent {
		c.percent = p
		debug.SetGCPercent(p)
	}
	c.watch()
}
