// Package estate is what a daemon leaves to the one that follows it when it is killed: a piece of memory without a name
// (memfd_create(2)) that a third process keeps open. In it are the nodes that the kernel knows, what is open, the views, and
// notes of the requests under way. It is written while the daemon serves, by stores alone:
// there is no system call on the way of a request. Nothing of it is ever on a disk, and nothing of it is needed after an unmount.
//
// # Bytes
//
// The memory is one sparse file with regions at fixed places:
//
//	0         head: magic, version, round, next node; what was agreed with the kernel
//	notes     transport's notes of requests
//	views     viewRecord
//	handles   handleRecord
//	nodes     nodeRecord
//
// A region is an array of records, each free or taken; the first word of a record says so. Both sides are the same program (the
// daemon is started again from the same file), so that the shapes may change between versions; another version is refused.
//
// # Death between two stores
//
// A record is written with its first word 0 and taken by the store of that word, which comes last. What is
// replaced is written anew in another place, then the old one is marked, then the new one is taken, then the old one is freed: of
// two records of one node, the one that is not marked counts. Source of the order: stores to one mapping are seen in program order
// by who maps it after the writer's death; sync/atomic keeps the compiler from changing it.
//
// # Locks
//
//	table.mu  the free records of one region: a leaf. Records themselves are guarded by who owns what they are of
package estate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	magic   = 0x7474_6673_6865_6972
	version = 1

	agreementAt   = 256
	agreementMost = 4096
	notesAt       = 1 << 16
	notesSize     = 2 << 20
	viewsAt       = 8 << 20
	mostViews     = 1 << 14
	handlesAt     = 64 << 20
	mostHandles   = 1 << 19
	nodesAt       = 512 << 20
	mostNodes     = 1 << 26
	size          = nodesAt + mostNodes*nodeSize
)

// Estate is the memory, mapped. Its methods may be called at once, those on one node or handle by one at a time.
type Estate struct {
	fd     int
	memory []byte
	head   *head
	round  uint32

	views, handles, nodes table
}

type head struct {
	magic, version uint64
	round          uint64
	nextNode       atomic.Uint64
	agreement      uint64 // its length
	guard          atomic.Uint64
}

// New makes an estate with nothing in it. Errors: of a kernel without memfd_create(2), or of a limit on memory (ulimit -v).
func New() (*Estate, error) {
	fd, err := unix.MemfdCreate("ttfs estate", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	if err := unix.Ftruncate(fd, size); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("size the memory: %w", err)
	}
	e, err := mapped(fd)
	if err != nil {
		return nil, err
	}
	e.head.magic, e.head.version, e.head.round, e.round = magic, version, 1, 1
	return e, nil
}

// Open takes over the estate of a daemon that has died. The descriptor is taken over. Errors: of memory that is none, or of
// another version.
func Open(fd int) (*Estate, error) {
	e, err := mapped(fd)
	if err != nil {
		return nil, err
	}
	if e.head.magic != magic || e.head.version != version {
		e.Close()
		return nil, errors.New("what the daemon left is of another version of ttfs")
	}
	e.round = uint32(e.head.round) + 1
	for _, t := range []*table{&e.views, &e.handles, &e.nodes} {
		t.scan()
	}
	return e, nil
}

func mapped(fd int) (*Estate, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	if err == nil && st.Size != size {
		err = errors.New("it has another size")
	}
	var m []byte
	if err == nil {
		m, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_NORESERVE)
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("map the memory: %w", err)
	}
	e := &Estate{fd: fd, memory: m, head: (*head)(unsafe.Pointer(&m[0]))}
	e.views = table{memory: m[viewsAt:], size: viewSize, most: mostViews}
	e.handles = table{memory: m[handlesAt:], size: handleSize, most: mostHandles}
	e.nodes = table{memory: m[nodesAt:], size: nodeSize, most: mostNodes}
	return e, nil
}

// Close lets it go; who else has it keeps it.
func (e *Estate) Close() error {
	return errors.Join(unix.Munmap(e.memory), unix.Close(e.fd))
}

// FD is its descriptor.
func (e *Estate) FD() int { return e.fd }

// Round is which daemon of the mount this is: 1 for the first.
func (e *Estate) Round() uint32 { return e.round }

// Taken says that the daemon goes on with what was left. One that fails before is none, and the next has its number.
func (e *Estate) Taken() { e.head.round = uint64(e.round) }

// Notes is the memory for transport's notes.
func (e *Estate) Notes() []byte { return e.memory[notesAt : notesAt+notesSize] }

// SetAgreement keeps what was agreed with the kernel.
func (e *Estate) SetAgreement(b []byte) error {
	if len(b) > agreementMost {
		return errors.New("what was agreed with the kernel is too long")
	}
	copy(e.memory[agreementAt:], b)
	e.head.agreement = uint64(len(b))
	return nil
}

// Agreement is what was kept.
func (e *Estate) Agreement() []byte {
	return e.memory[agreementAt : agreementAt+min(e.head.agreement, agreementMost)]
}

// table is a region. Record 0 is never given: 0 is none.
type table struct {
	memory []byte
	size   int
	most   uint32

	mu   sync.Mutex
	next uint32   // +checklocks:mu none from here on was ever used, but for 0
	free []uint32 // +checklocks:mu
}

func (t *table) at(i uint32) unsafe.Pointer { return unsafe.Pointer(&t.memory[int(i)*t.size]) }

func (t *table) word(i uint32) *atomic.Uint64 { return (*atomic.Uint64)(t.at(i)) }

// take is a free record; 0 when there is none.
func (t *table) take() uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.free); n > 0 {
		i := t.free[n-1]
		t.free = t.free[:n-1]
		return i
	}
	if t.next++; t.next >= t.most {
		t.next--
		return 0
	}
	// How far a region was used is in its record 0.
	t.word(0).Store(uint64(t.next))
	return t.next
}

// drop frees a record.
func (t *table) drop(i uint32) {
	t.word(i).Store(0)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free = append(t.free, i)
}

// scan finds the free records of what was left.
func (t *table) scan() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next = uint32(min(t.word(0).Load(), uint64(t.most-1)))
	for i := t.next; i > 0; i-- {
		if t.word(i).Load() == 0 {
			t.free = append(t.free, i)
		}
	}
}

// each calls f with every record that is taken.
func (t *table) each(f func(i uint32)) {
	t.mu.Lock()
	last := t.next
	t.mu.Unlock()
	for i := uint32(1); i <= last; i++ {
		if t.word(i).Load() != 0 {
			f(i)
		}
	}
}

// putString writes a string with its length before it, cut to what fits.
func putString(to []byte, s string) {
	n := min(len(s), len(to)-2)
	copy(to[2:], s[:n])
	binary.NativeEndian.PutUint16(to, uint16(n))
}

func getString(from []byte) string {
	n := min(int(binary.NativeEndian.Uint16(from)), len(from)-2)
	return string(from[2 : 2+n])
}
