package transport

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

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
		const rounds, slack = 60, 40 // what each round leaves would be more
		for range rounds {
			round()
		}
		allowed := [4]int{before[0], before[1], before[2] + slack, before[3] + slack}
		after, end := holdings(t), time.Now().Add(30*time.Second)
		for ; !within(after, allowed); after = holdings(t) {
			if time.Now().After(end) {
				t.Fatalf("goroutines, descriptors, threads, mappings: before %v, after %d rounds %v", before, rounds, after)
			}
			time.Sleep(time.Millisecond) // the pause of the poll
		}
	})
}

func within(n, most [4]int) bool {
	for i := range n {
		if n[i] > most[i] {
			return false
		}
	}
	return true
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
