package transport

import (
	"encoding/binary"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// wakeUser marks the completion of the watch on asides.wake.
const wakeUser = stopUser - 1

// asides are the requests of a thread of several entries, that of the CPUs which were not online. It must never sleep but in its ring: while
// it handled one queue's request, those that the kernel gives to the others of its entries would wait for it, and with them all that is
// called on those CPUs. So each is handled by a goroutine, and the thread, which alone may, gives the kernel the answer. That is slow, and is
// for the first request of a queue only, which then gets threads of its own.
type asides struct {
	wake    int // an eventfd: written to when an answer is there
	running sync.WaitGroup

	mu   sync.Mutex
	done []uint64 // +checklocks:mu entries with an answer
}

func newAsides() (*asides, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	return &asides{wake: fd}, nil
}

// aside handles the request in an entry beside the thread.
func (t *thread) aside(e *entry, user uint64) {
	a := t.asides
	a.running.Go(func() {
		t.handle(e)
		a.mu.Lock()
		a.done = append(a.done, user)
		a.mu.Unlock()
		var one [8]byte
		binary.NativeEndian.PutUint64(one[:], 1)
		_, _ = unix.Write(a.wake, one[:]) // it has room for it
	})
}

// answerAsides gives the kernel the answers that are there.
func (t *thread) answerAsides() {
	a := t.asides
	var count [8]byte
	_, _ = unix.Read(a.wake, count[:]) // before the look: who has an answer after that writes again
	t.ring.watch(a.wake, wakeUser)
	a.mu.Lock()
	done := a.done
	a.done = nil
	a.mu.Unlock()
	for _, user := range done {
		e := t.entries[user]
		t.ring.commit(t.r.dev, e.q.id, e.req.commit, user)
		e.q.idle.Add(1)
	}
}

// end waits for the handlers.
func (a *asides) end() {
	if a != nil {
		a.running.Wait()
		unix.Close(a.wake)
	}
}
