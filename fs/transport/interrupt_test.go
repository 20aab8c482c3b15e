package transport

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestInterruptIsNotAskedForEver: a request that is answered directly is not cancelled. The kernel asks again, but not without a pause,
// which would take a processor for as long as the request waits; over io_uring, not for long.
func TestInterruptIsNotAskedForEver(t *testing.T) {
	over(t, func(t *testing.T, c *Conn, b *blocks) {
		cmd := exec.Command("stat", filepath.Join(b.dir, "stuck"))
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the request waits", func() bool { return b.waiting.Load() > 0 })
		start := time.Now()
		if err := cmd.Process.Signal(unix.SIGTERM); err != nil {
			t.Fatal(err)
		}
		interrupts := func() uint64 { return c.Requests()["interrupt"] }
		enough := uint64(1)
		if c.Kind() == Classic {
			enough = 20
		}
		eventually(t, "the kernel has interrupted it", func() bool { return interrupts() >= enough })
		if n, most := interrupts(), uint64(time.Since(start)/interruptPause)+2; n > most {
			t.Errorf("%d interrupts in %v", n, time.Since(start))
		}
		b.free()
		_ = cmd.Wait() // it was terminated
	})
}

// TestDirectoryOperationsAtOnce: a name of a directory is looked up while another of it is waited for.
func TestDirectoryOperationsAtOnce(t *testing.T) {
	over(t, func(t *testing.T, c *Conn, b *blocks) {
		var st unix.Stat_t
		stuck, free := make(chan error, 1), make(chan error, 1)
		go func() { stuck <- unix.Stat(filepath.Join(b.dir, "stuck"), &unix.Stat_t{}) }()
		eventually(t, "the first waits", func() bool { return b.waiting.Load() > 0 })
		go func() { free <- unix.Stat(filepath.Join(b.dir, "data"), &st) }()
		eventually(t, "the second is there", func() bool { return len(free) > 0 })
		if err := <-free; err != nil || st.Size != dataSize {
			t.Errorf("%d bytes, %v", st.Size, err)
		}
		b.free()
		if err := <-stuck; err != unix.ENOENT {
			t.Error(err)
		}
	})
}
