package transport

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// EnableFile is the parameter of the module fuse that allows io_uring.
const EnableFile = "/sys/module/fuse/parameters/enable_uring"

// Reasons why requests cannot come by io_uring.
var (
	ErrAbsent = errors.New("this kernel cannot do it for FUSE: it needs Linux 6.14 with CONFIG_FUSE_IO_URING")
	ErrOff    = errors.New("it is switched off; switch it on as root: echo Y >" + EnableFile)
)

// Offered says whether the kernel will offer io_uring to a mount made now. Errors: ErrAbsent, ErrOff. What it does not tell
// is whether this process may make a ring.
func Offered() error {
	text, err := os.ReadFile(EnableFile)
	if err != nil {
		return ErrAbsent
	}
	if s := string(text); !strings.HasPrefix(s, "Y") && !strings.HasPrefix(s, "1") {
		return ErrOff
	}
	return nil
}

// TryRing says whether this process may make a ring as FUSE needs it.
func TryRing() error {
	errs := make(chan error)
	go func() {
		r, err := lockedRing()
		if err == nil {
			err = r.try()
			r.close()
		}
		errs <- err
	}()
	if err := <-errs; err != nil {
		return fmt.Errorf("this process may not use io_uring (a container's seccomp profile, or the sysctl kernel.io_uring_disabled): %w", err)
	}
	return nil
}
