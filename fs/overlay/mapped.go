package overlay

import (
	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// A shared mapping of a file that is passed through is one of the backing file: it outlives the program's last descriptor
// and its release, and the kernel says nothing of it. So a handle that is released stays a writer as long as somebody has
// the backing file open for writing, which a mapping does. The kernel tells by refusing a read lease (Source: fcntl(2);
// fs/locks.c, check_conflicting_open). The descriptor of a handle that stays is open for reading only, so as not to be
// that somebody.

// sweepFrom is the least number of handles that stay at which it is looked whether they still must.
const sweepFrom = 64

type mappedKey struct {
	n     *node
	agent tasktree.Agent
}

// stays makes of a handle that is being released one that stays a writer, if the file may be mapped through it: a
// descriptor that cannot be read from maps nothing (Source: do_mmap in mm/mmap.c). A file has one such handle for each
// agent. Preconditions: h.n.mu is held.
func (e *Engine) stays(h *Handle) bool {
	if e.closed.Load() || !h.unseen() || h.flags&unix.O_ACCMODE != unix.O_RDWR {
		return false
	}
	t, k := &e.writers, mappedKey{h.n, h.agent}
	t.mu.Lock()
	has := t.mapped[k] != nil
	t.mu.Unlock()
	if has {
		return false
	}
	fd, err := openAt(unix.AT_FDCWD, procPath(h.fd), unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	unix.Close(h.fd)
	h.fd = fd
	if !h.mapped() {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mapped == nil {
		t.mapped, t.sweep = map[mappedKey]*Handle{}, sweepFrom
	}
	t.mapped[k] = h
	return true
}

// mapped says whether the file of a released handle may be changed through a mapping. While another handle can write to
// it, that cannot be told, and no lease may be tried: the kernel may be opening the backing file for that handle.
// Preconditions: h.n.mu is held.
func (h *Handle) mapped() bool {
	for o := range h.n.file.handles {
		if o != h && o.writes() {
			return true
		}
	}
	_, err := unix.FcntlInt(uintptr(h.fd), unix.F_SETLEASE, unix.F_RDLCK)
	if err == nil {
		_, _ = unix.FcntlInt(uintptr(h.fd), unix.F_SETLEASE, unix.F_UNLCK) // closing the descriptor ends it as well
	}
	return err == unix.EAGAIN
}

// sweepMapped lets go of an agent's handles that stayed and need not any more; unless all is set, only when there are
// many. Preconditions: as of enter, for the agent; no node's lock is held.
func (e *Engine) sweepMapped(a tasktree.Agent, all bool) {
	t := &e.writers
	t.sweeping.Lock()
	defer t.sweeping.Unlock()
	t.mu.Lock()
	look := make(map[mappedKey]*Handle)
	if all || len(t.mapped) >= t.sweep {
		for k, h := range t.mapped {
			if k.agent == a {
				look[k] = h
			}
		}
	}
	t.mu.Unlock()
	for k, h := range look {
		h.n.mu.Lock()
		mapped := h.mapped()
		if !mapped {
			t.mu.Lock()
			delete(t.mapped, k)
			t.mu.Unlock()
		}
		h.n.mu.Unlock()
		if !mapped {
			e.endMapped(h)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(look) > 0 || len(t.mapped) >= t.sweep {
		t.sweep = max(sweepFrom, 2*len(t.mapped))
	}
}

// sweepAll is sweepMapped for every agent that has such handles.
func (e *Engine) sweepAll() {
	t := &e.writers
	t.mu.Lock()
	agents := map[tasktree.Agent]struct{}{}
	for k := range t.mapped {
		agents[k.agent] = struct{}{}
	}
	t.mu.Unlock()
	for a := range agents {
		pass, err := e.enterOn(a)
		if err != nil {
			return
		}
		e.sweepMapped(a, true)
		pass.leave()
	}
}

// endMapped ends a handle that stayed, and that is in the table of those no more.
func (e *Engine) endMapped(h *Handle) {
	e.settleWriter(h)
	e.settle(h, handleEnds)
	e.writers.drop(h)
	unix.Close(h.fd)
	h.end(e)
}

// closeMapped ends all handles that stayed. Preconditions: those of exclusive.
func (e *Engine) closeMapped() {
	t := &e.writers
	t.mu.Lock()
	all := t.mapped
	t.mapped = nil
	t.mu.Unlock()
	for _, h := range all {
		e.endMapped(h)
	}
}
