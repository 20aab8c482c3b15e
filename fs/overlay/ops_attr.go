package overlay

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ttfs/ttfs/guard"
	"golang.org/x/sys/unix"
)

// SetAttr says which attributes to set; nil: not that one.
type SetAttr struct {
	Mode, UID, GID *uint32
	Size           *int64
	Atime, Mtime   *time.Time // the zero time: now
	// KillPriv takes setuid and setgid bits and capabilities away (FUSE_HANDLE_KILLPRIV_V2).
	KillPriv bool
}

// SetAttributes changes the metadata or the size of an inode. Errors: ESTALE, what the filesystem says.
func (e *Engine) SetAttributes(c Caller, id NodeID, h *Handle, s SetAttr) (Stat, error) {
	var st Stat
	n, err := e.pin(id)
	if err != nil {
		return st, err
	}
	defer e.unpin(n)
	if h != nil {
		c.Agent, c.Proc = h.agent, h.proc
	}
	pass, err := e.enterOn(c.Agent, target{n: n})
	if err != nil {
		return st, err
	}
	defer pass.leave()
	if err := e.setAttributes(c, n, h, s, &st); err != nil {
		return st, err
	}
	return st, e.see(n, &st)
}

func (e *Engine) setAttributes(c Caller, n *node, h *Handle, s SetAttr, st *Stat) error {
	at, err := e.lockAttrs(n, h)
	if err != nil {
		return err
	}
	defer at.done()
	data, size := -1, int64(0)
	if s.Size != nil {
		var done func()
		if data, done, err = at.writable(); err != nil {
			return err
		}
		defer done()
		if err := e.fill(n); err != nil {
			return err
		}
		if err := statAt(data, "", st); err != nil {
			return err
		}
		size = int64(st.Size)
		if err := e.judge(&c, guard.Question{Op: guard.Truncate, Path: e.pathOfNode(n), From: *s.Size, To: size}, n, st); err != nil {
			return err
		}
	}
	ch, err := e.begin(c)
	if err != nil {
		return err
	}
	if s.Size != nil {
		if err := ch.content(n, data, *s.Size, size); err != nil {
			return err
		}
	}
	if err := ch.ownMeta(n, at.fd); err != nil {
		return err
	}
	if err := ch.commit(); err != nil {
		return err
	}
	if err := e.point("set attributes"); err != nil {
		return err
	}
	if err := func() error { defer n.steady()(); return s.apply(at.fd, data) }(); err != nil {
		return err
	}
	if err := statAt(at.fd, "", st); err != nil {
		return err
	}
	if n.dir == nil {
		e.accordAs(n, st)
	}
	switch {
	case s.Size != nil:
		e.learnWrite(&c, n, data, min(*s.Size, size), *s.Size)
	case s.Mtime != nil && e.Follows() && n.dir == nil:
		e.guard.mu.Lock()
		e.stampLocked(n.ident(), st)
		e.guard.mu.Unlock()
	}
	return nil
}

// ownMeta keeps the metadata of an open node that is itself to get other attributes. Preconditions: n.lock is held.
func (ch *change) ownMeta(n *node, fd int) error {
	if ch.made(n) && (ch.epoch == nil || ch.epoch.made(n)) {
		return nil
	}
	self, err := ch.self(n)
	if err != nil {
		return ch.unkept(err)
	}
	if self == 0 {
		return nil
	}
	if n.dir == nil {
		if err := ch.unseen(n, 0, 0); err != nil {
			return ch.unkept(err)
		}
	}
	err = ch.both(func(t *firsts) error {
		if t.made(n) {
			return nil
		}
		if t == &ch.firsts {
			if err := ch.touch(thing{obj: self}); err != nil {
				return err
			}
		}
		if t.hasMeta(self) {
			return nil
		}
		return ch.metaFD(t, fd, self)
	})
	if err != nil {
		return ch.unkept(err)
	}
	return nil
}

func (s *SetAttr) apply(path, data int) error {
	if s.Size != nil {
		if err := retry(func() error { return unix.Ftruncate(data, *s.Size) }); err != nil {
			return err
		}
	}
	if s.KillPriv && s.UID == nil && s.GID == nil {
		// A change of the owner takes them away by itself. Source: chown_common in fs/open.c.
		if err := killPriv(path); err != nil {
			return err
		}
	}
	if s.UID != nil || s.GID != nil {
		uid, gid := -1, -1
		if s.UID != nil {
			uid = int(*s.UID)
		}
		if s.GID != nil {
			gid = int(*s.GID)
		}
		if err := unix.Fchownat(path, "", uid, gid, unix.AT_EMPTY_PATH); err != nil {
			return err
		}
	}
	if s.Mode != nil {
		if err := chmodFD(path, *s.Mode&0o7777); err != nil {
			return err
		}
	}
	if s.Atime != nil || s.Mtime != nil {
		ts := []unix.Timespec{timespec(s.Atime), timespec(s.Mtime)}
		return unix.UtimesNanoAt(path, "", ts, unix.AT_EMPTY_PATH)
	}
	return nil
}

func timespec(t *time.Time) unix.Timespec {
	switch {
	case t == nil:
		return unix.Timespec{Nsec: unix.UTIME_OMIT}
	case t.IsZero():
		return unix.Timespec{Nsec: unix.UTIME_NOW}
	}
	return unix.Timespec{Sec: t.Unix(), Nsec: int64(t.Nanosecond())}
}

// GetXattr reads an extended attribute. Errors: ENODATA, ENOTSUP.
func (e *Engine) GetXattr(id NodeID, name string) ([]byte, error) {
	var v []byte
	if m, low, err := e.lowMeta(id); low {
		v, has := m.xattrs[name]
		if err == nil && !has {
			err = unix.ENODATA
		}
		return v, err
	}
	err := e.withAttrs(id, func(n *node) (done bool, err error) {
		v, done, err = e.xattrByName(n, name)
		return done, err
	}, func(fd int) (err error) {
		v, err = getXattr(fd, name)
		return err
	})
	return v, err
}

// ListXattr is the names of the extended attributes, each ended by a zero byte.
func (e *Engine) ListXattr(id NodeID) ([]byte, error) {
	var out []byte
	if m, low, err := e.lowMeta(id); low {
		for _, name := range slices.Sorted(maps.Keys(m.xattrs)) {
			out = append(append(out, name...), 0)
		}
		return out, err
	}
	err := e.withAttrs(id, nil, func(fd int) error {
		names, err := listXattrs(fd)
		if len(names) > 0 {
			out = []byte(strings.Join(names, "\x00") + "\x00")
		}
		return err
	})
	return out, err
}

// SetXattr sets an extended attribute; flags are those of setxattr(2). killGID takes the setgid bit away, as setting an
// ACL by a caller outside the file's group does.
func (e *Engine) SetXattr(c Caller, id NodeID, name string, value []byte, flags int, killGID bool) error {
	return e.changeXattr(c, id, func(fd int) error {
		if err := setXattr(fd, name, value, flags); err != nil || !killGID {
			return err
		}
		var st Stat
		if err := statAt(fd, "", &st); err != nil {
			return err
		}
		if st.Mode&unix.S_ISGID == 0 {
			return nil
		}
		return chmodFD(fd, uint32(st.Mode)&0o7777&^unix.S_ISGID)
	})
}

// RemoveXattr removes an extended attribute.
func (e *Engine) RemoveXattr(c Caller, id NodeID, name string) error {
	return e.changeXattr(c, id, func(fd int) error { return removeXattr(fd, name) })
}

func (e *Engine) changeXattr(c Caller, id NodeID, f func(fd int) error) error {
	n, err := e.pin(id)
	if err != nil {
		return err
	}
	defer e.unpin(n)
	pass, err := e.enterOn(c.Agent, target{n: n})
	if err != nil {
		return err
	}
	defer pass.leave()
	at, err := e.lockAttrs(n, nil)
	if err != nil {
		return err
	}
	defer at.done()
	ch, err := e.begin(c)
	if err != nil {
		return err
	}
	if err := ch.ownMeta(n, at.fd); err != nil {
		return err
	}
	if err := ch.commit(); err != nil {
		return err
	}
	if err := e.point("set attributes"); err != nil {
		return err
	}
	return f(at.fd)
}
