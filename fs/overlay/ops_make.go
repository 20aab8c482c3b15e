package overlay

import (
	"github.com/ttfs/ttfs/guard"
	"golang.org/x/sys/unix"
)

// maker is the common way of everything that makes a name: the name is looked at, its absence recorded, then made.
type maker struct {
	e    *Engine
	c    Caller
	d    *node
	f    *dirFD
	name string
	ch   *change
	made int // a descriptor of what was made; -1: there is none
}

// make does the making: f makes the name in an open directory; linked is the node that it is one more name of, nil for
// a new one. Errors: EEXIST, ENOENT in a directory that was removed.
func (e *Engine) make(c Caller, dir NodeID, name string, linked *node, f func(m *maker) error) (out Entry, n *node, err error) {
	d, err := e.pin(dir)
	if err != nil {
		return out, nil, err
	}
	defer e.unpin(d)
	pass, err := e.enterOn(c.Agent, target{d, name}, target{n: linked})
	if err != nil {
		return out, nil, err
	}
	defer pass.leave()
	return e.makeIn(c, d, name, linked, f)
}

// makeIn is make. Preconditions: gate is held.
func (e *Engine) makeIn(c Caller, d *node, name string, linked *node, f func(m *maker) error) (out Entry, n *node, err error) {
	if reserved(d, name) {
		return out, nil, unix.EPERM
	}
	fd, err := e.useDir(d)
	if err != nil {
		return out, nil, err
	}
	defer e.putDir(fd)
	d.dir.mu.Lock()
	defer d.dir.mu.Unlock()
	if d.dir.dead {
		return out, nil, unix.ENOENT
	}
	unlooked := linked == nil && e.recordsNothing(e.activeRun(c.Agent), d)
	if !unlooked {
		if err := e.vacant(fd.fd, d, name); err != nil {
			return out, nil, err
		}
	}
	m := &maker{e: e, c: c, d: d, f: fd, name: name, made: -1}
	if m.ch, err = e.begin(c); err != nil {
		return out, nil, err
	}
	if unlooked && !e.recordsNothing(m.ch.run, d) { // another task has begun by itself
		if err := e.vacant(fd.fd, d, name); err != nil {
			return out, nil, err
		}
	}
	if err := m.ch.entry(d, name, nil, linked); err != nil {
		return out, nil, err
	}
	if err := m.ch.commit(); err != nil {
		return out, nil, err
	}
	if err := e.point("make"); err != nil {
		return out, nil, err
	}
	if err := m.apply(f, linked != nil); err != nil {
		return out, nil, err
	}
	names := e.places.at(d)
	names.RLock()
	if m.made >= 0 {
		err = statAt(m.made, "", &out.Stat)
	} else {
		err = statAt(fd.fd, name, &out.Stat)
	}
	if err == nil {
		n = e.intern(d, name, &out.Stat, linked == nil)
	}
	names.RUnlock()
	if err != nil {
		return out, nil, err
	}
	if linked == nil {
		n.born.Store(uint64(m.ch.run.id))
		n.epoch.Store(e.epochs.current())
	}
	e.looked(n)
	out.Node, out.Generation = n.id, n.generation()
	e.learnMade(&c, n, d, name, linked != nil)
	return out, n, nil
}

// apply makes the name. A link is made under steady by itself: what it is of may have to be raised first.
func (m *maker) apply(f func(m *maker) error, linked bool) error {
	if !linked {
		defer m.d.steady()()
	}
	return f(m)
}

// vacant says that there is nothing at a name. Errors: EEXIST. Preconditions: dir.dir.mu is held.
func (e *Engine) vacant(dir int, d *node, name string) error {
	var st Stat
	if err := statAt(dir, name, &st); err != unix.ENOENT {
		if err == nil {
			err = unix.EEXIST
		}
		return err
	}
	return e.free(d, name)
}

// recordsNothing says whether what is made in a directory by a run leaves no record: run and forks, as far as there are
// any, are older than the directory. Then nobody need look before whether there is something at the name: making it says
// so, and nothing is recorded in vain. r may be nil.
func (e *Engine) recordsNothing(r *run, d *node) bool {
	if r == nil || d.from != nil || !d.bornIn(r.id) {
		return false
	}
	newest := e.epochs.newest.Load()
	return newest == nil || d.epoch.Load() == uint64(newest.id)
}

// learnMade tells the guard of a new name. Of a new file, Create tells the rest.
func (e *Engine) learnMade(c *Caller, n, d *node, name string, linked bool) {
	if !e.follows(c) || n.dir != nil {
		return
	}
	p := e.pathAt(d, name)
	e.learn(c, func(s *guard.State, a guard.Actor) {
		if linked {
			s.Linked(a, fileOf(n.ident()), p)
		} else {
			s.Created(a, fileOf(n.ident()), p)
		}
	})
}

func (m *maker) mode(mode uint32) uint32 { return makeMode(m.f.fd, mode, m.c.Umask) }

// Mknod makes a file, fifo, socket or device.
func (e *Engine) Mknod(c Caller, dir NodeID, name string, mode, rdev uint32) (Entry, error) {
	out, n, err := e.make(c, dir, name, nil, func(m *maker) error {
		return asCaller(c, func() error { return unix.Mknodat(m.f.fd, name, m.mode(mode), int(rdev)) })
	})
	return e.made(out, n, err)
}

// Mkdir makes a directory.
func (e *Engine) Mkdir(c Caller, dir NodeID, name string, mode uint32) (Entry, error) {
	out, n, err := e.make(c, dir, name, nil, func(m *maker) error {
		return asCaller(c, func() error { return unix.Mkdirat(m.f.fd, name, m.mode(mode&0o7777)) })
	})
	return e.made(out, n, err)
}

// Symlink makes a symbolic link.
func (e *Engine) Symlink(c Caller, dir NodeID, name, target string) (Entry, error) {
	out, n, err := e.make(c, dir, name, nil, func(m *maker) error {
		return asCaller(c, func() error { return unix.Symlinkat(target, m.f.fd, name) })
	})
	return e.made(out, n, err)
}

// made lets go of what was just made.
func (e *Engine) made(out Entry, n *node, err error) (Entry, error) {
	if err != nil {
		return Entry{}, err
	}
	e.unpin(n)
	return out, nil
}

// Create makes a regular file and opens it. The gate is held until the handle counts as a writer: a task that begins in
// between would not know what is written through it.
func (e *Engine) Create(c Caller, dir NodeID, name string, flags, mode uint32) (Entry, *Handle, error) {
	d, err := e.pin(dir)
	if err != nil {
		return Entry{}, nil, err
	}
	defer e.unpin(d)
	pass, err := e.enterOn(c.Agent, target{d, name})
	if err != nil {
		return Entry{}, nil, err
	}
	defer pass.leave()
	fd := -1
	out, n, err := e.makeIn(c, d, name, nil, func(m *maker) (err error) {
		if flags&unix.O_DSYNC != 0 { // see commitFor
			if err := e.j.Sync(); err != nil {
				return storeError("sync", err)
			}
		}
		return asCaller(c, func() (err error) {
			fd, err = openAt(m.f.fd, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|backingFlags(flags), m.mode(mode&0o7777))
			m.made = fd
			return err
		})
	})
	if err != nil {
		if fd >= 0 {
			unix.Close(fd)
		}
		return Entry{}, nil, err
	}
	return out, e.newHandle(n, fd, flags, c), nil
}

// Tmpfile makes a file without a name and opens it. What was never there before needs no image; linked into the tree it
// is recorded as an entry.
func (e *Engine) Tmpfile(c Caller, dir NodeID, flags, mode uint32) (Entry, *Handle, error) {
	d, err := e.pin(dir)
	if err != nil {
		return Entry{}, nil, err
	}
	defer e.unpin(d)
	pass, err := e.enterOn(c.Agent, target{n: d})
	if err != nil {
		return Entry{}, nil, err
	}
	defer pass.leave()
	f, err := e.useDir(d)
	if err != nil {
		return Entry{}, nil, err
	}
	defer e.putDir(f)
	r, err := e.enter(c)
	if err != nil {
		return Entry{}, nil, err
	}
	fd := -1
	err = asCaller(c, func() (err error) {
		keep := flags & unix.O_EXCL
		fd, err = openAt(f.fd, ".", int(keep)|unix.O_RDWR|unix.O_TMPFILE, makeMode(f.fd, mode&0o7777, c.Umask))
		return err
	})
	if err != nil {
		return Entry{}, nil, err
	}
	var out Entry
	if err := statAt(fd, "", &out.Stat); err != nil {
		unix.Close(fd)
		return Entry{}, nil, err
	}
	n := e.intern(nil, "", &out.Stat, true)
	e.looked(n)
	out.Node, out.Generation = n.id, n.generation()
	n.born.Store(uint64(r.id))
	n.epoch.Store(e.epochs.current())
	e.entrust(n, fd)
	return out, e.newHandle(n, fd, flags, c), nil
}

// Link gives an inode one more name.
func (e *Engine) Link(c Caller, id, dir NodeID, name string) (Entry, error) {
	n, err := e.pin(id)
	if err != nil {
		return Entry{}, err
	}
	defer e.unpin(n)
	if n.dir != nil {
		return Entry{}, unix.EPERM
	}
	out, same, err := e.make(c, dir, name, n, func(m *maker) error {
		fd, err := e.openAny(n)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		defer m.d.steady()()
		return linkFD(fd, m.f.fd, name)
	})
	if err != nil {
		return Entry{}, err
	}
	defer e.unpin(same)
	if err := e.see(n, &out.Stat); err != nil {
		e.Forget(out.Node, 1)
		return Entry{}, err
	}
	return out, nil
}

// linkFD links an open inode to a name: by its descriptor where the daemon may, else by what /proc says it is.
func linkFD(fd, dir int, name string) error {
	err := unix.Linkat(fd, "", dir, name, unix.AT_EMPTY_PATH)
	if err == unix.ENOENT || err == unix.EPERM {
		if e2 := unix.Linkat(unix.AT_FDCWD, procPath(fd), dir, name, unix.AT_SYMLINK_FOLLOW); e2 == nil {
			return nil
		} else if err == unix.ENOENT {
			return e2
		}
	}
	return err
}
