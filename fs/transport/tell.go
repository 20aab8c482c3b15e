package transport

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// keptTellers is how many threads that tell wait for the next time.
const keptTellers = 2

// tellers are threads on which the kernel is told of changes. A notification may wait for a directory's lock, or for a page,
// beyond the reach of a signal, and who holds that may wait for an answer of this process. When the process is killed
// meanwhile, that answer never comes, the thread never ends, and what it holds is never let go. So these threads have tables
// of descriptors of their own, with nothing in them but /dev/fuse: the others' is closed, the store's lock and the keeper's
// socket with it, and a daemon that follows can give the answer. Where none does, only an abort of the connection ends
// it, by who watches the daemon.
type tellers struct {
	dev  int
	idle chan telling // read by those that wait
	room chan struct{}
	over chan struct{}

	mu      sync.Mutex
	ended   bool // +checklocks:mu
	running sync.WaitGroup
}

// telling is what to do, and told when it is done.
type telling struct {
	do   func()
	done chan struct{}
}

func newTellers(dev int) *tellers {
	return &tellers{dev: dev, idle: make(chan telling), room: make(chan struct{}, keptTellers), over: make(chan struct{})}
}

// end waits for the threads of a connection that is gone.
func (t *tellers) end() {
	t.mu.Lock()
	t.ended = true
	t.mu.Unlock()
	close(t.over)
	t.running.Wait()
}

// start starts a thread; not when there is nobody to tell any more.
func (t *tellers) start(first telling) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended {
		t.running.Go(func() { t.run(first) })
	}
	return !t.ended
}

// Tell calls do on a thread from which notifications can be sent, and returns when it has.
func (c *Conn) Tell(do func()) {
	t := telling{do: do, done: make(chan struct{})}
	select {
	case c.tellers.idle <- t:
	default:
		if !c.tellers.start(t) {
			do() // what is sent is refused at once
			return
		}
	}
	<-t.done
}

func (t *tellers) run(first telling) {
	runtime.LockOSThread() // never unlocked: the thread, with descriptors of its own, ends with the goroutine
	if unix.Gettid() == os.Getpid() {
		// But for the process's first, which cannot end.
		defer runtime.UnlockOSThread()
		other := make(chan struct{})
		go func() { defer close(other); t.run(first) }()
		<-other
		return
	}
	_ = ownFiles(t.dev) // what fails is worth no more than a warning that nobody could act on: the kernel is told all the same
	for next := first; ; {
		next.do()
		close(next.done)
		select {
		case t.room <- struct{}{}:
		default:
			return
		}
		select {
		case next = <-t.idle:
			<-t.room
		case <-t.over:
			return
		}
	}
}

// ownFiles gives the calling thread a table of descriptors of its own, with nothing in it but those of keep and the runtime's
// (by which it wakes its poller; it ends the process when that fails). Preconditions: the goroutine is locked to the thread.
func ownFiles(keep ...int) error {
	// Two calls: the first only parts the tables, so that nothing is looked up in one that still changes.
	if err := unix.CloseRange(math.MaxInt32-1, math.MaxInt32, unix.CLOSE_RANGE_UNSHARE); err != nil {
		return fmt.Errorf("descriptors of a thread's own: %w", err)
	}
	open, err := runtimeFiles()
	if err != nil {
		return err
	}
	open = append(open, keep...)
	slices.Sort(open)
	from := 3
	for _, fd := range append(open, math.MaxInt32) {
		if fd > from {
			if err := unix.CloseRange(uint(from), uint(fd-1), 0); err != nil {
				return fmt.Errorf("descriptors of a thread's own: %w", err)
			}
		}
		from = max(from, fd+1)
	}
	return nil
}

// runtimeFiles are the calling thread's descriptors that may be the runtime's own: an epoll and an eventfd.
func runtimeFiles() ([]int, error) {
	const dir = "/proc/thread-self/fd"
	d, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	defer unix.Close(d)
	var fds []int
	buf, link := make([]byte, 8192), make([]byte, 64)
	for {
		n, err := unix.ReadDirent(d, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		if n == 0 {
			return fds, nil
		}
		_, _, names := unix.ParseDirent(buf[:n], -1, nil)
		for _, name := range names {
			fd, err := strconv.Atoi(name)
			if err != nil {
				continue
			}
			m, err := unix.Readlinkat(d, name, link)
			if err != nil {
				continue // it is the one by which we look
			}
			if target := string(link[:m]); strings.HasPrefix(target, "anon_inode:[event") {
				fds = append(fds, fd)
			}
		}
	}
}
