package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/ttfs/ttfs/fs/estate"
	"golang.org/x/sys/unix"
)

// A daemon that is killed may leave a thread that cannot end: one that tells the kernel of a change, or that gives a queue of
// requests a kick, waits beyond the reach of a signal for somebody who waits for an answer of the daemon. While it is there, the
// process cannot be reaped. This is how its parent gets out of that: such threads have descriptors of their own
// (transport.Tell), so the daemon's socket is closed as soon as nothing else is left, and its lock on the store is free. Then
// either the next daemon gives the answer, or the parent ends the connection.

const (
	// stuckLimit is how long the last threads of a dead daemon may take to end.
	stuckLimit = 300 * time.Millisecond
	// stuckPause is between two looks at whether a daemon without a socket is dead.
	stuckPause = 20 * time.Millisecond
)

var errStuck = errors.New("it was killed, and a thread of it still waits for the kernel")

// waitFor waits for the end of a daemon, or until nothing is left of it but threads that wait for the kernel. heard is closed when nobody has
// its socket any more; dead is called when it is dead and not gone.
func waitFor(cmd *exec.Cmd, heard <-chan struct{}, dead func()) error {
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-heard:
	}
	for pause := stuckPause; ; pause = min(2*pause, time.Second) { // who let its socket go may live on
		isDead := firstIsDead(cmd.Process.Pid)
		if isDead {
			dead()
			pause = stuckLimit
		}
		select {
		case err := <-ended:
			return err
		case <-time.After(pause):
			if isDead {
				return errStuck
			}
		}
	}
}

// firstIsDead says whether a process's first thread has ended. It does so only with all of them. Preconditions: the process is
// not reaped.
func firstIsDead(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	after := stat[bytes.LastIndexByte(stat, ')')+1:]
	return bytes.HasPrefix(after, []byte(" Z")) || bytes.HasPrefix(after, []byte(" X"))
}

// mountID tells a mount from any other, also from a later one at the same place.
type mountID struct {
	id    uint64
	minor uint32 // of its device, by which its connection is named
}

// mountIDOf is what is mounted on a directory. The filesystem is not asked anything: it may not answer.
func mountIDOf(dir string) (mountID, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return mountID{}, err
	}
	defer unix.Close(fd)
	return mountIDOfFile(fd)
}

func mountIDOfFile(fd int) (mountID, error) {
	var st unix.Statx_t
	const flags = unix.AT_EMPTY_PATH | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	if err := unix.Statx(fd, "", flags, unix.STATX_MNT_ID_UNIQUE|unix.STATX_MNT_ID, &st); err != nil {
		return mountID{}, err
	}
	return mountID{id: st.Mnt_id, minor: st.Dev_minor}, nil
}

// endConnection ends the connection of a daemon that is dying, if none is to follow: who waits for an answer gets an error. The
// dead mount stays, so that nothing falls through to the plain directory.
func (s *supervisor) endConnection() {
	s.mu.Lock()
	m, follows := s.mount, !s.alone
	s.mu.Unlock()
	if follows || m == (mountID{}) {
		return
	}
	// While this is open, the mount is there, and its device has no other's number.
	fd, err := unix.Open(s.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if now, err := mountIDOfFile(fd); err != nil || now != m {
		return // it was unmounted
	}
	if err = abortConnection(m.minor); err == nil {
		return
	}
	if forced := forceUnmount(s.dir); forced != nil {
		err = errors.Join(err, forced)
		s.mu.Lock()
		defer s.mu.Unlock()
		if log := s.kept[estate.NameLog]; log != nil {
			fmt.Fprintf(log, "time=%s level=WARN msg=%q\n", time.Now().Format(time.RFC3339), fmt.Sprintf(
				"the connection of a dead daemon could not be ended: %v; if programs hang, do it as root: echo 1 >/sys/fs/fuse/connections/%d/abort", err, m.minor))
		}
	}
}

// abortConnection ends a FUSE connection by the filesystem that there is for it, whose files are of who mounted.
func abortConnection(minor uint32) error {
	return os.WriteFile(filepath.Join("/sys/fs/fuse/connections", strconv.FormatUint(uint64(minor), 10), "abort"), []byte("1"), 0)
}

// forceUnmount ends the connection of what is mounted on a directory, as root. It stays mounted, as it is in use: the caller has it open.
func forceUnmount(dir string) error {
	if err := unix.Unmount(dir, unix.MNT_FORCE|unix.UMOUNT_NOFOLLOW); err != nil && !isBusy(err) {
		return fmt.Errorf("umount -f: %w", err)
	}
	return nil
}
