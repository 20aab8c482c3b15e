package journal

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// disk is what the journal asks of the filesystem for its segments. Tests put a failing one in Options.
type disk interface {
	open(path string, flag int) (file, error)
	rename(from, to string) error
	remove(path string) error
	syncDir(dir string) error
	freeBytes(dir string) (int64, error)
}

// file is one open segment.
type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	truncate(size int64) error
	// reserve gives the file blocks from an offset on without making it larger.
	reserve(off, n int64) error
	datasync() error
	size() (int64, error)
}

type osDisk struct{}

func (osDisk) open(path string, flag int) (file, error) {
	f, err := os.OpenFile(path, flag, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osDisk) rename(from, to string) error { return os.Rename(from, to) }
func (osDisk) remove(path string) error     { return os.Remove(path) }

func (osDisk) syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	return d.Sync()
}

func (osDisk) freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil
}

type osFile struct{ *os.File }

func (f osFile) truncate(size int64) error { return f.Truncate(size) }

func (f osFile) reserve(off, n int64) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var full error
	err = conn.Control(func(fd uintptr) {
		for full = unix.EINTR; full == unix.EINTR; {
			full = unix.Fallocate(int(fd), unix.FALLOC_FL_KEEP_SIZE, off, n)
		}
	})
	if err != nil {
		return err
	}
	return full
}

func (f osFile) datasync() error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var sync error
	err = conn.Control(func(fd uintptr) {
		for sync = unix.Fdatasync(int(fd)); sync == unix.EINTR; sync = unix.Fdatasync(int(fd)) {
		}
	})
	if err != nil {
		return err
	}
	return sync
}

func (f osFile) size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}
