package transport

import (
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

const (
	// maxReaders bounds the handlers that wait at once.
	maxReaders = 4096
	// idleReaders is how many readers may wait for a request: those beyond end after theirs.
	idleReaders = 2
	// forgetPause is how long a reader lets forgets gather when requests come by the rings. Nobody waits for them, the kernel
	// gives one reader as many at once as there are, and one by one each wakes a thread: `rm -rf` makes one for every file.
	forgetPause = 4 * time.Millisecond
	// keptBuffers is how many buffers are kept for readers to come.
	keptBuffers = 16
)

// readers read /dev/fuse. Each handles what it has read; when nobody is left to read, one more is started.
type readers struct {
	c    *Conn
	fd   int
	size int // of the largest request

	mu      sync.Mutex
	idle    int       // +checklocks:mu
	all     int       // +checklocks:mu
	buffers []*buffer // +checklocks:mu free ones
	touched int       // +checklocks:mu
	running sync.WaitGroup
}

// buffer has a request in its first half and the answer in the second. Only what is used of it is ever in memory.
type buffer struct {
	slot    *slot
	note    *note  // nil: nothing is noted
	memory  []byte // nil: let go
	in, out [1][]byte
	args    arguments
}

// start starts a reader.
func (r *readers) start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.startLocked()
}

// +checklocks:r.mu
func (r *readers) startLocked() {
	r.idle++
	r.all++
	r.running.Go(r.read)
}

func (r *readers) buffer() (*buffer, error) {
	r.mu.Lock()
	var b *buffer
	if n := len(r.buffers); n > 0 {
		b, r.buffers = r.buffers[n-1], r.buffers[:n-1]
	}
	r.mu.Unlock()
	if b == nil {
		b = &buffer{slot: r.c.slots.add(), note: r.c.ledger.add()}
	}
	if b.memory == nil {
		var err error
		if b.memory, err = unix.Mmap(-1, 0, 2*r.size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE); err != nil {
			return b, err
		}
		b.out[0] = b.memory[r.size:]
		if r.c.ledger != nil {
			r.touch(b)
		}
	}
	return b, nil
}

const (
	// wholeBuffers is how many buffers of a daemon that may be followed are in memory as a whole, touchedBytes how much of the others.
	wholeBuffers = 4
	touchedBytes = 64 << 10
)

// touch has a buffer in memory before the first request comes into it. The kernel takes no fault for a process that is being
// killed: the request that it was about to copy would be answered with EIO, and not be sent to the daemon that follows.
// Source: __get_user_pages in mm/gup.c; fuse_dev_do_read.
func (r *readers) touch(b *buffer) {
	r.mu.Lock()
	r.touched++
	size := r.size
	if r.touched > wholeBuffers {
		size = touchedBytes
	}
	r.mu.Unlock()
	for at := 0; at < min(size, r.size); at += os.Getpagesize() {
		b.memory[at] = 0
	}
}

// done is called by a reader that ends.
func (r *readers) done(b *buffer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.buffers) >= keptBuffers {
		b.free()
	}
	r.buffers = append(r.buffers, b)
	r.all--
}

func (b *buffer) free() {
	if b.memory != nil {
		_ = unix.Munmap(b.memory)
		b.memory = nil
	}
}

// took is called by a reader that has read a request.
func (r *readers) took() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.idle--; r.idle == 0 && r.all < maxReaders {
		r.startLocked()
	}
}

// again says whether a reader that has handled a request is to read on.
func (r *readers) again() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.idle >= idleReaders {
		return false
	}
	r.idle++
	return true
}

func (r *readers) read() {
	b, err := r.buffer()
	defer r.done(b)
	if err != nil {
		// The others read on. When there are none, the device is closed, and callers get an error.
		r.c.o.Logger.Error("no memory for requests", "err", err)
		r.mu.Lock()
		r.idle--
		r.mu.Unlock()
		return
	}
	for {
		n, err := readFrom(r.fd, b.memory[:r.size])
		if err != nil {
			if err != unix.ENODEV {
				r.c.o.Logger.Error("requests cannot be read", "err", err)
			}
			r.c.died()
			return
		}
		b.in[0] = b.memory[:n]
		if op := inHeader(b.in[0]).Opcode; r.c.onRings.Load() && (op == opForget || op == opBatchForget) {
			r.handle(b)
			time.Sleep(forgetPause)
			continue // it counts as one that reads: nobody else is called for
		}
		r.took()
		r.handle(b)
		if !r.again() {
			return
		}
	}
}

// readFrom reads a request. ENOENT: it was taken back meanwhile.
func readFrom(fd int, b []byte) (int, error) {
	for {
		n, err := unix.Read(fd, b)
		switch {
		case err == unix.EINTR || err == unix.EAGAIN || err == unix.ENOENT:
		case err != nil:
			return 0, err
		case n < inHeaderSize:
			return 0, errMalformed
		default:
			return n, nil
		}
	}
}

func (r *readers) handle(b *buffer) {
	h := inHeader(b.in[0])
	op, unique := h.Opcode, h.Unique
	b.slot.begin(h)
	defer b.slot.end()
	if r.c.ledger != nil && noted(op) {
		if answer := r.c.ledger.begin(&b.note, h); answer != nil {
			if b.note.state.Load() != noteDone {
				r.c.o.Logger.Error("several daemons died of a request: it is answered with EIO", "op", opName(op), "node", h.NodeId)
				b.note.done(answer)
			}
			r.taken(op, writeTo(r.fd, answer))
			b.note.end()
			return
		}
		defer b.note.end()
	}
	if answer, done := r.c.onDevice(b.in[0], b.out[0], &b.args); done {
		b.note.done(answer)
		r.taken(op, writeTo(r.fd, answer))
		return
	}
	n, status := r.c.server.HandleRequest(b.in[:], b.out[:])
	var err error
	switch {
	case n > 0 && op == opInterrupt && r.c.rings == nil:
		// It is one that is not cancelled, or that another reader has just read: the kernel is to try again, but not without a pause.
		again := slices.Clone(b.out[0][:n])
		r.c.asides.Go(func() {
			time.Sleep(interruptPause)
			r.taken(op, writeTo(r.fd, again))
		})
		return
	case n > 0 && op == opInterrupt:
		// The request may be on its way by a ring still, which the kernel, told to try again, would not look for.
		target := interrupted(b.in[0])
		r.c.asides.Go(func() { r.c.interrupt(target) })
		return
	case n > 0:
		b.note.done(b.out[0][:n])
		err = writeTo(r.fd, b.out[0][:n])
	case status != fuse.OK:
		err = writeTo(r.fd, errorAnswer(unique, status))
	}
	r.taken(op, err)
}

// taken logs that an answer was not.
func (r *readers) taken(op uint32, err error) {
	// ENOENT: nobody waits for the answer any more.
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENODEV) {
		r.c.o.Logger.Warn("an answer was not taken", "op", opName(op), "err", err)
	}
}

// close waits for the readers of a connection that is gone.
func (r *readers) close() {
	r.running.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.buffers {
		b.free()
	}
}
