package overlay

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// asCaller does f with the caller's ids as those of the filesystem, so that the kernel makes the file the caller's and
// gives it the group of a setgid directory, but with the daemon's own capabilities: what the caller may do was decided
// by the kernel (default_permissions) before the request was sent. A daemon without root makes everything as itself.
func asCaller(c Caller, f func() error) error {
	if c.UID == 0 && c.GID == 0 || os.Geteuid() != 0 {
		return f()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&hdr, &caps[0]); err != nil {
		return err
	}
	if _, err := unix.SetfsgidRetGid(int(c.GID)); err != nil {
		return err
	}
	defer func() { _, _ = unix.SetfsgidRetGid(0) }()
	if _, err := unix.SetfsuidRetUid(int(c.UID)); err != nil {
		return err
	}
	// Leaving fsuid 0 drops the filesystem's capabilities; going back raises them (capabilities(7)).
	defer func() { _, _ = unix.SetfsuidRetUid(0) }()
	if err := unix.Capset(&hdr, &caps[0]); err != nil {
		return err
	}
	return f()
}

// makeMode is the mode of what a caller makes: its umask counts only where the directory has no default ACL.
func makeMode(dir int, mode, umask uint32) uint32 {
	if umask&mode != 0 {
		if _, err := unix.Getxattr(procPath(dir), "system.posix_acl_default", nil); err == nil {
			return mode
		}
	}
	return mode &^ umask
}
