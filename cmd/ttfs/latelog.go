package main

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// lateLog is the daemon's log before and after there is a place for it: the first mount makes `.tt`, and only a mount
// that succeeds may write there. Until it is opened, lines are kept, up to a bound.
//
// Preconditions: reserve is called before the directory is mounted over, so that the log is the file below the mount. The
// daemon would wait for itself otherwise.
type lateLog struct {
	dir string

	mu    sync.Mutex
	under int      // +checklocks:mu descriptor of the directory, below the mount; 0: none yet; before reserve, one that is another's
	kept  []byte   // +checklocks:mu
	file  *os.File // +checklocks:mu
}

// maxKeptBytes bounds what is kept.
const maxKeptBytes = 1 << 20

// reserve takes hold of the directory as it is below a mount to come.
func (l *lateLog) reserve() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.under > 0 {
		fd, err := unix.FcntlInt(uintptr(l.under), unix.F_DUPFD_CLOEXEC, 3)
		l.under = fd
		return err
	}
	fd, err := unix.Open(l.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		l.under = fd
	}
	return err
}

// Write takes one line.
func (l *lateLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		return l.file.Write(line)
	}
	if len(l.kept)+len(line) <= maxKeptBytes {
		l.kept = append(l.kept, line...)
	}
	return len(line), nil
}

// open begins to write to `.tt/daemon.log`. create says that the store is ours; else only a log that is there is gone on
// with, so that nothing of a foreign directory is changed.
func (l *lateLog) open(create bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	tt, err := unix.Openat(l.under, ".tt", unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(tt)
	flags := unix.O_WRONLY | unix.O_APPEND | unix.O_NOFOLLOW | unix.O_CLOEXEC
	if create {
		flags |= unix.O_CREAT
	}
	fd, err := unix.Openat(tt, "daemon.log", flags, 0o600)
	if err != nil {
		return err
	}
	l.file = os.NewFile(uintptr(fd), "daemon.log")
	var st unix.Stat_t
	if unix.Geteuid() == 0 && unix.Fstatat(l.under, "", &st, unix.AT_EMPTY_PATH) == nil {
		_ = unix.Fchown(fd, int(st.Uid), int(st.Gid)) // all of the store is the owner's; the mode keeps others out in any case
	}
	_, err = l.file.Write(l.kept)
	l.kept = nil
	return err
}

// fd is the descriptor of the open log.
func (l *lateLog) fd() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int(l.file.Fd())
}

func (l *lateLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.file.Close()
	}
	if l.under > 0 {
		unix.Close(l.under)
	}
}
