package overlay

import "golang.org/x/sys/unix"

// Mode is how the kernel is to serve an open file. It is fixed per open.
type Mode uint8

const (
	// Passthrough: the kernel goes to the backing file by itself; the daemon sees nothing of it.
	Passthrough Mode = iota
	// Direct: every read and write comes here, and nothing of it is cached.
	Direct
	// Cached: as Direct, but the kernel keeps what was read. Only where there is no passthrough at all.
	Cached
)

// wholeBytes is the size up to which a file opened for reading and writing is kept whole, so that it can be passed
// through and mapped, where the filesystem cannot share blocks.
const wholeBytes = 4 << 20

// opening is all that the mode of an open depends on.
type opening struct {
	flags       uint32
	passthrough bool  // the mount can
	kept        bool  // nothing can be lost: the task made the file, or all of it is kept
	size        int64 // in bytes
	passing     bool  // it is open for passthrough elsewhere
	direct      bool  // it is open for reading and writing in direct mode elsewhere
	privileged  bool  // it is setuid, setgid or has capabilities: a write takes them away, and must be seen for that
}

// mode is the table of I/O modes (DESIGN section 6). keep says that all content must be kept before the open is
// answered. The kernel refuses to map a file for shared writing in direct mode while it is open for passthrough
// elsewhere, and the other way round; so the first decides for an inode.
func (o opening) mode() (m Mode, keep bool) {
	writes := o.flags&unix.O_ACCMODE != unix.O_RDONLY
	switch {
	case !o.passthrough:
		return Cached, false
	case o.direct, o.privileged && writes:
		return Direct, false
	case !writes, o.kept:
		return Passthrough, false
	case o.flags&unix.O_APPEND != 0 && o.flags&unix.O_ACCMODE == unix.O_WRONLY:
		return Direct, false // the old length is all that need be kept
	case o.size <= smallBytes, o.flags&unix.O_ACCMODE == unix.O_RDWR && (o.size <= wholeBytes || o.passing):
		return Passthrough, true
	}
	return Direct, false
}
