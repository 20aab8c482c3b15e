package overlay

import (
	"errors"

	"github.com/ttfs/ttfs/journal"
	"golang.org/x/sys/unix"
)

// removeGarbage removes something from hold with all below it, and the records of what is gone with it.
func (e *Engine) removeGarbage(name string) error {
	if e.ending.Load() {
		return fail("sweep", "", Closed, nil)
	}
	if err := e.point("remove garbage"); err != nil {
		return storeError("sweep", err)
	}
	var b journal.Batch
	if err := e.removeTree(e.hold, name, &b); err != nil {
		return storeError("sweep", err)
	}
	return storeError("sweep", e.j.CommitFreeing(&b))
}

// removeTree never leaves the directory that it is in: names are single components, links are not followed, and what is
// mounted there is not entered.
func (e *Engine) removeTree(dir int, name string, b *journal.Batch) error {
	var st Stat
	err := statAt(dir, name, &st)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	if !e.sameDevice(&st) {
		return fail("sweep", name, Conflict, errors.New("something is mounted there: unmount it and prune again"))
	}
	flags := 0
	if kindOf(&st) == unix.S_IFDIR {
		flags = unix.AT_REMOVEDIR
		if err := e.emptyTree(dir, name, b); err != nil {
			return err
		}
	}
	if err := unlinkAt(dir, name, flags); err != nil && err != unix.ENOENT {
		return err
	}
	if flags == 0 && st.Nlink > 1 {
		return nil // it lives on elsewhere
	}
	id, err := e.findOID(keyOf(&st))
	if err != nil || id == 0 {
		return err
	}
	b.Delete(key(kObject, uint64(id)))
	b.Delete(inodeKey(keyOf(&st)))
	return nil
}

func (e *Engine) emptyTree(dir int, name string, b *journal.Batch) error {
	fd, err := openAt(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err == unix.EACCES && unix.Fchmodat(dir, name, 0o700, 0) == nil { // without root the mode can forbid it
		fd, err = openAt(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	names, err := namesIn(fd)
	if err != nil {
		return err
	}
	for _, sub := range names {
		err := e.removeTree(fd, sub, b)
		if err == unix.EACCES && unix.Fchmod(fd, 0o700) == nil {
			err = e.removeTree(fd, sub, b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// namesIn is what is in an open directory.
func namesIn(fd int) (names []string, err error) {
	err = eachDirent(fd, listBytes, func(ent Dirent) bool {
		names = append(names, ent.Name)
		return true
	})
	return names, err
}
