package overlay

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// xattrRoom is what most values fit in. Of most files `ls -l` asks for attributes that they do not have.
const xattrRoom = 256

// xattrArgs is struct xattr_args of include/uapi/linux/xattr.h.
type xattrArgs struct {
	value uint64
	size  uint32
	flags uint32
}

// xattrAt is getxattrat(2), of Linux 6.13, which follows no link.
func xattrAt(dir int, file, name string, b []byte) (int, error) {
	f, err := unix.BytePtrFromString(file)
	if err != nil {
		return 0, err
	}
	attr, err := unix.BytePtrFromString(name)
	if err != nil {
		return 0, err
	}
	args := xattrArgs{value: uint64(uintptr(unsafe.Pointer(&b[0]))), size: uint32(len(b))}
	var pinned runtime.Pinner
	pinned.Pin(&b[0]) // the kernel is told of it by a number, which keeps nothing where it is
	defer pinned.Unpin()
	n, _, errno := unix.Syscall6(unix.SYS_GETXATTRAT, uintptr(dir), uintptr(unsafe.Pointer(f)), unix.AT_SYMLINK_NOFOLLOW,
		uintptr(unsafe.Pointer(attr)), uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// xattrByName reads an extended attribute of a node where it was seen last, without opening it: two system calls instead of five. That it is still there
// is looked at afterwards. done is false when it is not, and when the kernel cannot, or the value is long. Preconditions: the
// node is pinned, and the gate is held.
func (e *Engine) xattrByName(n *node, name string) (v []byte, done bool, err error) {
	p := e.placeOf(n)
	if p.parent == nil || n.from != nil || e.noXattrAt.Load() {
		return nil, false, nil
	}
	d, err := e.useDir(p.parent)
	if err != nil {
		return nil, false, nil
	}
	defer e.putDir(d)
	b := make([]byte, xattrRoom)
	size, err := xattrAt(d.fd, p.name, name, b)
	switch err {
	case unix.ENOSYS, unix.EPERM: // EPERM is also what containers say to a call that they do not know
		e.noXattrAt.Store(true)
		return nil, false, nil
	case unix.ERANGE:
		return nil, false, nil
	}
	var st Stat
	if statAt(d.fd, p.name, &st) != nil || keyOf(&st) != n.key {
		return nil, false, nil
	}
	if err != nil {
		return nil, true, err
	}
	return b[:size], true, nil
}
