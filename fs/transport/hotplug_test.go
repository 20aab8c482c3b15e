package transport

import (
	"runtime"
	"sync"
	"testing"
)

// TestCPUsThatComeLater: what is called on a CPU that was not online at the mount is served, at first by the thread that all such CPUs
// share and then by their own, so that many callers on one may wait for one another.
func TestCPUsThatComeLater(t *testing.T) {
	if err := TryRing(); err != nil || Offered() != nil {
		t.Skipf("there are no rings here: %v, %v", err, Offered())
	}
	for _, online := range []int{0, runtime.NumCPU() - 1} { // how many were
		c, b, err := mountedOn(t, Uring, func() (int, []bool, error) {
			possible, now, err := cpus()
			for cpu := online; cpu < possible; cpu++ {
				now[cpu] = false
			}
			return possible, now, err
		})
		if err != nil {
			t.Fatal(err)
		}
		const callers = 20
		var wg sync.WaitGroup
		for cpu := range runtime.NumCPU() {
			for range callers {
				wg.Go(func() { onCPU(t, cpu, func() error { return b.open("wait") }) })
			}
		}
		eventually(t, "all wait", func() bool { return b.waiting.Load() == int32(callers*runtime.NumCPU()) })
		onCPU(t, runtime.NumCPU()-1, func() error { return b.open("free") })
		wg.Wait()
		for _, q := range c.rings.queues[online:runtime.NumCPU()] {
			q.mu.Lock()
			if q.threads == 0 {
				t.Errorf("CPU %d has no thread of its own", q.id)
			}
			q.mu.Unlock()
		}
		if err := c.Unmount(true); err != nil {
			t.Error(err)
		}
		c.Wait()
	}
}
