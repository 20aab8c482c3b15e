package transport

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNothingIsLeft: rounds of mounting, load and unmounting leave no thread, descriptor, mapping or goroutine.
func TestNothingIsLeft(t *testing.T) {
	over(t, func(t *testing.T, c *Conn, b *blocks) {
		kind := c.Kind()
		round := func() {
			c, b, err := mounted(t, kind)
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for range 20 {
						if err := b.open("data"); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			if err := c.Unmount(false); err != nil && !errors.Is(err, unix.EBUSY) {
				t.Error(err)
			} else if err != nil {
				_ = c.Unmount(true) // the last close is not through
			}
			c.Wait()
		}
		for range 3 {
			round() // the runtime keeps what it got at first
		}
		before := holdings(t)
		for range 30 {
			round()
		}
		var after [4]int
		eventually(t, "it is as before", func() bool {
			after = holdings(t)
			for i := range after {
				if slack := []int{0, 0, 6, 8}[i]; after[i] > before[i]+slack {
					return false
				}
			}
			return true
		})
		t.Logf("goroutines, descriptors, threads, mappings: before %v, after %v", before, after)
	})
}

// holdings are this process's goroutines, descriptors, threads and mappings. The runtime keeps idle threads and arenas of
// its own: the test allows a few, far fewer than a round makes.
func holdings(t *testing.T) (n [4]int) {
	t.Helper()
	n[0] = runtime.NumGoroutine()
	for i, dir := range []string{"/proc/self/fd", "/proc/self/task"} {
		list, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		n[i+1] = len(list)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	n[3] = bytes.Count(maps, []byte("\n"))
	return n
}
