package overlay

import (
	"bytes"
	"errors"
	"maps"
	"slices"

	"golang.org/x/sys/unix"
)

// meta is what an inode is beside its content and its names.
type meta struct {
	mode         uint32 // permission bits and type
	uid, gid     uint32
	atime, mtime int64 // ns
	rdev         uint64
	xattrs       map[string][]byte
	// at is when the image was made or last swapped, of a directory's only: a number of the sequence of shares. A directory's
	// metadata has no share, since it changes with every entry. 0: not known.
	at uint64
}

func (m *meta) encode() []byte {
	e := encoder(64) // enough without attributes
	e.u(uint64(m.mode))
	e.u(uint64(m.uid))
	e.u(uint64(m.gid))
	e.i(m.atime)
	e.i(m.mtime)
	e.u(m.rdev)
	e.u(uint64(len(m.xattrs)))
	if len(m.xattrs) > 0 {
		for _, name := range slices.Sorted(maps.Keys(m.xattrs)) {
			e.s(name)
			e.raw(m.xattrs[name])
		}
	}
	if m.at != 0 {
		e.u(m.at)
	}
	return e.b
}

func decodeMeta(b []byte) (meta, error) {
	d := dec{b: b}
	m := meta{mode: uint32(d.u()), uid: uint32(d.u()), gid: uint32(d.u()), atime: d.i(), mtime: d.i(), rdev: d.u()}
	for n := d.u(); n > 0 && d.err == nil; n-- {
		if m.xattrs == nil {
			m.xattrs = map[string][]byte{}
		}
		name := d.s()
		m.xattrs[name] = slices.Clone(d.raw())
	}
	if len(d.b) > 0 && d.err == nil {
		m.at = d.u()
	}
	return m, d.err
}

func (m *meta) equal(o *meta) bool {
	return m.mode == o.mode && m.uid == o.uid && m.gid == o.gid && m.mtime == o.mtime && m.rdev == o.rdev &&
		maps.EqualFunc(m.xattrs, o.xattrs, bytes.Equal)
}

func nanos(t unix.StatxTimestamp) int64 { return t.Sec*1e9 + int64(t.Nsec) }

func metaOf(st *Stat) meta {
	return meta{
		mode: uint32(st.Mode), uid: st.Uid, gid: st.Gid, atime: nanos(st.Atime), mtime: nanos(st.Mtime),
		rdev: unix.Mkdev(st.Rdev_major, st.Rdev_minor),
	}
}

// readMeta is the metadata of an open inode; fd may be opened with O_PATH.
func readMeta(fd int, st *Stat) (meta, error) {
	m := metaOf(st)
	if kindOf(st) == unix.S_IFLNK {
		return m, nil // no attributes that a user could set
	}
	names, err := listXattrs(fd)
	if err != nil {
		return m, err
	}
	for _, name := range names {
		v, err := getXattr(fd, name)
		if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOTSUP) {
			continue
		}
		if err != nil {
			return m, err
		}
		if m.xattrs == nil {
			m.xattrs = map[string][]byte{}
		}
		m.xattrs[name] = v
	}
	return m, nil
}

// listXattrs lists the attributes of what a /proc/self/fd path names.
func listXattrs(fd int) ([]string, error) {
	var small [1024]byte
	b := small[:]
	for {
		n, err := rawXattrs(fd, b)
		switch {
		case err == unix.ENOTSUP:
			return nil, nil
		case err == unix.ERANGE:
			if n, err = rawXattrs(fd, nil); err != nil {
				return nil, err
			}
			b = make([]byte, n+256)
			continue
		case err != nil:
			return nil, err
		}
		var names []string
		for _, name := range bytes.Split(b[:n], []byte{0}) {
			if len(name) > 0 {
				names = append(names, string(name))
			}
		}
		return names, nil
	}
}

func getXattr(fd int, name string) ([]byte, error) {
	b := make([]byte, xattrRoom)
	for {
		n, err := rawXattr(fd, name, b)
		if err == unix.ERANGE {
			if n, err = rawXattr(fd, name, nil); err == nil {
				b = make([]byte, n+64)
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		return b[:n], nil
	}
}

// applyMeta makes an inode's metadata m. The order matters: a change of owner takes setuid bits and capabilities away,
// setting an ACL changes the mode, everything changes ctime and nothing but the last step mtime.
func applyMeta(fd int, m *meta) error {
	var st Stat
	if err := statAt(fd, "", &st); err != nil {
		return err
	}
	path := procPath(fd)
	if st.Uid != m.uid || st.Gid != m.gid {
		if err := unix.Fchownat(fd, "", int(m.uid), int(m.gid), unix.AT_EMPTY_PATH); err != nil {
			return err
		}
		if err := statAt(fd, "", &st); err != nil {
			return err
		}
	}
	if kindOf(&st) != unix.S_IFLNK {
		have, err := readMeta(fd, &st)
		if err != nil {
			return err
		}
		differ := false
		for name := range have.xattrs {
			if _, keep := m.xattrs[name]; !keep {
				differ = true
				if err := unix.Removexattr(path, name); err != nil && err != unix.ENODATA {
					return err
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(m.xattrs)) {
			if v, has := have.xattrs[name]; !has || !bytes.Equal(v, m.xattrs[name]) {
				differ = true
				if err := unix.Setxattr(path, name, m.xattrs[name], 0); err != nil {
					return err
				}
			}
		}
		if differ { // an ACL changes the mode
			if err := statAt(fd, "", &st); err != nil {
				return err
			}
		}
		if uint32(st.Mode)&0o7777 != m.mode&0o7777 {
			if err := unix.Chmod(path, m.mode&0o7777); err != nil {
				return err
			}
		}
	}
	return m.setTimes(fd)
}

func (m *meta) setTimes(fd int) error {
	ts := []unix.Timespec{unix.NsecToTimespec(m.atime), unix.NsecToTimespec(m.mtime)}
	return unix.UtimesNanoAt(fd, "", ts, unix.AT_EMPTY_PATH)
}

// onlyTimes says whether an inode that was is becomes m by its times alone, also when it has been written to meanwhile: a
// write takes setuid bits and capabilities away.
func (m *meta) onlyTimes(is *meta) bool {
	_, caps := is.xattrs["security.capability"]
	return m.mode == is.mode && m.uid == is.uid && m.gid == is.gid && m.mode&(unix.S_ISUID|unix.S_ISGID) == 0 && !caps &&
		maps.EqualFunc(m.xattrs, is.xattrs, bytes.Equal)
}
