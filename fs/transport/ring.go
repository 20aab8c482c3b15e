package transport

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"os"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What is used of io_uring. Source: include/uapi/linux/io_uring.h.
const (
	setupSQE128       = 1 << 10
	setupSingleIssuer = 1 << 12
	setupDeferTaskrun = 1 << 13
	setupNoMmap       = 1 << 14
	setupNoSQArray    = 1 << 16

	featSingleMmap = 1 << 0

	enterGetEvents = 1 << 0

	opNop      = 0
	opPollAdd  = 6
	opURingCmd = 46

	sqeSize = 128
	cqeSize = 16
	// ringHead is more than the queues have before the completions.
	ringHead = 1024
)

// ringParams is struct io_uring_params.
type ringParams struct {
	sqEntries, cqEntries, flags, threadCPU, threadIdle, features, wqFD uint32
	_                                                                  [3]uint32
	sq                                                                 sqOffsets
	cq                                                                 cqOffsets
}

type sqOffsets struct {
	head, tail, mask, entries, flags, dropped, array, _ uint32
	user                                                uintptr // the memory of the submissions
}

type cqOffsets struct {
	head, tail, mask, entries, overflow, cqes, flags, _ uint32
	user                                                uintptr // the memory of both queues
}

// ring is one io_uring. It is used by the thread that made it and by no other: with DEFER_TASKRUN the kernel insists.
type ring struct {
	fd     int
	shared []byte // both queues
	sqes   []byte

	sqHead, sqTail, cqHead, cqTail *uint32
	sqMask, cqMask                 uint32
	cqes                           []byte
	tail                           uint32 // of the submissions, as far as they are filled
}

// completion is one result.
type completion struct {
	user uint64
	res  int32
}

// newRing makes a ring for a number of submissions. Its memory is ours (Linux 6.5), not the ring's: a mapping of the ring would keep it for
// as long as the process has a thread, and a dead daemon may have one that waits for what the ring has in hand (tellers). Errors: those
// of io_uring_setup(2) and mmap(2).
func newRing(entries uint32) (*ring, error) {
	r := &ring{fd: -1}
	page := os.Getpagesize()
	pages := func(size int) int { return (size + page - 1) / page * page }
	most := 1 << bits.Len32(entries-1) // the kernel's number of submissions; it has twice as many completions
	var err error
	for b, size := range map[*[]byte]int{&r.shared: pages(ringHead + 2*most*cqeSize), &r.sqes: pages(most * sqeSize)} {
		if *b, err = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE); err != nil {
			r.close()
			return nil, fmt.Errorf("memory for a ring: %w", err)
		}
	}
	p := ringParams{flags: setupSQE128 | setupSingleIssuer | setupDeferTaskrun | setupNoMmap | setupNoSQArray}
	p.sq.user, p.cq.user = uintptr(unsafe.Pointer(&r.sqes[0])), uintptr(unsafe.Pointer(&r.shared[0]))
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, uintptr(entries), uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		r.close()
		return nil, fmt.Errorf("io_uring_setup: %w", errno)
	}
	r.fd = int(fd)
	if p.features&featSingleMmap == 0 || int(p.cq.cqes)+int(p.cqEntries)*cqeSize > len(r.shared) || int(p.sqEntries)*sqeSize > len(r.sqes) {
		r.close()
		return nil, fmt.Errorf("io_uring_setup: the kernel is too old: %w", unix.ENOSYS)
	}
	word := func(at uint32) *uint32 { return (*uint32)(unsafe.Pointer(&r.shared[at])) }
	r.sqHead, r.sqTail, r.sqMask = word(p.sq.head), word(p.sq.tail), *word(p.sq.mask)
	r.cqHead, r.cqTail, r.cqMask = word(p.cq.head), word(p.cq.tail), *word(p.cq.mask)
	r.cqes = r.shared[p.cq.cqes:]
	r.tail = *r.sqTail
	return r, nil
}

func (r *ring) close() {
	if r.fd >= 0 {
		unix.Close(r.fd) // the kernel has pinned the memory for as long as it needs it
	}
	for _, b := range [][]byte{r.shared, r.sqes} {
		if b != nil {
			_ = unix.Munmap(b)
		}
	}
}

// sqe is a free submission, zeroed; nil when all are taken. It is handed over by enter.
func (r *ring) sqe(op byte, fd int, user uint64) []byte {
	if r.tail-atomic.LoadUint32(r.sqHead) > r.sqMask {
		return nil
	}
	at := int(r.tail&r.sqMask) * sqeSize
	r.tail++
	s := r.sqes[at : at+sqeSize]
	clear(s)
	s[0] = op
	binary.NativeEndian.PutUint32(s[4:], uint32(int32(fd)))
	binary.NativeEndian.PutUint64(s[32:], user)
	return s
}

// enter hands over what is filled and waits for wait completions. Interrupted or not, the caller looks again.
func (r *ring) enter(wait uint32) error {
	atomic.StoreUint32(r.sqTail, r.tail)
	submit := r.tail - atomic.LoadUint32(r.sqHead)
	_, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), uintptr(submit), uintptr(wait), enterGetEvents, 0, 0)
	switch errno {
	case 0, unix.EINTR, unix.EAGAIN, unix.EBUSY, unix.ETIME:
		return nil
	}
	return fmt.Errorf("io_uring_enter: %w", errno)
}

// next takes a completion, if there is one.
func (r *ring) next() (completion, bool) {
	head := atomic.LoadUint32(r.cqHead)
	if head == atomic.LoadUint32(r.cqTail) {
		return completion{}, false
	}
	b := r.cqes[int(head&r.cqMask)*cqeSize:]
	c := completion{user: binary.NativeEndian.Uint64(b), res: int32(binary.NativeEndian.Uint32(b[8:]))}
	atomic.StoreUint32(r.cqHead, head+1)
	return c, true
}

// wait enters until there is a completion, and takes it.
func (r *ring) wait() (completion, error) {
	for {
		if c, ok := r.next(); ok {
			return c, nil
		}
		if err := r.enter(1); err != nil {
			return completion{}, err
		}
	}
}

// try proves that the ring works: io_uring_enter may be forbidden where io_uring_setup is not.
func (r *ring) try() error {
	r.sqe(opNop, -1, 0)
	c, err := r.wait()
	if err == nil && c.res < 0 {
		err = unix.Errno(-c.res)
	}
	return err
}

// Commands of FUSE over io_uring. Source: enum fuse_uring_cmd.
const (
	cmdRegister       = 1
	cmdCommitAndFetch = 2
)

// register offers an entry to a queue of the kernel's. vector is two struct iovec, of the header and the payload; it is
// read before enter returns.
func (r *ring) register(dev int, queue uint16, vector unsafe.Pointer, user uint64) {
	s := r.command(dev, cmdRegister, queue, user)
	binary.NativeEndian.PutUint64(s[16:], uint64(uintptr(vector)))
	binary.NativeEndian.PutUint32(s[24:], 2)
}

// commit answers the request in an entry, and offers the entry again.
func (r *ring) commit(dev int, queue uint16, id, user uint64) {
	s := r.command(dev, cmdCommitAndFetch, queue, user)
	binary.NativeEndian.PutUint64(s[56:], id)
}

// command fills a submission. The submission queue has room for all entries of its ring, and each has one at most.
func (r *ring) command(dev int, op uint32, queue uint16, user uint64) []byte {
	s := r.sqe(opURingCmd, dev, user)
	binary.NativeEndian.PutUint32(s[8:], op)
	binary.NativeEndian.PutUint16(s[64:], queue)
	return s
}

// watch completes once when a descriptor can be read.
func (r *ring) watch(fd int, user uint64) {
	s := r.sqe(opPollAdd, fd, user)
	binary.NativeEndian.PutUint32(s[28:], unix.POLLIN)
}

// peek is the next completion, which stays.
func (r *ring) peek() (completion, bool) {
	head := atomic.LoadUint32(r.cqHead)
	c, ok := r.next()
	atomic.StoreUint32(r.cqHead, head)
	return c, ok
}

// lockedRing makes a ring for the calling goroutine, which stays on its thread until it ends.
func lockedRing() (*ring, error) {
	runtime.LockOSThread()
	return newRing(1)
}
