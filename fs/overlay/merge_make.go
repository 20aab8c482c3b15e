package overlay

import (
	"os"
	"slices"

	"github.com/ttfs/ttfs/journal"
	"golang.org/x/sys/unix"
)

// make copies something new of the fork into the parent's hold, with all that is below it. What the parent has already,
// and the fork has moved below it, comes to its name there by an entry of its own. Preconditions: the fork stands still.
func (m *merge) make(v *view, r *ref, fork OID) (OID, error) {
	if id := m.made[fork]; id != 0 {
		return id, nil
	}
	id, err := m.p.newOID()
	if err != nil {
		return 0, err
	}
	m.held = append(m.held, id)
	return id, m.makeIn(v, r, fork, id, m.p.hold, holdName(id), spot{})
}

// makeIn makes one object at a name; at says where that is, if it is not in hold itself.
func (m *merge) makeIn(v *view, r *ref, fork, id OID, dir int, name string, at spot) error {
	if err := m.p.point("merge"); err != nil {
		return err
	}
	st, err := v.stat(r)
	if err != nil {
		return err
	}
	mt, err := v.meta(r)
	if err != nil {
		return err
	}
	switch r.kind {
	case unix.S_IFDIR:
		err = unix.Mkdirat(dir, name, 0o700)
	case unix.S_IFREG:
		err = m.copyFile(v, r, dir, name)
	case unix.S_IFLNK:
		var target []byte
		if target, err = v.readlink(r); err == nil {
			err = unix.Symlinkat(string(target), dir, name)
		}
	default:
		err = unix.Mknodat(dir, name, mt.mode, int(unix.Mkdev(st.Rdev_major, st.Rdev_minor)))
	}
	if err != nil {
		return err
	}
	fd, err := openAt(dir, name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var own Stat
	if err := statAt(fd, "", &own); err != nil {
		return err
	}
	m.made[fork] = id
	var b journal.Batch
	putObject(&b, &object{id: id, kind: r.kind, key: keyOf(&own), at: at})
	if err := m.p.j.Commit(&b); err != nil {
		return err
	}
	if r.kind == unix.S_IFDIR {
		if err := m.makeBelow(v, r, fork, id, fd); err != nil {
			return err
		}
	}
	if err := applyMeta(fd, &mt); err != nil {
		return err
	}
	_, err = m.remember(v, r, mt, nil, fork, id)
	return err
}

// makeBelow makes what is in a new directory.
func (m *merge) makeBelow(v *view, r *ref, fork, id OID, fd int) error {
	names, err := v.list(r)
	if err != nil {
		return err
	}
	for _, name := range names {
		sub, err := v.lookup(r, name)
		if err != nil {
			return err
		}
		subFork, err := v.number(sub)
		if err != nil {
			return err
		}
		there, err := m.inParent(subFork)
		if err != nil {
			return err
		}
		n := mergeName{at: spot{fork, name}, path: name, dir: id, to: there, fork: subFork, new: m.made[subFork] != 0}
		if up, inTree := m.f.pathOf(fork, 0); inTree {
			n.path = joinPath(up, name)
		}
		if there != 0 {
			m.names = append(m.names, n)
		} else {
			if n.to, err = m.p.newOID(); err != nil {
				return err
			}
			if err := m.makeIn(v, sub, subFork, n.to, fd, name, spot{id, name}); err != nil {
				return err
			}
		}
		m.b.Put(append(key(kMergedAt, uint64(fork)), name...), append(encodeNumber(uint64(subFork)), encodeNumber(uint64(n.to))...))
	}
	return nil
}

func (m *merge) copyFile(v *view, r *ref, dir int, name string) error {
	rd, size, done, err := v.reader(r)
	if err != nil {
		return err
	}
	defer done()
	to, err := openAt(dir, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(to)
	if err := unix.Ftruncate(to, size); err != nil {
		return err
	}
	if from, err := v.openLive(r, unix.O_RDONLY); err == nil {
		defer unix.Close(from)
		if unix.IoctlFileClone(to, from) == nil {
			return nil
		}
		return extents(from, 0, size, func(s span, hole bool) error {
			if hole {
				return nil
			}
			return copyBytes(from, s.from, to, s.from, s.to-s.from)
		})
	}
	var buf []byte
	return copyFrom(rd, 0, to, 0, size, &buf)
}

// forget takes back what was made for a merge that is not. A death leaves it in hold, for the next sweep.
func (m *merge) forget() {
	for _, id := range slices.Backward(m.held) {
		if err := os.RemoveAll(procPath(m.p.hold) + "/" + holdName(id)); err != nil {
			m.p.log.Warn("what was made for a merge that is not could not be removed", "object", id, "err", err)
		}
	}
	m.held = nil
}
