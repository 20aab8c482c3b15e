package transport

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

const (
	// noCPU is of a thread that is not pinned.
	noCPU = -1
	// repin is how many requests a thread serves between two looks at where it runs.
	repin = 1024
	// stopUser marks the completion of the watch on rings.stop; entries have their index.
	stopUser = ^uint64(0)
)

// thread serves entries, most often one, by a ring of its own.
type thread struct {
	r       *rings
	cpu     int
	entries []*entry
	ring    *ring
	pinned  bool
	free    unix.CPUSet // where it might run before it was pinned
	asides  *asides     // nil: it handles requests itself

	made       chan error // the ring is made, or cannot be
	begin      chan bool  // register, or end
	registered chan error
}

// entry is one request at a time of one queue.
type entry struct {
	q       *queue
	slot    *slot
	memory  []byte // a page with the header, and the payload
	header  []byte
	payload []byte
	req     ringRequest
	args    arguments
	out     [2][]byte
}

// vectorAt is where the two struct iovec of a registration are in the header's page.
const vectorAt = 1024

func (e *entry) allocate(payload int) error {
	page := os.Getpagesize()
	m, err := unix.Mmap(-1, 0, page+payload, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return fmt.Errorf("memory for requests: %w", err)
	}
	e.memory, e.header, e.payload = m, m[:ringHeader], m[page:]
	e.out = [2][]byte{m[:outHeaderSize], e.payload}
	vector := (*[2]unix.Iovec)(unsafe.Pointer(&m[vectorAt]))
	vector[0].Base, vector[1].Base = &m[0], &e.payload[0]
	vector[0].SetLen(ringHeader)
	vector[1].SetLen(payload)
	return nil
}

// run is the thread's life. It is never unlocked from its goroutine: the system's thread, pinned as it is, ends with it.
func (t *thread) run() {
	runtime.LockOSThread()
	if unix.Gettid() == os.Getpid() {
		// The process's first thread cannot end, and what asks where the process may run asks it.
		defer runtime.UnlockOSThread()
		other := make(chan struct{})
		go func() { defer close(other); t.run() }()
		<-other
		return
	}
	defer t.r.threads.Done()
	if err := t.prepare(); err != nil {
		t.release()
		t.made <- err
		return
	}
	defer t.release()
	t.made <- nil
	if !<-t.begin {
		return
	}
	err := t.register()
	t.registered <- err
	if err == nil {
		t.serve()
	}
}

func (t *thread) prepare() (err error) {
	if t.cpu != noCPU {
		var ok bool
		if t.free, ok = affinity(); ok {
			t.pinned = pin(t.cpu) // a cpuset may forbid it: then who calls on that CPU waits for another to wake up
		}
	}
	for _, e := range t.entries {
		if err := e.allocate(t.r.payload); err != nil {
			return err
		}
		e.slot = t.r.c.slots.add()
	}
	if len(t.entries) > 1 {
		if t.asides, err = newAsides(); err != nil {
			return err
		}
	}
	if t.ring, err = newRing(uint32(len(t.entries) + 2)); err != nil { // entries and watches
		return err
	}
	if err := t.ring.try(); err != nil {
		return err
	}
	t.ring.watch(t.r.stop, stopUser)
	if t.asides != nil {
		t.ring.watch(t.asides.wake, wakeUser)
	}
	return t.ring.enter(0)
}

func (t *thread) release() {
	t.asides.end()
	if t.ring != nil {
		t.ring.close() // before the memory that the kernel may still write to
	}
	for _, e := range t.entries {
		if e.memory != nil {
			_ = unix.Munmap(e.memory)
		}
	}
}

// register offers the entries. A registration that is refused is complete at once.
func (t *thread) register() error {
	for i, e := range t.entries {
		t.ring.register(t.r.dev, e.q.id, unsafe.Pointer(&e.memory[vectorAt]), uint64(i))
		e.q.idle.Add(1)
	}
	if err := t.ring.enter(0); err != nil {
		return err
	}
	if c, ok := t.ring.peek(); ok && c.user < wakeUser && c.res < 0 {
		return fmt.Errorf("FUSE_IO_URING_CMD_REGISTER: %w", unix.Errno(-c.res))
	}
	return nil
}

// serve handles requests until the kernel has ended all entries, or the thread is stopped.
func (t *thread) serve() {
	served := 0
	for live := len(t.entries); live > 0; {
		c, err := t.ring.wait()
		if err != nil {
			t.r.c.o.Logger.Error("a ring has failed", "cpu", t.cpu, "err", err)
			return
		}
		if c.user == stopUser {
			return
		}
		if c.user == wakeUser {
			t.answerAsides()
			continue
		}
		e := t.entries[c.user]
		few := e.q.idle.Add(-1) < t.r.spare
		if c.res < 0 {
			live--
			if err := unix.Errno(-c.res); err != unix.ENOTCONN && err != unix.ECANCELED {
				t.r.c.o.Logger.Error("the kernel has given an entry of a ring up", "cpu", e.q.id, "err", err)
				t.r.want(e.q)
			}
			continue
		}
		if few {
			t.r.want(e.q)
		}
		if t.asides != nil {
			t.aside(e, c.user)
			continue
		}
		t.handle(e)
		t.ring.commit(t.r.dev, e.q.id, e.req.commit, c.user)
		e.q.idle.Add(1)
		if served++; served%repin == 0 && t.cpu != noCPU {
			t.stay()
		}
	}
}

// stay goes back to the queue's CPU, from which the kernel moves a thread when the CPU goes offline, or the process into
// another cpuset. While that lasts, the queue is served from elsewhere.
func (t *thread) stay() {
	if runsOn() != t.cpu {
		t.pinned = pin(t.cpu)
	}
}

// handle answers the request in an entry, in place.
func (t *thread) handle(e *entry) {
	c := t.r.c
	if err := e.req.decode(e.header, e.payload); err != nil {
		c.o.Logger.Error("a request is lost", "err", err)
		e.req.answer(e.header, 0, fuse.EIO)
		return
	}
	h := inHeader(e.header)
	if t.r.kicks.made(h.Pid) {
		e.req.answer(e.header, 0, fuse.EIO)
		return
	}
	e.slot.begin(h)
	if t.pinned && c.o.Slow != nil && c.o.Slow(h) {
		if unix.SchedSetaffinity(0, &t.free) == nil {
			defer pin(t.cpu)
		}
	}
	n, status, done := c.onRing(e)
	if !done {
		n, status = c.server.HandleRequest(e.req.in[:], e.out[:])
	}
	e.slot.end()
	e.req.answer(e.header, n, status)
}
