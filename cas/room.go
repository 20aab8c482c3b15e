package cas

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// statfsFree returns the bytes that an unprivileged process can still write
// to the filesystem of dir.
func statfsFree(dir string) (int64, error) {
	var st unix.Statfs_t
	for {
		err := unix.Statfs(dir, &st)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0, err
		}
		return int64(st.Bavail) * int64(st.Bsize), nil
	}
}

// room refuses with ErrNoSpace when writing need bytes would leave less than
// floor. Source: pebble calls Fatalf when its WAL meets ENOSPC, so a full
// disk must be seen before pebble meets it.
func (s *Store) room(op string, need int, floor int64) error {
	if s.floor < 0 {
		return nil
	}
	free, err := s.freeBytes(s.dir)
	if err != nil {
		return &Error{Op: op, What: "free space of " + s.dir, Kind: ErrIO, Err: err}
	}
	if free-int64(need) < floor {
		return &Error{Op: op, What: fmt.Sprintf("%d bytes free in %s, %d to write, %d to be left", free, s.dir, need, floor), Kind: ErrNoSpace}
	}
	return nil
}

// Room returns the bytes that are free on the store's disk, and the floor below which Put refuses: negative where there is none, or
// the free space cannot be told.
func (s *Store) Room() (freeBytes, floorBytes int64) {
	free, err := s.freeBytes(s.dir)
	if err != nil {
		return 0, -1
	}
	return free, s.floor
}
