package overlay

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestKeepOpen: a directory that is looked for again is not opened again while it is kept, wherever it was moved; one that is
// gone is; and nothing stays open.
func TestKeepOpen(t *testing.T) {
	s := newStand(t, 1)
	s.must(s.mkdirAll("d/e"))
	for i := range keptOpen + 10 {
		s.must(s.mkdirAll(fmt.Sprintf("many/%d", i)))
	}
	number := func(path string) OID {
		id, err := s.walk(path)
		s.must(err)
		n, err := s.e.pin(id)
		s.must(err)
		defer s.e.unpin(n)
		oid, err := s.e.dirOID(n)
		s.must(err)
		return oid
	}
	id := number("d/e")
	open := func(id OID) (inoKey, int, error) {
		fd, done, err := s.e.openDir(id, 0)
		if err != nil {
			return inoKey{}, -1, err
		}
		defer done()
		var st Stat
		s.must(statAt(fd, "", &st))
		return keyOf(&st), fd, nil
	}
	release := s.e.keepOpen()
	inner := s.e.keepOpen()
	key, fd, err := open(id)
	s.must(err)
	if _, again, _ := open(id); again != fd {
		t.Errorf("descriptor %d, then %d", fd, again)
	}
	s.must(s.rename("d", "D", 0))
	s.must(s.rename("D/e", "f", 0))
	if is, again, err := open(id); err != nil || again != fd || is != key {
		t.Errorf("renamed it is %v at %d: %v", is, again, err)
	}
	s.must(os.Remove(filepath.Join(s.dir, "f"))) // around the mount: nothing of it is in hold
	if _, _, err := open(id); err == nil {
		t.Error("a directory that is gone is open still")
	}
	for i := range keptOpen + 10 {
		_, _, err := open(number(fmt.Sprintf("many/%d", i)))
		s.must(err)
	}
	if n := s.e.dirs.order.Len(); n != keptOpen {
		t.Errorf("%d are kept, not %d", n, keptOpen)
	}
	inner()
	if n := s.e.dirs.order.Len(); n != keptOpen {
		t.Errorf("%d are kept while one is not done", n)
	}
	release()
	if n := s.e.dirs.order.Len(); n != 0 {
		t.Errorf("%d are kept in the end", n)
	}
	fd, done, err := s.e.openDir(number("D"), 0)
	s.must(err)
	done()
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != unix.EBADF {
		t.Errorf("it was kept when nobody asked: %v", err)
	}
}
