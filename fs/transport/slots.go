package transport

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// slot is a place where one request at a time is handled: a classic reader, or an entry of a ring.
type slot struct {
	// unique is the request's number, 0 between two.
	unique atomic.Uint64
	counts [opcodes]atomic.Uint64
}

// begin notes a request, to be counted and, if need be, cancelled.
func (s *slot) begin(h *fuse.InHeader) {
	s.counts[min(h.Opcode, opcodes-1)].Add(1)
	s.unique.Store(h.Unique)
}

func (s *slot) end() { s.unique.Store(0) }

// slots is all of a connection.
type slots struct {
	mu  sync.Mutex
	all []*slot // +checklocks:mu
}

func (t *slots) add() *slot {
	s := &slot{}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = append(t.all, s)
	return s
}

func (t *slots) list() []*slot {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]*slot(nil), t.all...)
}

// counts are the requests so far, by operation.
func (t *slots) counts() map[string]uint64 {
	sums := map[string]uint64{}
	for _, s := range t.list() {
		for op := range s.counts {
			if n := s.counts[op].Load(); n > 0 {
				sums[opName(uint32(op))] += n
			}
		}
	}
	return sums
}

const (
	// interruptTries is how often an interrupt is tried that may be earlier than its request is known, interruptPause apart.
	interruptTries = 50
	interruptPause = time.Millisecond
)

// interrupt cancels a request that is being handled, or is just going to be.
func (c *Conn) interrupt(unique uint64) {
	in := [][]byte{interruptRequest(unique)}
	out := [][]byte{make([]byte, outHeaderSize)}
	for range interruptTries {
		// 0 bytes of answer: it was found. Else EAGAIN is answered, as to the kernel.
		if n, _ := c.server.HandleRequest(in, out); n == 0 {
			return
		}
		time.Sleep(interruptPause)
	}
}

// cancelAll ends the waiting of every handler: nobody will hear its answer.
func (c *Conn) cancelAll() {
	for _, s := range c.slots.list() {
		if unique := s.unique.Load(); unique != 0 {
			c.asides.Go(func() { c.interrupt(unique) })
		}
	}
}
