package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Legacy is a connection that a daemon before this one made, and what was agreed on it.
type Legacy struct {
	// FD is /dev/fuse, the same open file; the connection ends with the last descriptor of it. It is taken over.
	FD int
	// Agreement is what Conn.Agreement gave.
	Agreement []byte
}

// Agreement is what a daemon to come must know of the connection: the kernel's greeting, and what it was granted.
func (c *Conn) Agreement() []byte {
	return append(binary.NativeEndian.AppendUint64(nil, c.granted), c.greeting...)
}

// Device duplicates the descriptor of /dev/fuse, for somebody who keeps the connection when this process dies.
func (c *Conn) Device() (fd int, err error) {
	closed := c.dev.with(func(dev int) error {
		fd, err = unix.FcntlInt(uintptr(dev), unix.F_DUPFD_CLOEXEC, 3)
		return err
	})
	return fd, errors.Join(closed)
}

// errOver is of a connection that ended before anybody went on with it.
var errOver = errors.New("the mount has gone meanwhile")

// Over says whether a mount could not be gone on with because it is gone.
func Over(err error) bool { return errors.Is(err, errOver) }

// adopt goes on with a connection: nothing is mounted, and the kernel, which has been greeted, is not greeted again.
func (c *Conn) adopt(l *Legacy) error {
	if len(l.Agreement) < 8+inHeaderSize {
		return fmt.Errorf("what was agreed with the kernel is not known: %w", unix.EPROTO)
	}
	poll := []unix.PollFd{{Fd: int32(l.FD), Events: unix.POLLIN}}
	if _, err := unix.Poll(poll, 0); err == nil && poll[0].Revents&unix.POLLERR != 0 {
		return errOver // Source: fuse_dev_poll
	}
	c.greeting = slices.Clone(l.Agreement[8:])
	answer := make([]byte, 256)
	// go-fuse learns from the greeting how to decode what follows. Its answer was given.
	if n, status := c.server.HandleRequest([][]byte{slices.Clone(c.greeting)}, [][]byte{answer}); n < outHeaderSize || !status.Ok() {
		return fmt.Errorf("answer the kernel's greeting once more: %v: %w", status, unix.EPROTO)
	}
	c.granted = binary.NativeEndian.Uint64(l.Agreement)
	c.why = errors.New("a daemon before this one was killed, and requests went the classic way then")
	c.resend = true
	return nil
}

// sendAgain has the kernel send once more what was read by the daemon before and not answered. Errors: of a kernel before
// Linux 6.9.
func (c *Conn) sendAgain() error {
	b := make([]byte, outHeaderSize)
	binary.NativeEndian.PutUint32(b, outHeaderSize)
	binary.NativeEndian.PutUint32(b[4:], notifyResend)
	return c.dev.write(b)
}

// askAgain has the kernel ask for every name that it knows before it believes it once more: the daemon before may have died between a change and
// its notification, and what it began was completed since, a move for one. Before Linux 6.16 the names are believed until their time is up.
func (c *Conn) askAgain() {
	if err := c.dev.write(notification(notifyEpoch, nil, "", false)); err != nil && err != unix.ENODEV {
		c.o.Logger.Info("names that the kernel knows of before may be believed for a while", "why", err)
	}
}

// CanResend says whether the kernel sends requests again that a dead daemon has left.
func (c *Conn) CanResend() bool {
	if len(c.greeting) < int(unsafe.Sizeof(fuse.InitIn{})) {
		return false
	}
	return (*fuse.InitIn)(unsafe.Pointer(&c.greeting[0])).Flags64()&fuse.CAP_HAS_RESEND != 0
}

// MayRing says whether requests may come by io_uring once it is started.
func (c *Conn) MayRing() bool { return c.rings != nil }
