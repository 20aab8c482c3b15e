package overlay

import (
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Stat is all that the kernel tells of an inode.
type Stat = unix.Statx_t

// statMask asks for the basic fields and the birth time, which makes an inode number unique in time.
const statMask = unix.STATX_BASIC_STATS | unix.STATX_BTIME

// inoKey tells one inode of the backing filesystem from all others that it ever had: inode numbers are used again.
type inoKey struct {
	ino  uint64
	born int64 // birth time in ns; 0 where the filesystem keeps none
}

func keyOf(st *Stat) inoKey {
	k := inoKey{ino: st.Ino}
	if st.Mask&unix.STATX_BTIME != 0 {
		k.born = st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
	}
	return k
}

func kindOf(st *Stat) uint32 { return uint32(st.Mode) & unix.S_IFMT }

// retry calls f again while a signal of the Go runtime interrupts it.
func retry(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}

// statAt never follows a link in the last component, and name is always one component or empty (the descriptor itself).
func statAt(dir int, name string, st *Stat) error {
	flags := unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	return retry(func() error { return unix.Statx(dir, name, flags, statMask, st) })
}

// leaseTries is how often an open that a lease is in the way of is tried again, leasePause apart.
const (
	leaseTries = 1000
	leasePause = 50 * time.Microsecond
)

func openAt(dir int, name string, flags int, mode uint32) (fd int, err error) {
	for try := 0; ; try++ {
		err = retry(func() error {
			fd, err = unix.Openat(dir, name, flags|unix.O_CLOEXEC, mode)
			return err
		})
		if err != unix.EAGAIN || try == leaseTries {
			break
		}
		time.Sleep(leasePause) // Handle.mapped takes one for a moment
	}
	if err != nil {
		return -1, err
	}
	return fd, nil
}

func renameAt(from int, old string, to int, name string, flags uint) error {
	return retry(func() error { return unix.Renameat2(from, old, to, name, flags) })
}

func linkAt(from int, old string, to int, name string) error {
	return retry(func() error { return unix.Linkat(from, old, to, name, 0) })
}

func unlinkAt(dir int, name string, flags int) error {
	return retry(func() error { return unix.Unlinkat(dir, name, flags) })
}

// procPath names an open descriptor, also one opened with O_PATH, for the calls that only take paths.
func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// preadFull reads until b is full or the file ends.
func preadFull(fd int, b []byte, off int64) (int, error) {
	n := 0
	for n < len(b) {
		got, err := unix.Pread(fd, b[n:], off+int64(n))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return n, err
		}
		if got == 0 {
			break
		}
		n += got
	}
	return n, nil
}

func pwriteFull(fd int, b []byte, off int64) error {
	for len(b) > 0 {
		n, err := unix.Pwrite(fd, b, off)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return syscall.EIO
		}
		b, off = b[n:], off+int64(n)
	}
	return nil
}

// pwriteSome writes what it can; an error is told only when nothing was written.
func pwriteSome(fd int, b []byte, off int64) (int, error) {
	n := 0
	for n < len(b) {
		got, err := unix.Pwrite(fd, b[n:], off+int64(n))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			if n > 0 {
				return n, nil
			}
			return 0, err
		}
		n += got
	}
	return n, nil
}

// keepTimes has restore give open directories back the times that they have now: a refusal changes nothing.
func keepTimes(fds ...int) (restore func()) {
	all := make([]Stat, len(fds))
	for i, fd := range fds {
		if statAt(fd, "", &all[i]) != nil {
			all[i].Mask = 0
		}
	}
	return func() {
		for i, fd := range fds {
			m := all[i].Mtime
			if all[i].Mask&unix.STATX_MTIME != 0 {
				_ = unix.UtimesNanoAt(fd, "", []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Sec: m.Sec, Nsec: int64(m.Nsec)}}, unix.AT_EMPTY_PATH)
			}
		}
	}
}
