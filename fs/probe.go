package fs

import (
	"errors"
	"os"
	"os/exec"

	"github.com/ttfs/ttfs/fs/transport"
	"golang.org/x/sys/unix"
)

// Abilities are what a machine allows. Why has, for each that is missing, how to get it; its keys are the names of the
// fields in lower case.
type Abilities struct {
	FUSE, Fusermount, Root, Passthrough bool
	// Forks: a command can be run in a fork at the workspace's own path.
	Forks bool
	// Uring is whether requests can come by io_uring: on, off (the module parameter enable_uring), absent (from the kernel) or
	// forbidden (to this process).
	Uring  string
	Kernel string
	Why    map[string]string
}

// Probe looks at the machine; nothing is changed.
func Probe() Abilities {
	a := Abilities{Root: os.Geteuid() == 0, Why: map[string]string{}}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		a.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if a.FUSE = err == nil; a.FUSE {
		unix.Close(fd)
	}
	if _, err := exec.LookPath("fusermount3"); err == nil {
		a.Fusermount = true
	} else {
		a.Why["fusermount"] = "install the package fuse3; only root mounts without it"
	}
	switch {
	case errors.Is(err, unix.ENOENT):
		a.Why["fuse"] = "there is no /dev/fuse: load the module (modprobe fuse), or give it to the container (--device /dev/fuse --cap-add SYS_ADMIN)"
	case errors.Is(err, unix.EACCES) && a.Fusermount:
		a.FUSE = true // fusermount3 opens it
	case err != nil:
		a.Why["fuse"] = "/dev/fuse cannot be opened: " + err.Error()
	}
	a.Passthrough = a.Root && a.FUSE && atLeast(a.Kernel, 6, 9)
	if !a.Passthrough {
		a.Why["passthrough"] = "it needs Linux 6.9 and root (CAP_SYS_ADMIN); without it reads and writes take the long way through the daemon"
	}
	a.Uring = "on"
	switch err := transport.Offered(); {
	case errors.Is(err, transport.ErrAbsent):
		a.Uring, a.Why["uring"] = "absent", "requests come by /dev/fuse, two to three times slower: "+err.Error()
	case err != nil:
		a.Uring, a.Why["uring"] = "off", "requests come by /dev/fuse, two to three times slower: "+err.Error()
	default:
		if err := transport.TryRing(); err != nil {
			a.Uring, a.Why["uring"] = "forbidden", "requests come by /dev/fuse, two to three times slower: "+err.Error()
		}
	}
	if !a.Root {
		a.Why["root"] = "an unprivileged mount serves its own user only, without passthrough"
	}
	if err := ProbeForks(); err != nil {
		a.Why["forks"] = err.Error() + "; without it a fork is reached at .tt/forks/NAME/tree only"
	} else {
		a.Forks = true
	}
	return a
}

// atLeast compares the first two numbers of a kernel's release.
func atLeast(release string, major, minor int) bool {
	var n [2]int
	at := 0
	for _, c := range release {
		switch {
		case c >= '0' && c <= '9':
			n[at] = n[at]*10 + int(c-'0')
		case c == '.' && at == 0:
			at++
		default:
			return n[0] > major || n[0] == major && n[1] >= minor
		}
	}
	return n[0] > major || n[0] == major && n[1] >= minor
}
