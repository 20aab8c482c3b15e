package main

import (
	"runtime"
	"testing"
)

func TestTuneProcessors(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	for n, want := range map[int]int{1: 4, 2: 8, 4: 16, 16: 28, 64: 76} {
		t.Setenv("GOMAXPROCS", "")
		runtime.GOMAXPROCS(n)
		if tuneProcessors(); runtime.GOMAXPROCS(0) != want {
			t.Errorf("with %d processors %d threads may run, not %d", n, runtime.GOMAXPROCS(0), want)
		}
		t.Setenv("GOMAXPROCS", "3")
		runtime.GOMAXPROCS(n)
		if tuneProcessors(); runtime.GOMAXPROCS(0) != n {
			t.Errorf("who has set GOMAXPROCS got %d", runtime.GOMAXPROCS(0))
		}
	}
}
