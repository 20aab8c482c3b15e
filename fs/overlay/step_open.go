package overlay

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// A step looks at each object when it prepares, and changes it when it applies. What it has opened stays open from the one to
// the other: finding an object again costs more than all that is done to it. How many, is bounded; the others are opened
// twice.

// stepFDs is how many objects a step keeps open.
const stepFDs = 1024

// stepFD is an object that a step keeps open.
type stepFD struct {
	fd     int
	writes bool
}

// nearDir is the directory in which an object was opened last: the next one is in the same, as a rule. What the caller's done
// lets go stays the step's.
type nearDir struct {
	id   OID
	fd   int
	done func()
}

// open calls f with an object, open, wherever it is.
func (s *step) open(id OID, flags int, f func(fd int) error) error {
	if k, has := s.kept[id]; has && (k.writes || flags&unix.O_PATH != 0) {
		return f(k.fd)
	}
	var st Stat
	fd, err := s.openNow(id, flags, &st)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return f(fd)
}

// keep calls f with an object, open, that stays open as long as there are not too many, and with what it is. Preconditions:
// the step ends with letGo; the object is not kept yet.
func (s *step) keep(id OID, flags int, f func(fd int, st *Stat) error) error {
	var st Stat
	fd, err := s.openNow(id, flags, &st)
	if errors.Is(err, unix.EMFILE) && len(s.kept) > 0 {
		if err := s.lookInto(); err != nil {
			return err
		}
		s.letGo()
		fd, err = s.openNow(id, flags, &st)
	}
	if err != nil {
		return err
	}
	if len(s.kept) >= stepFDs {
		defer unix.Close(fd)
		return f(fd, &st)
	}
	if s.kept == nil {
		s.kept = map[OID]stepFD{}
	}
	s.kept[id] = stepFD{fd, flags&unix.O_ACCMODE == unix.O_RDWR && flags&unix.O_PATH == 0}
	return f(fd, &st)
}

// letGo closes what is kept open.
func (s *step) letGo() {
	for _, k := range s.kept {
		unix.Close(k.fd)
	}
	clear(s.kept)
	if s.near.done != nil {
		s.near.done()
		s.near = nearDir{}
	}
}

// openDir is Engine.openDir, which a step that keeps things open asks once for the files of one directory.
func (s *step) openDir(id OID) (fd int, done func(), err error) {
	if s.near.done != nil && s.near.id == id {
		return s.near.fd, func() {}, nil
	}
	fd, done, err = s.e.openDir(id, 0)
	if err != nil || len(s.kept) == 0 {
		return fd, done, err
	}
	if s.near.done != nil {
		s.near.done()
	}
	s.near = nearDir{id, fd, done}
	return fd, func() {}, nil
}

// statObject looks at an object, wherever it is.
func (e *Engine) statObject(o *object, st *Stat) error {
	if o.at.dir != 0 {
		if dir, done, err := e.openDir(o.at.dir, 0); err == nil {
			err = statAt(dir, o.at.name, st)
			done()
			if err == nil && keyOf(st) == o.key {
				return nil
			}
		}
	}
	dir, name, done, err := e.locate(o.id)
	if err != nil {
		return err
	}
	defer done()
	return statAt(dir, name, st)
}

// openNow opens an object. Most are where their record tells: so that is tried before it is looked for.
func (s *step) openNow(id OID, flags int, st *Stat) (int, error) {
	flags |= unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY
	if o, found, err := s.e.getObject(id); err == nil && found && o.at.dir != 0 && (o.kind == unix.S_IFREG || flags&unix.O_PATH != 0) {
		if dir, done, err := s.openDir(o.at.dir); err == nil {
			fd, err := openAt(dir, o.at.name, flags, 0)
			done()
			if err == nil && statAt(fd, "", st) == nil && keyOf(st) == o.key {
				return fd, nil
			}
			if err == nil {
				unix.Close(fd)
			}
		}
	}
	dir, name, done, err := s.e.locate(id)
	if err != nil {
		return -1, err
	}
	defer done()
	fd, err := openAt(dir, name, flags, 0)
	if err == unix.EACCES && flags&unix.O_ACCMODE == unix.O_RDWR {
		// Without root the mode can forbid it, but only the opening: it is put back at once.
		if statAt(dir, name, st) == nil && unix.Fchmodat(dir, name, 0o600, 0) == nil {
			fd, err = openAt(dir, name, flags, 0)
			if e2 := unix.Fchmodat(dir, name, uint32(st.Mode)&0o7777, 0); e2 != nil && err == nil {
				unix.Close(fd)
				err = e2
			}
		}
	}
	if err != nil {
		return -1, fmt.Errorf("open %q: %w", name, err)
	}
	if err := statAt(fd, "", st); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// inodeOf is the inode of a directory.
func (s *step) inodeOf(id OID) (inoKey, error) {
	if s.last.id != id {
		o, _, err := s.e.getObject(id)
		if err != nil {
			return inoKey{}, err
		}
		s.last.id, s.last.key = id, o.key
	}
	return s.last.key, nil
}
