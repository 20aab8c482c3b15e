package overlay

import (
	"sync"

	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// Handle is one open file. Its agent is who opened it: the caller of a later write may be the kernel's own thread.
type Handle struct {
	n     *node
	fd    int // open for reading also where the program writes only
	flags uint32
	mode  Mode
	agent tasktree.Agent
}

// FD is the descriptor of the backing file, for the kernel to pass through to.
func (h *Handle) FD() int { return h.fd }

// Mode is how the kernel is to serve the file.
func (h *Handle) Mode() Mode { return h.mode }

// Node is the inode that is open.
func (h *Handle) Node() NodeID { return h.n.id }

func (h *Handle) writes() bool { return h.flags&unix.O_ACCMODE != unix.O_RDONLY }

// fileState is what is known of a file's open handles. Guarded by node.mu.
type fileState struct {
	handles map[*Handle]struct{}
	passing int // open for passthrough
	direct  int // open for reading and writing in direct mode
}

// writerTable is the handles through which the kernel may write without the daemon seeing it.
type writerTable struct {
	mu  sync.Mutex
	all map[*Handle]struct{} // +checklocks:mu
}

// backingFlags are the flags of an open that the backing file gets as well. O_DIRECT breaks msync below, O_APPEND and
// O_TRUNC are done here.
func backingFlags(flags uint32) int {
	return int(flags & (unix.O_SYNC | unix.O_DSYNC | unix.O_NOATIME | unix.O_LARGEFILE))
}

// newHandle makes the handle of a file that was just made and is kept whole for that. n's pin goes to the handle.
func (e *Engine) newHandle(n *node, fd int, flags uint32, c Caller) *Handle {
	h := &Handle{n: n, fd: fd, flags: flags, agent: c.Agent}
	n.mu.Lock()
	defer n.mu.Unlock()
	h.mode, _ = opening{flags: flags, passthrough: e.passthrough.Load(), kept: true, direct: n.file.direct > 0}.mode()
	e.opened(h)
	return h
}

// opened counts a handle. Preconditions: n.mu is held.
func (e *Engine) opened(h *Handle) {
	f := &h.n.file
	if f.handles == nil {
		f.handles = map[*Handle]struct{}{}
	}
	f.handles[h] = struct{}{}
	switch {
	case h.mode == Passthrough:
		f.passing++
		if h.writes() {
			e.writers.mu.Lock()
			if e.writers.all == nil {
				e.writers.all = map[*Handle]struct{}{}
			}
			e.writers.all[h] = struct{}{}
			e.writers.mu.Unlock()
		}
	case h.mode == Direct && h.flags&unix.O_ACCMODE == unix.O_RDWR:
		f.direct++
	}
}

// SetPassthrough says whether the mount can pass files through. It is asked at every open.
func (e *Engine) SetPassthrough(can bool) { e.passthrough.Store(can) }

// NotPassed says that the kernel would not pass the handle's file through: it is served in direct mode.
func (e *Engine) NotPassed(h *Handle) {
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	e.closedLocked(h)
	h.mode = Direct
	e.opened(h)
}

func (e *Engine) closedLocked(h *Handle) {
	f := &h.n.file
	delete(f.handles, h)
	switch {
	case h.mode == Passthrough:
		f.passing--
		e.writers.mu.Lock()
		delete(e.writers.all, h)
		e.writers.mu.Unlock()
	case h.mode == Direct && h.flags&unix.O_ACCMODE == unix.O_RDWR:
		f.direct--
	}
}

// Release ends an open file.
func (e *Engine) Release(h *Handle) {
	h.n.mu.Lock()
	e.closedLocked(h)
	h.n.mu.Unlock()
	unix.Close(h.fd)
	e.unpin(h.n)
}

// captureWriters keeps, for the agent's active task, what it could change without being seen: the files that it has open
// for passthrough writing. Preconditions: gate is held for writing.
func (e *Engine) captureWriters(a tasktree.Agent) error {
	e.writers.mu.Lock()
	var open []*Handle
	for h := range e.writers.all {
		if h.agent == a {
			open = append(open, h)
		}
	}
	e.writers.mu.Unlock()
	var first error
	for _, h := range open {
		if err := e.captureWriter(h); err != nil && first == nil {
			first = err
		}
	}
	return first
}

func (e *Engine) captureWriter(h *Handle) error {
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	ch, err := e.begin(Caller{Agent: h.agent})
	if err != nil {
		return err
	}
	if err := ch.content(h.n, h.fd, 0, 1<<62); err != nil {
		return err
	}
	return ch.commit()
}
