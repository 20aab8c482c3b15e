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
	guarded     bool  // who opens it is an agent that is guarded: what it reads and overwrites is to be seen
	known       bool  // there is nothing in it that who opens it could learn
	cached      bool  // it is open elsewhere so that the kernel may cache it
	low         bool  // a fork reads what it was made of: it cannot change before all who open it for writing come here
	fresh       bool  // this open empties it
	beside      bool  // another agent may write to it unseen: who writes what is known only if this one is seen
	privileged  bool  // it is setuid, setgid or has capabilities: a write takes them away, and must be seen for that
}

// how is how an open is served.
type how struct {
	mode Mode
	// keep: all content must be kept before the open is answered.
	keep bool
	// backed: reads and writes come here, but the kernel has the backing file all the same. It insists on that for every
	// open of an inode that is open for passthrough, and does not allow it for one that may be mapped in direct mode.
	backed bool
}

// how is the table of I/O modes (DESIGN section 6). Source: fuse_file_io_open and fuse_file_mmap in fs/fuse/iomode.c and
// file.c: a file that is open for passthrough cannot be mapped by a direct open, and the other way round; so the first
// open for reading and writing decides for an inode.
func (o opening) how() how {
	writes := o.flags&unix.O_ACCMODE != unix.O_RDONLY
	both := o.flags&unix.O_ACCMODE == unix.O_RDWR
	switch {
	case o.low && (!o.guarded || o.size <= smallBytes), !o.passthrough:
		return how{mode: Cached}
	case o.low, o.cached:
		return how{mode: Direct}
	case o.direct:
		return how{mode: Direct}
	case o.guarded && !writes && o.size > smallBytes && !o.known:
		return how{mode: Direct, backed: o.passing}
	case o.guarded && writes && !o.fresh:
		return how{mode: Direct, keep: both && o.passing, backed: o.passing || !both}
	case writes && (o.privileged || o.beside):
		return how{mode: Direct, keep: both, backed: true}
	case !writes, o.kept:
		return how{mode: Passthrough}
	case o.flags&unix.O_APPEND != 0 && !both:
		return how{mode: Direct, backed: true} // the old length is all that need be kept
	case o.size <= smallBytes, both && (o.size <= wholeBytes || o.passing):
		return how{mode: Passthrough, keep: true}
	case both:
		return how{mode: Direct}
	}
	return how{mode: Direct, backed: true}
}

// privileged says whether a program that is run from the file has more rights than who runs it.
func privileged(fd int, st *Stat) bool {
	if st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
		return true
	}
	if st.Mode&0o111 == 0 {
		return false
	}
	_, err := unix.Fgetxattr(fd, "security.capability", nil)
	return err == nil
}

// kept says whether nothing that is written to the node in a run can lose bytes of before it; r may be nil.
// Preconditions: n.mu is held.
func (e *Engine) kept(r *run, n *node) (bool, error) {
	if r == nil {
		return false, nil
	}
	for _, t := range []*firsts{{run: r}, {run: e.epochs.newest.Load()}} {
		if t.run == nil || t.made(n) {
			continue
		}
		id, err := e.oidOf(n)
		if err != nil || id == 0 || !t.run.coverage(id).whole() {
			return false, err
		}
	}
	return true, nil
}
