package overlay

import (
	"errors"
	"time"

	"github.com/ttfs/ttfs/guard"
	"golang.org/x/sys/unix"
)

// Open opens a regular file. With O_TRUNC the content is kept and the file emptied before it returns. Errors: ESTALE,
// Fenced, NoSpace; a refused open has changed nothing.
//
// While another agent rewrites the file, an open for writing that does not append waits, at most rewriteWait; cancel,
// which may be nil, ends the waiting.
func (e *Engine) Open(c Caller, id NodeID, flags uint32, killPrivs bool, cancel <-chan struct{}) (*Handle, error) {
	n, err := e.pin(id)
	if err != nil {
		return nil, err
	}
	var deadline <-chan time.Time
	for {
		h, err := e.openOnce(c, n, flags, killPrivs)
		if err == nil {
			e.openedIn(n)
			return h, nil
		}
		if errors.Is(err, errRewriting) {
			if deadline == nil {
				deadline = time.After(rewriteWait)
			}
			if err = e.awaitRewrite(&c, n, flags, deadline, cancel); err == nil {
				continue
			}
		}
		e.unpin(n)
		return nil, err
	}
}

func (e *Engine) openOnce(c Caller, n *node, flags uint32, killPrivs bool) (*Handle, error) {
	agent := c.Agent
	if flags&(unix.O_ACCMODE|unix.O_TRUNC) == unix.O_RDONLY {
		agent = ""
	}
	pass, err := e.enterOn(agent, target{n: n})
	if err != nil {
		return nil, err
	}
	defer pass.leave()
	return e.open(c, n, flags, killPrivs)
}

func (e *Engine) open(c Caller, n *node, flags uint32, killPrivs bool) (_ *Handle, err error) {
	h := &Handle{n: n, flags: flags, agent: c.Agent, proc: c.Proc}
	if n.hollow() && !h.writes() && flags&unix.O_TRUNC == 0 {
		return e.openLow(c, h)
	}
	access := unix.O_RDONLY
	if h.writes() || flags&unix.O_TRUNC != 0 {
		if err := e.MayChange("open for writing", c.Agent); err != nil {
			return nil, err
		}
		access = unix.O_RDWR // what is overwritten is read first
	}
	var st Stat
	fd, err := e.openSeen(n, access|backingFlags(flags), &st)
	if err == unix.EACCES && access == unix.O_RDWR {
		access = int(flags & unix.O_ACCMODE)
		fd, err = e.openNode(n, access|backingFlags(flags))
	}
	if err == unix.ESTALE {
		path, e2 := e.openAny(n)
		if e2 != nil {
			return nil, err
		}
		fd, err = openAt(unix.AT_FDCWD, procPath(path), access|backingFlags(flags), 0)
		unix.Close(path)
	}
	if err != nil {
		return nil, err
	}
	h.fd = fd
	defer func() {
		if err != nil {
			unix.Close(fd)
		}
	}()
	n.mu.Lock()
	defer n.mu.Unlock()
	empties := access == unix.O_RDWR && flags&unix.O_TRUNC != 0 && n.hollow() // then nobody needs its bytes in its own inode
	if !empties {
		if err := e.fill(n); err != nil {
			return nil, err
		}
	}
	guarded := e.guarded(&c)
	if access != unix.O_RDONLY || guarded || n.from != nil || st.Mask == 0 { // it may have changed before it was locked
		if err := statAt(fd, "", &st); err != nil {
			return nil, err
		}
	}
	o := opening{
		cached: n.file.cached > 0,
		flags:  flags, passthrough: e.passthrough.Load(), passing: n.file.passing > 0, direct: n.file.direct > 0,
		size: int64(st.Size), guarded: guarded, fresh: flags&unix.O_TRUNC != 0,
	}
	if access == unix.O_RDONLY {
		o.known = o.passthrough && guarded && o.size > smallBytes && e.knowsAll(&c, n, &st)
		h.how = o.how()
		e.opened(h)
		e.learnOpen(&c, h, false)
		if o.known { // its reads are not seen, and count as of now: what they bring is known
			e.learnRead(&c, h, e.version(), 0, o.size)
		}
		return h, nil
	}
	if err := e.mayWrite(&c, n, flags); err != nil {
		return nil, err
	}
	o.privileged = privileged(fd, &st)
	o.beside = e.unseenByOther(n, c.Agent)
	h.privileged = o.privileged
	trunc := o.fresh
	if trunc {
		if err := e.judge(&c, guard.Question{Op: guard.TruncateOpen, Path: e.pathOfNode(n)}, n, &st); err != nil {
			return nil, err
		}
	}
	if o.kept, err = e.kept(e.activeRun(c.Agent), n); err != nil {
		return nil, err
	}
	if h.how = o.how(); h.how.keep || trunc || o.kept {
		ch, err := e.begin(c)
		if err != nil {
			return nil, err
		}
		if o.kept, err = e.kept(ch.run, n); err != nil {
			return nil, err
		}
		o.kept = o.kept || trunc
		if h.how = o.how(); h.how.keep || trunc {
			if empties {
				if ch.lower, err = e.lowerBytes(n.from); err != nil {
					return nil, err
				}
				defer ch.lower.Close()
				o.size = n.from.size
			}
			ch.seen = &st
			if err := ch.content(n, fd, 0, o.size); err != nil {
				return nil, err
			}
		}
		if err := ch.commitFor(h); err != nil {
			return nil, err
		}
	}
	if trunc {
		if len(e.unseenOn(n)) > 0 {
			defer e.accord(n)
		}
		if err := e.point("truncate"); err != nil {
			return nil, err
		}
		if err := retry(func() error { return unix.Ftruncate(fd, 0) }); err != nil {
			return nil, err
		}
	}
	if empties {
		if err := e.emptied(n); err != nil {
			return nil, err
		}
	}
	if killPrivs {
		if err := killPriv(fd); err != nil {
			return nil, err
		}
	}
	e.opened(h)
	if !trunc {
		h.watch.settled(&st)
	}
	e.learnOpen(&c, h, trunc)
	return h, nil
}

// Read reads from an open file.
func (e *Engine) Read(h *Handle, b []byte, off int64) (int, error) {
	pass, err := e.enterOn("", target{n: h.n})
	if err != nil {
		return 0, err
	}
	defer pass.leave()
	c := Caller{Agent: h.agent, Proc: h.proc}
	if !e.guarded(&c) {
		return h.pread(e, b, off)
	}
	start := e.version()
	n, err := h.pread(e, b, off)
	if n > 0 {
		e.learnRead(&c, h, start, off, off+int64(n))
	}
	return n, err
}

// Write writes to an open file, after what it overwrites was kept. With atEnd it appends, wherever the end is by now.
func (e *Engine) Write(c Caller, h *Handle, b []byte, off int64, atEnd, killPrivs bool) (int, error) {
	c.Agent = h.agent
	pass, err := e.enterOn(c.Agent, target{n: h.n})
	if err != nil {
		return 0, err
	}
	defer pass.leave()
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	if atEnd {
		var st Stat
		if err := statAt(h.fd, "", &st); err != nil {
			return 0, err
		}
		off = int64(st.Size)
	}
	if err := e.judgeOpen(&c, h, guard.Overwrite, off, off+int64(len(b))); err != nil {
		return 0, err
	}
	ch, err := e.begin(c)
	if err != nil {
		return 0, err
	}
	if err := ch.content(h.n, h.fd, off, off+int64(len(b))); err != nil {
		return 0, err
	}
	if err := ch.commitFor(h); err != nil {
		return 0, err
	}
	defer e.accord(h.n)
	if err := e.point("write"); err != nil {
		return 0, err
	}
	if killPrivs {
		if err := killPriv(h.fd); err != nil {
			return 0, err
		}
	}
	n, err := pwriteSome(h.fd, b, off)
	if n > 0 {
		e.learnWrite(&c, h.n, h.fd, off, off+int64(n))
	}
	return n, err
}

// judgeOpen is judge for the bytes [from, to) of an open file.
func (e *Engine) judgeOpen(c *Caller, h *Handle, op guard.Op, from, to int64) error {
	c.Proc = h.proc
	if !e.guarded(c) {
		return nil
	}
	var st Stat
	if err := statAt(h.fd, "", &st); err != nil {
		return err
	}
	return e.judge(c, guard.Question{Op: op, Path: e.pathOfNode(h.n), From: from, To: min(to, int64(st.Size))}, h.n, &st)
}

// Fallocate is fallocate(2), with all its modes.
func (e *Engine) Fallocate(c Caller, h *Handle, mode uint32, off, length int64) error {
	from, to := off, off+length
	switch {
	case mode&(unix.FALLOC_FL_COLLAPSE_RANGE|unix.FALLOC_FL_INSERT_RANGE) != 0:
		to = 1 << 62
	case mode&(unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_ZERO_RANGE) == 0:
		to = from // it destroys nothing
	}
	op := guard.Punch
	if to == from {
		op = guard.Append
	}
	return e.overwrite(c, h, op, from, to, nil, func() error {
		return retry(func() error { return unix.Fallocate(h.fd, mode, off, length) })
	})
}

// overwrite does something to the bytes [from, to) of an open file, after they were kept. source is what it reads besides, nil
// for nothing.
func (e *Engine) overwrite(c Caller, h *Handle, op guard.Op, from, to int64, source *node, f func() error) error {
	caller := c // of the rest, who opened the file counts
	c.Agent = h.agent
	pass, err := e.enterOn(c.Agent, target{n: h.n}, target{n: source})
	if err != nil {
		return err
	}
	defer pass.leave()
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	if err := e.judgeOpen(&c, h, op, from, to); err != nil {
		return err
	}
	ch, err := e.begin(c)
	if err != nil {
		return err
	}
	if err := ch.content(h.n, h.fd, from, to); err != nil {
		return err
	}
	if err := ch.commitFor(h); err != nil {
		return err
	}
	defer e.accord(h.n)
	if err := e.point("write"); err != nil {
		return err
	}
	if err := killPrivOf(caller, h.fd); err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	if to >= 1<<62 {
		to = -1
	}
	e.learnWrite(&c, h.n, h.fd, from, to)
	return nil
}

// maxCopy bounds what one call copies: a move that claims the file waits for it.
const maxCopy = 64 << 20

// CopyRange is copy_file_range(2) between two open files. It may copy less than it was asked for.
func (e *Engine) CopyRange(c Caller, from *Handle, off int64, to *Handle, at int64, length int) (n int, err error) {
	if from.fd < 0 {
		return 0, unix.EXDEV // the kernel reads and writes instead
	}
	var st Stat
	if err := statAt(from.fd, "", &st); err != nil {
		return 0, err
	}
	// Beyond the source's end there is nothing to copy, and so nothing that is lost of the other file.
	length = int(min(int64(length), maxCopy, int64(st.Size)-off))
	if length <= 0 {
		return 0, nil
	}
	err = e.overwrite(c, to, guard.Overwrite, at, at+int64(length), from.n, func() error {
		for {
			in, out := off, at
			n, err = unix.CopyFileRange(from.fd, &in, to.fd, &out, length, 0)
			if err != unix.EINTR {
				return err
			}
		}
	})
	return n, err
}

// Seek is lseek(2) for SEEK_DATA and SEEK_HOLE.
func (e *Engine) Seek(h *Handle, off int64, whence int) (int64, error) {
	pass, err := e.enterOn("", target{n: h.n})
	if err != nil {
		return 0, err
	}
	defer pass.leave()
	if h.fd < 0 {
		return h.seekLow(off, whence)
	}
	return unix.Seek(h.fd, off, whence)
}

// Sync makes a file durable, and before it the records of what it was, whoever wrote it by whatever handle. Durability:
// power loss.
func (e *Engine) Sync(h *Handle, dataOnly bool) error {
	pass, err := e.enterOp()
	if err != nil {
		return err
	}
	pass.leave() // the disk is waited for outside: the kernel holds the handle until it has the answer
	if h.fd < 0 {
		return nil // there is nothing of it that a power cut could take
	}
	if err := e.j.Sync(); err != nil {
		return storeError("sync", err)
	}
	if dataOnly {
		return retry(func() error { return unix.Fdatasync(h.fd) })
	}
	return retry(func() error { return unix.Fsync(h.fd) })
}
