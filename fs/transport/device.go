package transport

import (
	"encoding/binary"
	"os"
	"syscall"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// device is an open /dev/fuse. Its descriptor stays open as long as somebody uses it, also when it is closed meanwhile.
type device struct {
	file *os.File
	raw  syscall.RawConn
}

func newDevice(fd int) (*device, error) {
	f := os.NewFile(uintptr(fd), "/dev/fuse")
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &device{file: f, raw: raw}, nil
}

// with calls f with the descriptor. Errors: os.ErrClosed, then f was not called.
func (d *device) with(f func(fd int) error) error {
	var err error
	if closed := d.raw.Control(func(fd uintptr) { err = f(int(fd)) }); closed != nil {
		return closed
	}
	return err
}

func (d *device) write(b []byte) error { return d.with(func(fd int) error { return writeTo(fd, b) }) }

func writeTo(fd int, b []byte) error {
	for {
		_, err := unix.Write(fd, b)
		if err != unix.EINTR {
			return err
		}
	}
}

func (d *device) close() error { return d.file.Close() }

// Source: FUSE_DEV_IOC_BACKING_OPEN and FUSE_DEV_IOC_BACKING_CLOSE.
const (
	ioctlBackingOpen  = 0x4010e501
	ioctlBackingClose = 0x4004e502
)

// RegisterBackingFd gives the kernel a file to read and write by itself.
func (c *Conn) RegisterBackingFd(m *fuse.BackingMap) (id int32, code syscall.Errno) {
	err := c.dev.with(func(fd int) error {
		n, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), ioctlBackingOpen, uintptr(unsafe.Pointer(m)))
		id, code = int32(n), errno
		return nil
	})
	if err != nil {
		return 0, unix.EBADF
	}
	return id, code
}

// UnregisterBackingFd takes one back.
func (c *Conn) UnregisterBackingFd(id int32) (code syscall.Errno) {
	err := c.dev.with(func(fd int) error {
		_, _, code = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), ioctlBackingClose, uintptr(unsafe.Pointer(&id)))
		return nil
	})
	if err != nil {
		return unix.EBADF
	}
	return code
}

// EntryNotify has the kernel forget a name in a directory. It waits for the directory's lock, which a request may hold that
// is being handled: never call it where that request waits for the caller.
func (c *Conn) EntryNotify(parent uint64, name string) fuse.Status {
	return notifyStatus(c.dev.write(notification(notifyEntry, []uint64{parent}, name, true)))
}

// DeleteNotify tells the kernel that a name is gone, also where it is in use; it waits like EntryNotify.
func (c *Conn) DeleteNotify(parent, child uint64, name string) fuse.Status {
	return notifyStatus(c.dev.write(notification(notifyDelete, []uint64{parent, child}, name, true)))
}

// PruneNotify has the kernel drop these inodes from its caches, as far as nobody uses them: it then forgets them. To drop one,
// it may have to write back what it has cached of it, which it asks of us: never call it from a handler. ENOSYS before
// Linux 6.18.
func (c *Conn) PruneNotify(nodes []uint64) fuse.Status {
	numbers := append([]uint64{0, 0}, nodes...)
	b := notification(notifyPrune, numbers, "", false)
	// Source: struct fuse_notify_prune_out: the count, 4 bytes, and 12 that are not used.
	binary.NativeEndian.PutUint32(b[outHeaderSize:], uint32(len(nodes)))
	return notifyStatus(c.dev.write(b))
}

// InodeNotify has the kernel forget the attributes of an inode, and, where off is not negative, the content that it has
// cached from there on.
func (c *Conn) InodeNotify(node uint64, off, length int64) fuse.Status {
	return notifyStatus(c.dev.write(notification(notifyInode, []uint64{node, uint64(off), uint64(length)}, "", false)))
}
