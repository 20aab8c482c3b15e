package overlay

import (
	"strings"

	"github.com/ttfs/ttfs/guard"
	"golang.org/x/sys/unix"
)

// learn reports something to the guard, if it is followed. Preconditions: as of judge.
func (e *Engine) learn(c *Caller, f func(s *guard.State, a guard.Actor)) {
	if !e.follows(c) {
		return
	}
	a := c.actor(e.Active(c.Agent))
	e.guard.mu.Lock()
	defer e.guard.mu.Unlock()
	e.guard.unsaved = true
	f(e.guard.s, a)
}

// learnWrite reports that bytes of a file changed. Preconditions: node.mu is held.
func (e *Engine) learnWrite(c *Caller, n *node, fd int, from, to int64) {
	if !e.follows(c) {
		return
	}
	var st Stat
	if statAt(fd, "", &st) != nil {
		return
	}
	p := e.pathOfNode(n)
	e.learn(c, func(s *guard.State, a guard.Actor) {
		size := int64(st.Size)
		if to < 0 {
			from, to = 0, size
		}
		s.Wrote(a, fileOf(n.ident()), p, from, max(from, to), size)
		e.stampLocked(n.ident(), &st)
	})
}

// learnOpen reports that a file was opened, after what the open itself did to it. Preconditions: node.mu is held.
func (e *Engine) learnOpen(c *Caller, h *Handle, emptied bool) {
	if !e.follows(c) {
		return
	}
	var st Stat
	if h.low != nil {
		st.Size, st.Mtime = uint64(h.low.size), h.low.mtime
	} else if statAt(h.fd, "", &st) != nil {
		return
	}
	p := e.pathOfNode(h.n)
	h.proc, h.stamp = c.Proc, leftAs(&st)
	var mode guard.Mode
	if h.flags&unix.O_ACCMODE != unix.O_WRONLY {
		mode |= guard.ForReading
	}
	if h.writes() {
		mode |= guard.ForWriting
	}
	e.learn(c, func(s *guard.State, a guard.Actor) {
		f := fileOf(h.n.ident())
		if !emptied {
			e.externalLocked(h.n, p, &st)
		} else {
			s.Wrote(a, f, p, 0, 0, 0)
			s.BeginRewrite(f, a)
			h.rewrites = true
			mode |= guard.ForReading // it knows all that there is: nothing
		}
		s.Opened(a, f, p, int64(st.Size), mode)
		e.stampLocked(h.n.ident(), &st)
	})
}

// knowsAll says whether a guarded caller knows every byte of a file as it is. Preconditions: node.mu is held.
func (e *Engine) knowsAll(c *Caller, n *node, st *Stat) bool {
	p := e.pathOfNode(n)
	if p == "" {
		return false
	}
	a := c.actor(0)
	e.guard.mu.Lock()
	defer e.guard.mu.Unlock()
	e.externalLocked(n, p, st)
	return e.guard.s.KnowsAll(a, fileOf(n.ident()), p, int64(st.Size))
}

// learnRead reports that bytes were read; start is the version before the read began. Preconditions: gate is held.
func (e *Engine) learnRead(c *Caller, h *Handle, start guard.Seq, from, to int64) {
	p := e.pathOfNode(h.n)
	e.learn(c, func(s *guard.State, a guard.Actor) { s.Read(a, fileOf(h.n.ident()), p, start, from, to) })
}

// version is the number of the newest change, before a read.
func (e *Engine) version() guard.Seq {
	e.guard.mu.Lock()
	defer e.guard.mu.Unlock()
	return e.guard.s.Now()
}

// flushed reports what the kernel wrote through a handle that is passed through, as far as it shows. Preconditions:
// node.mu is held.
func (e *Engine) flushed(h *Handle) {
	c := Caller{Agent: h.agent, Proc: h.proc}
	if !h.writes() || h.how.mode != Passthrough || !e.follows(&c) {
		return
	}
	var st Stat
	if statAt(h.fd, "", &st) != nil || leftAs(&st) == h.stamp {
		return
	}
	h.stamp = leftAs(&st)
	e.learnWrite(&c, h.n, h.fd, 0, -1)
}

// rewritten closes the window of a handle that rewrote its file.
func (e *Engine) rewritten(h *Handle) {
	if !h.rewrites {
		return
	}
	c := Caller{Agent: h.agent, Proc: h.proc}
	e.learn(&c, func(s *guard.State, a guard.Actor) {
		s.EndRewrite(fileOf(h.n.ident()), a)
		close(e.guard.closed)
		e.guard.closed = make(chan struct{})
	})
}

// learnMove reports what a move changed, as its agent's own doing.
func (e *Engine) learnMove(m *mover, c Changes) {
	by := Caller{Agent: m.plan.Agent}
	if !e.guard.used.Load() {
		return
	}
	a := by.actor(m.plan.To)
	var tell []func(s *guard.State) // what there is to tell is gathered first: under the guard's lock the disk is not looked at
	defer func() {
		e.guard.mu.Lock()
		defer e.guard.mu.Unlock()
		e.guard.unsaved = true
		for _, f := range tell {
			f(e.guard.s)
		}
	}()
	for _, ent := range c.Entries {
		if ent.Path == "" {
			continue
		}
		var st Stat
		if dir, name, done, err := e.locateEntry(ent); err == nil {
			err = statAt(dir, name, &st)
			done()
			if err == nil {
				tell = append(tell, func(s *guard.State) { s.Linked(a, fileOf(e.identOf(keyOf(&st))), guard.Path(ent.Path)) })
				continue
			}
		}
		tell = append(tell, func(s *guard.State) { s.Removed(a, 0, guard.Path(ent.Path)) })
	}
	paths := make(map[OID]guard.Path, len(c.Objects))
	for _, o := range c.Objects {
		paths[o.id] = guard.Path(o.Path)
	}
	for _, id := range sortedOIDs(m.seen.contents) {
		var st Stat
		o, found, err := e.getObject(id)
		if err != nil || !found || e.statObject(&o, &st) != nil {
			continue
		}
		p, ident := paths[id], e.identOf(o.key)
		tell = append(tell, func(s *guard.State) {
			s.Wrote(a, fileOf(ident), p, 0, int64(st.Size), int64(st.Size))
			e.stampLocked(ident, &st)
		})
	}
}

// locateEntry opens the directory of a changed entry.
func (e *Engine) locateEntry(ent EntryChange) (int, string, func(), error) {
	v := &view{e: e}
	path := ""
	if i := strings.LastIndexByte(ent.Path, '/'); i >= 0 {
		path = ent.Path[:i]
	}
	r, err := v.resolve(path)
	if err != nil {
		return -1, "", nil, err
	}
	fd, err := v.openLive(r, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return -1, "", nil, err
	}
	return fd, ent.Name, func() { unix.Close(fd) }, nil
}
