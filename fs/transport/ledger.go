package transport

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// A ledger is where the classic readers note what they are at, in memory that outlives the process (fs/estate). The
// kernel sends a daemon's unanswered requests again to the one that follows it (FUSE_NOTIFY_RESEND), with resent set in their numbers.
// Of such a request the ledger tells whether the first daemon had begun it, and, where it had done it, the answer. So it is
// done once: what was done is answered from the note, what was not begun is new, and what was begun the filesystem is asked
// to do again, knowing that (Conn.Begun).
//
// A note is written by plain stores: no system call, and no lock, is on the way of a request.
type ledger struct {
	notes []note
	round uint32 // which daemon this is, from 1 on

	mu   sync.Mutex
	free []*note          // +checklocks:mu
	left map[uint64]*note // +checklocks:mu by the request's number: of the daemon before
	used atomic.Uint32    // no note from here on was ever used
}

// note is of one request at a time. Its place in memory is shared with the daemons to come: a change of its shape is a
// change of estate's version.
type note struct {
	unique atomic.Uint64 // of the request, without resent; 0: none. It is written last and taken back first
	state  atomic.Uint32
	size   uint32 // of the answer
	mark   atomic.Uint64
	began  int64 // UnixNano; 0: of a request that changes nothing
	tries  uint32
	round  uint32
	answer [noteAnswer]byte
}

const (
	// NoteSize is the size of a note.
	NoteSize = 256
	// noteAnswer is the longest answer that is kept: those of all operations that cannot be done twice are shorter.
	noteAnswer = NoteSize - 40

	noteBegun = 1
	noteDone  = 2

	// resent is set by the kernel in the number of a request that it sends again. Source: FUSE_UNIQUE_RESEND.
	resent = uint64(1) << 63
	// mostTries is how many daemons may die of a request before it is answered with EIO.
	mostTries = 3
)

// newLedger is the ledger in a piece of memory; nil for none. Preconditions: memory is aligned to 8 bytes.
func newLedger(memory []byte, round uint32) *ledger {
	n := len(memory) / NoteSize
	if n == 0 {
		return nil
	}
	l := &ledger{notes: unsafe.Slice((*note)(unsafe.Pointer(&memory[0])), n), round: round, left: map[uint64]*note{}}
	for i := n - 1; i >= 0; i-- {
		e := &l.notes[i]
		unique := e.unique.Load()
		switch {
		case unique == 0:
			l.free = append(l.free, e)
		case e.round+2 < round: // two daemons were not sent it again: it is answered
			e.unique.Store(0)
			l.free = append(l.free, e)
		default:
			l.left[unique] = e
			l.use(uint32(i) + 1)
		}
	}
	return l
}

func (l *ledger) use(n uint32) {
	for {
		old := l.used.Load()
		if n <= old || l.used.CompareAndSwap(old, n) {
			return
		}
	}
}

// add is a free note; nil when there is none, or no ledger: what is noted nowhere is done again.
func (l *ledger) add() *note {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.free)
	if n == 0 {
		return nil
	}
	e := l.free[n-1]
	l.free = l.free[:n-1]
	l.use(uint32((uintptr(unsafe.Pointer(e))-uintptr(unsafe.Pointer(&l.notes[0])))/NoteSize) + 1)
	return e
}

// find is the note of a request that is being handled.
func (l *ledger) find(unique uint64) *note {
	unique &^= resent
	for i := range l.used.Load() {
		if e := &l.notes[i]; e.unique.Load() == unique {
			return e
		}
	}
	return nil
}

// noted says whether a request is one that is noted: what nobody waits for, and what ends others, is not.
func noted(op uint32) bool {
	return op != opForget && op != opBatchForget && op != opInterrupt && op != opDestroy
}

// changes says whether an operation may do what cannot be done twice.
func changes(op uint32) bool {
	switch op {
	case 1, 3, 5, 15, 17, 22, 23, 28, 44, 46: // looks
		return false
	}
	return true
}

// begin opens the note of a request. The answer is not nil when the request was done before, or is not to be tried again.
// Where the note of the daemon before is gone on with, it takes the place of the reader's own.
func (l *ledger) begin(own **note, h *fuse.InHeader) (answer []byte) {
	if h.Unique&resent != 0 {
		l.mu.Lock()
		old := l.left[h.Unique&^resent]
		delete(l.left, h.Unique&^resent)
		if old != nil && *own != nil {
			l.free = append(l.free, *own)
		}
		l.mu.Unlock()
		if old != nil {
			*own = old
			return old.again(h, l.round)
		}
	}
	e := *own
	if e == nil {
		return nil
	}
	e.state.Store(0)
	e.mark.Store(0)
	e.began, e.tries, e.round = 0, 1, l.round
	if changes(h.Opcode) {
		e.began = time.Now().UnixNano()
	}
	e.unique.Store(h.Unique &^ resent)
	return nil
}

// again goes on with a request of the daemon before.
func (e *note) again(h *fuse.InHeader, round uint32) []byte {
	e.round = round
	if e.state.Load() == noteDone && e.size >= outHeaderSize && e.size <= noteAnswer {
		b := append([]byte(nil), e.answer[:e.size]...)
		putUnique(b, h.Unique)
		return b
	}
	if e.tries++; e.tries > mostTries {
		return errorAnswer(h.Unique, fuse.EIO)
	}
	e.state.Store(noteBegun)
	return nil
}

// done keeps the answer, before it is given.
func (e *note) done(answer []byte) {
	if e == nil || len(answer) > noteAnswer {
		return
	}
	e.size = uint32(copy(e.answer[:], answer))
	e.state.Store(noteDone)
}

// end closes the note of a request that is answered.
func (e *note) end() {
	if e != nil {
		e.unique.Store(0)
	}
}

// Begun says whether a request was begun by a daemon that has died, so that all or part of it may be done: since when, and
// what Mark was told of it.
func (c *Conn) Begun(unique uint64) (since time.Time, mark uint64, begun bool) {
	if unique&resent == 0 || c.ledger == nil {
		return time.Time{}, 0, false
	}
	e := c.ledger.find(unique)
	if e == nil || e.state.Load() != noteBegun {
		return time.Time{}, 0, false
	}
	return time.Unix(0, e.began), e.mark.Load(), true
}

// Mark keeps a number with a request that is being handled, for the daemon that may have to do it again.
func (c *Conn) Mark(unique, mark uint64) {
	if c.ledger == nil {
		return
	}
	if e := c.ledger.find(unique); e != nil {
		e.mark.Store(mark)
	}
}
