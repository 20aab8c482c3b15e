package estate

import (
	"sync/atomic"
	"unsafe"
)

const (
	handleSize = 256
	viewSize   = 192
)

// Handle is something open.
type Handle struct {
	// FH is the kernel's number of it, and Node the inode that it is of.
	FH, Node uint64
	Kind     HandleKind
	// Mode is overlay's.
	Mode uint8
	// Backed, Privileged and Rewrites are overlay's; Released: the kernel has let go of it, and a mapping may be left.
	Backed, Privileged, Rewrites, Released bool
	// Flags are those of the open, Backing the kernel's number of the backing file.
	Flags   uint32
	Backing int32
	PID     uint32
	Start   uint64
	Agent   string
	// Path is that of a name below `.tt`.
	Path string
}

// HandleKind says what is open.
type HandleKind uint8

// The kinds.
const (
	File HandleKind = iota + 1
	Dir
	Virtual
	VirtualDir
)

type handleRecord struct {
	fh      atomic.Uint64
	node    uint64
	start   uint64
	flags   uint32
	backing int32
	pid     uint32
	kind    HandleKind
	mode    uint8
	bits    atomic.Uint32
	agent   [68]byte
	path    [128]byte
}

const (
	bitBacked = 1 << iota
	bitPrivileged
	bitRewrites
	bitReleased
)

// The shapes must fit.
var (
	_ [handleSize - unsafe.Sizeof(handleRecord{})]byte
	_ [viewSize - unsafe.Sizeof(viewRecord{})]byte
	_ [nodeSize - unsafe.Sizeof(nodeRecord{})]byte
	_ [nodeSize - unsafe.Sizeof(nameRecord{})]byte
)

func (e *Estate) handle(i uint32) *handleRecord { return (*handleRecord)(e.handles.at(i)) }

// PutHandle keeps what is open, and gives the record's number; 0 when there is no room, or its path is too long.
func (e *Estate) PutHandle(h *Handle) uint32 {
	if len(h.Agent) > len(handleRecord{}.agent)-2 || len(h.Path) > len(handleRecord{}.path)-2 {
		return 0
	}
	i := e.handles.take()
	if i == 0 {
		return 0
	}
	r := e.handle(i)
	r.node, r.start, r.flags, r.backing, r.pid, r.kind, r.mode = h.Node, h.Start, h.Flags, h.Backing, h.PID, h.Kind, h.Mode
	bits := uint32(0)
	for _, b := range []struct {
		bit uint32
		is  bool
	}{{bitBacked, h.Backed}, {bitPrivileged, h.Privileged}, {bitRewrites, h.Rewrites}, {bitReleased, h.Released}} {
		if b.is {
			bits |= b.bit
		}
	}
	r.bits.Store(bits)
	putString(r.agent[:], h.Agent)
	putString(r.path[:], h.Path)
	r.fh.Store(h.FH)
	return i
}

// ReleaseHandle says that the kernel has let go of an open file.
func (e *Estate) ReleaseHandle(i uint32) {
	r := e.handle(i)
	r.bits.Store(r.bits.Load() | bitReleased)
}

// DropHandle forgets what was open.
func (e *Estate) DropHandle(i uint32) { e.handles.drop(i) }

// Handles gives all that was open, with the record's number.
func (e *Estate) Handles(f func(i uint32, h Handle)) {
	e.handles.each(func(i uint32) {
		r := e.handle(i)
		bits := r.bits.Load()
		f(i, Handle{
			FH: r.fh.Load(), Node: r.node, Kind: r.kind, Mode: r.mode, Flags: r.flags, Backing: r.backing, PID: r.pid, Start: r.start,
			Backed: bits&bitBacked != 0, Privileged: bits&bitPrivileged != 0, Rewrites: bits&bitRewrites != 0, Released: bits&bitReleased != 0,
			Agent: getString(r.agent[:]), Path: getString(r.path[:]),
		})
	})
}
