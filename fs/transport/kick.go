package transport

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kicks are the requests that the daemon makes on its own mount, to set a queue going again.
//
// A request that finds no free entry is put into the kernel's queue, and is taken out of it only when a request of the same
// queue is answered: not when an entry is registered (fuse_uring_do_register). So, when all handlers of a queue wait for
// what is queued, a new entry alone stays idle for ever. A kick is a request from the queue's CPU; it gets the new entry, is
// answered here without asking the filesystem, and its answer fetches what is queued.
//
// It is the one place where this process reaches its own mount, and it cannot hang there: its thread has no entry, and
// nobody waits for it. It has a table of descriptors of its own without /dev/fuse, so that the device is closed when the
// process is killed in the middle, which ends the kick as it ends every other request.
type kicks struct {
	running atomic.Int32

	mu      sync.Mutex
	threads map[uint32]bool // +checklocks:mu ids of the kicking threads
}

// kick makes a request from a queue's CPU. It returns at once.
func (r *rings) kick(cpu int) {
	path, err := unix.BytePtrFromString(r.c.o.Dir)
	if err != nil {
		return // nothing can be mounted there
	}
	r.kicks.running.Add(1)
	r.threads.Go(func() {
		defer r.kicks.running.Add(-1)
		kicked := make(chan struct{})
		go func() { defer close(kicked); r.kickFrom(cpu, path) }()
		<-kicked
	})
}

func (r *rings) kickFrom(cpu int, path *byte) {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	id := uint32(unix.Gettid())
	if int(id) == os.Getpid() { // but for the process's first
		other := make(chan struct{})
		go func() { defer close(other); r.kickFrom(cpu, path) }()
		<-other
		runtime.UnlockOSThread()
		return
	}
	if !pin(cpu) {
		return
	}
	r.kicks.set(id, true)
	defer r.kicks.set(id, false)
	st := new(unix.Statfs_t)
	if err := ownFiles(); err != nil {
		return
	}
	// What it says is of no interest.
	_, _, _ = unix.Syscall(unix.SYS_STATFS, uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(st)), 0)
}

func (k *kicks) set(id uint32, on bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.threads == nil {
		k.threads = map[uint32]bool{}
	}
	if on {
		k.threads[id] = true
	} else {
		delete(k.threads, id)
	}
}

// made says whether a request is a kick.
func (k *kicks) made(thread uint32) bool {
	if k.running.Load() == 0 {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.threads[thread]
}
