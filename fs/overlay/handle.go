package overlay

import (
	"github.com/ttfs/ttfs/guard"
	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
	"sync/atomic"
)

// Handle is one open file. Its agent is who opened it: the caller of a later write may be the kernel's own thread.
type Handle struct {
	n     *node
	fd    int // open for reading also where the program writes only; -1: low is what is read
	low   *lowFile
	flags uint32
	how   how
	agent tasktree.Agent
	proc  guard.Process
	// privileged: the file was setuid, setgid or had capabilities when it was opened for writing.
	privileged bool
	stamp      asLeft // +checklocks:node.mu the file when its last change was told to the guard
	// rewrites: the handle opened a window of rewriting.
	rewrites bool                  // +checklocks:node.mu
	armed    atomic.Pointer[armed] // what it could change since a move; changed by who holds taskTable.turn
	watch    unseenState
	ended    func() // called when nothing is left of it; nil: nobody asks
}

// FD is the descriptor of the backing file, for the kernel to pass through to.
func (h *Handle) FD() int { return h.fd }

// Mode is how the kernel is to serve the file.
func (h *Handle) Mode() Mode { return h.how.mode }

// Backed says that the kernel is to have the backing file: of every handle that is passed through, and of some others.
func (h *Handle) Backed() bool { return h.how.mode == Passthrough || h.how.backed }

// Privileged says that a write through the handle may take rights away from the file, which the kernel does not know of.
func (h *Handle) Privileged() bool { return h.privileged }

// Node is the inode that is open.
func (h *Handle) Node() NodeID { return h.n.id }

// unseen says whether the kernel may write to the backing file by itself: where that is opened for a direct handle, a
// mapping is one of the backing file as well.
func (h *Handle) unseen() bool {
	return h.writes() && (h.how.mode == Passthrough || h.how.backed && h.flags&unix.O_ACCMODE == unix.O_RDWR)
}

func (h *Handle) writes() bool { return h.flags&unix.O_ACCMODE != unix.O_RDONLY }

// fileState is what is known of a file's open handles. Guarded by node.mu.
type fileState struct {
	handles map[*Handle]struct{}
	passing int32 // open so that the kernel has the backing file
	direct  int32 // open in direct mode without the kernel having it: it may be mapped
	cached  int32 // open so that the kernel may cache it
}

// backingFlags are the flags of an open that the backing file gets as well. O_DIRECT breaks msync below, O_APPEND and
// O_TRUNC are done here.
func backingFlags(flags uint32) int {
	return int(flags & (unix.O_SYNC | unix.O_DSYNC | unix.O_NOATIME | unix.O_LARGEFILE))
}

// newHandle makes the handle of a file that was just made and is kept whole for that. n's pin goes to the handle.
func (e *Engine) newHandle(n *node, fd int, flags uint32, c Caller) *Handle {
	h := &Handle{n: n, fd: fd, flags: flags, agent: c.Agent, proc: c.Proc}
	n.mu.Lock()
	defer n.mu.Unlock()
	h.how = opening{flags: flags, passthrough: e.passthrough.Load(), kept: true, direct: n.file.direct > 0}.how()
	e.opened(h)
	if e.follows(&c) {
		h.proc = c.Proc
		p := e.pathOfNode(n)
		e.learn(&c, func(s *guard.State, a guard.Actor) {
			f := fileOf(n.ident())
			s.Created(a, f, p)
			if h.writes() {
				s.BeginRewrite(f, a)
				h.rewrites = true
			}
		})
	}
	return h
}

// opened counts a handle. Preconditions: n.mu is held.
func (e *Engine) opened(h *Handle) {
	f := &h.n.file
	if f.handles == nil {
		f.handles = map[*Handle]struct{}{}
	}
	f.handles[h] = struct{}{}
	e.opens.Add(1)
	switch {
	case h.low != nil && h.how.mode == Cached:
		f.cached++
	case h.Backed():
		f.passing++
		if h.unseen() {
			e.writers.add(h)
		}
	case h.how.mode == Direct:
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
	e.writers.drop(h)
	h.how = how{mode: Direct}
	e.opened(h)
}

func (e *Engine) closedLocked(h *Handle) {
	f := &h.n.file
	delete(f.handles, h)
	e.opens.Add(-1)
	switch {
	case h.low != nil && h.how.mode == Cached:
		f.cached--
	case h.Backed():
		f.passing--
	case h.how.mode == Direct:
		f.direct--
	}
}

// Flush is told of every close of a descriptor: what the filesystem says late (quota, NFS) is said here.
func (e *Engine) Flush(h *Handle) error {
	h.n.mu.Lock()
	e.flushed(h)
	h.n.mu.Unlock()
	if h.fd < 0 {
		return nil
	}
	fd, err := unix.FcntlInt(uintptr(h.fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// Release ends an open file.
func (e *Engine) Release(h *Handle) {
	pass, err := e.enterOn(h.agent, target{n: h.n})
	if err != nil {
		pass = e.gate.enter(e.gate.agent(h.agent)) // it is closed; handles end all the same
	}
	defer pass.leave()
	h.n.mu.Lock()
	e.flushed(h)
	e.rewritten(h)
	stays := e.stays(h)
	if stays {
		e.closedLocked(h)
	}
	h.n.mu.Unlock()
	if stays {
		e.sweepMapped(h.agent, false)
		return
	}
	e.settleWriter(h)
	e.settle(h, handleEnds)
	h.n.mu.Lock()
	e.closedLocked(h)
	h.n.mu.Unlock()
	e.writers.drop(h)
	h.closeFD()
	h.end(e)
}

// end lets the node of a handle go of which nothing is left.
func (h *Handle) end(e *Engine) {
	if h.ended != nil {
		h.ended()
	}
	e.unpin(h.n)
}
