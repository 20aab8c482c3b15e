package overlay

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// lookBatch is how many files are opened before they are looked into.
const lookBatch = 256

// looking is a file of a step that is open, and into which is to be looked.
type looking struct {
	id   OID
	fd   int
	st   Stat
	was  *content
	meta meta
	err  error
}

// prepareContents keeps the bytes, and the attributes, of all files that the step will write to.
func (s *step) prepareContents() error {
	for _, id := range sortedOIDs(s.want.contents) {
		err := s.keep(id, unix.O_RDWR, func(fd int, st *Stat) error {
			l := &looking{id: id, fd: fd, st: *st}
			if _, stays := s.kept[id]; !stays {
				s.look(l)
				return s.looked(l)
			}
			if s.looks = append(s.looks, l); len(s.looks) < lookBatch {
				return nil
			}
			return s.lookInto()
		})
		if errors.Is(err, unix.ETXTBSY) {
			return fail("move", "", Conflict, fmt.Errorf("a program that the move would change is running: end it and try again: %w", err))
		}
		if err != nil && !s.isLost(id, err) {
			return storeError("prepare a move", err)
		}
	}
	return storeError("prepare a move", s.lookInto())
}

// lookInto looks into the files that are open for it.
func (s *step) lookInto() (first error) {
	all := s.looks
	s.looks = nil
	w := s.e.newWorkers(len(all))
	for _, l := range all {
		w.do(func() error {
			s.look(l)
			return nil
		})
	}
	_ = w.wait() // each has its own error
	for _, l := range all {
		if err := s.looked(l); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// look is what workers do: it changes nothing of the step.
func (s *step) look(l *looking) {
	if l.was, l.err = s.e.inverse(l.fd, int64(l.st.Size), s.want.contents[l.id]); l.err != nil {
		return
	}
	if _, has := s.want.metas[l.id]; has {
		l.meta, l.err = readMeta(l.fd, &l.st)
	}
}

// looked takes in what was found.
func (s *step) looked(l *looking) (err error) {
	if l.was != nil {
		s.have.contents[l.id] = l.was
	}
	if l.err != nil {
		return l.err
	}
	if _, has := s.want.metas[l.id]; has {
		l.meta.at, err = s.e.metaSeq(&l.st)
		s.have.metas[l.id] = l.meta
	}
	return err
}

// applyContents gives the files the bytes that want says.
func (s *step) applyContents(want, have *images, one func()) error {
	w := s.e.newWorkers(len(want.contents))
	defer w.drop()
	for _, id := range sortedOIDs(want.contents) {
		one()
		if err := s.e.point("restore"); err != nil {
			return err
		}
		c, size := want.contents[id], s.size(have, id)
		if k, has := s.kept[id]; has && k.writes {
			w.do(func() error { return s.e.restore(k.fd, c, size) })
			continue
		}
		if err := s.open(id, unix.O_RDWR, func(fd int) error { return s.e.restore(fd, c, size) }); err != nil {
			return err
		}
	}
	return w.wait()
}

// size is the size that a file has before the step changes it; -1 when that is not sure.
func (s *step) size(have *images, id OID) int64 {
	if c := have.contents[id]; c != nil && s.sure {
		return c.size
	}
	return -1
}
