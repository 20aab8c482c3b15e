package transport

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRing: no-ops come back in order over many turns of both queues, and a watch fires. Where rings are forbidden, the
// reason is told.
func TestRing(t *testing.T) {
	if err := TryRing(); err != nil {
		if Offered() == nil && os.Geteuid() == 0 {
			t.Logf("rings cannot be used here: %v", err)
		}
		if r, again := lockedRing(); again == nil {
			r.close()
			t.Fatalf("a ring can be made, but %v", err)
		}
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		r, err := newRing(3)
		if err != nil {
			t.Error(err)
			return
		}
		defer r.close()
		next := uint64(0)
		for turn := range 100 {
			for i := range turn % 4 {
				if r.sqe(opNop, -1, uint64(turn*10+i)) == nil {
					t.Errorf("no room for %d of %d", i, turn%4)
					return
				}
			}
			for i := range turn % 4 {
				c, err := r.wait()
				if err != nil || c.user != uint64(turn*10+i) || c.res != 0 {
					t.Errorf("turn %d: %+v, %v", turn, c, err)
					return
				}
				next++
			}
		}
		if _, ok := r.next(); ok || next == 0 {
			t.Error("there is one too many")
		}
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			t.Error(err)
			return
		}
		defer unix.Close(fd)
		r.watch(fd, stopUser)
		if err := r.enter(0); err != nil {
			t.Error(err)
		}
		if _, ok := r.peek(); ok {
			t.Error("the watch fired before there was anything")
		}
		_, _ = unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		if c, err := r.wait(); err != nil || c.user != stopUser || c.res < 0 {
			t.Errorf("the watch: %+v, %v", c, err)
		}
	}()
	<-done
}

// TestRegisterElsewhere: a registration that the file does not know is refused at once, and the ring lives on.
func TestRegisterElsewhere(t *testing.T) {
	if TryRing() != nil {
		return // TestRing has said why
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		r, err := lockedRing()
		if err != nil {
			t.Error(err)
			return
		}
		defer r.close()
		e := &entry{q: &queue{}}
		if err := e.allocate(8192); err != nil {
			t.Error(err)
			return
		}
		defer unix.Munmap(e.memory)
		th := &thread{r: &rings{dev: int(f.Fd())}, entries: []*entry{e}, ring: r}
		if err := th.register(); err == nil {
			t.Error("a plain file took a registration")
		}
		if c, ok := r.next(); !ok || c.res >= 0 {
			t.Errorf("the refusal is gone: %+v", c)
		}
		if err := r.try(); err != nil {
			t.Errorf("after a refusal: %v", err)
		}
	}()
	<-done
}
