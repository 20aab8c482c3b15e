package fs

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockWait is how long a store may still be somebody else's: after umount(2) the daemon closes it before it ends.
const lockWait = 3 * time.Second

// lockStore takes the lock of a store, which its holder loses with its life. Errors: EWOULDBLOCK.
func lockStore(f *os.File) error {
	for until := time.Now().Add(lockWait); ; time.Sleep(20 * time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) || time.Now().After(until) {
			return err
		}
	}
}
