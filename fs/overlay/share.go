package overlay

import (
	"encoding/binary"
	"sync"

	"github.com/ttfs/ttfs/journal"
	"github.com/ttfs/ttfs/tasktree"
)

// Several agents work in one tree, so a task's images do not say whether somebody else changed the same since. For that
// every task that touches a thing has a share in it: when it touched it first, and when it last came back to it after
// somebody else. Both are numbers of one rising sequence. A task that is the last to have touched a thing owns it, and
// its further changes cost nothing.

// kShare is the letter of the keys of shares: of an entry 'Q' 'e' directory name '/' task, of an object 'Q' 'o' object
// task. The value is first and last.
const kShare = 'Q'

// thing is what can be shared: an entry, or an object with its content and metadata.
type thing struct {
	at  spot
	obj OID
}

func (t thing) prefix() []byte {
	k := make([]byte, 0, 2+8+len(t.at.name)+1+8) // with room for the task
	if t.obj != 0 {
		return binary.BigEndian.AppendUint64(append(k, kShare, 'o'), uint64(t.obj))
	}
	k = binary.BigEndian.AppendUint64(append(k, kShare, 'e'), uint64(t.at.dir))
	return append(append(k, t.at.name...), '/')
}

func (t thing) key(task tasktree.TaskID) []byte {
	return binary.BigEndian.AppendUint64(t.prefix(), uint64(task))
}

// share is when a task touched a thing. A move of the task counts as a touch; madeFirst and madeLast are without moves.
type share struct{ first, last, madeFirst, madeLast uint64 }

func (s share) encode() []byte {
	e := encoder(2 * binary.MaxVarintLen64)
	e.u(s.first)
	e.u(s.last)
	if s.madeFirst != s.first || s.madeLast != s.last {
		e.u(s.madeFirst)
		e.u(s.madeLast)
	}
	return e.b
}

func decodeShare(b []byte) (share, error) {
	d := dec{b: b}
	s := share{first: d.u(), last: d.u()}
	s.madeFirst, s.madeLast = s.first, s.last
	if d.err == nil && len(d.b) > 0 {
		s.madeFirst, s.madeLast = d.u(), d.u()
	}
	return s, d.err
}

// shareCounter gives the numbers of the sequence.
type shareCounter struct {
	mu          sync.Mutex
	next, limit uint64 // +checklocks:mu
}

// seqReserve is how many numbers of the sequence one record reserves.
const seqReserve = 1 << 20

// nextSeq is the next number of the sequence.
func (e *Engine) nextSeq() (uint64, error) {
	c := &e.shares
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == c.limit {
		v, found, err := e.j.Get([]byte{kCounter, 'q'})
		if err != nil {
			return 0, storeError("number a change", err)
		}
		from := uint64(1)
		if found {
			d := dec{b: v}
			if from = d.u(); d.err != nil {
				return 0, fail("number a change", "", Damaged, d.err)
			}
		}
		var b journal.Batch
		b.Put([]byte{kCounter, 'q'}, encodeNumber(from+seqReserve))
		if err := e.j.CommitFreeing(&b); err != nil { // of a removal, it may be
			return 0, storeError("number a change", err)
		}
		c.next, c.limit = from, from+seqReserve
	}
	c.next++
	return c.next - 1, nil
}

// touch gives the change's task a share in a thing, unless it owns it already. Preconditions: the lock is held under
// which the thing is changed.
func (ch *change) touch(t thing) error {
	own, shared := ch.e.owns(ch.run, t)
	if own {
		return nil
	}
	for _, o := range ch.owns {
		if o == t {
			return nil
		}
	}
	seq, err := ch.e.nextSeq()
	if err != nil {
		return err
	}
	s, k := share{seq, seq, seq, seq}, t.key(ch.run.id)
	if shared {
		old, found, err := ch.e.j.Get(k)
		if err != nil {
			return storeError("number a change", err)
		}
		if found {
			was, err := decodeShare(old)
			if err != nil {
				return fail("number a change", "", Damaged, err)
			}
			s.first, s.madeFirst = was.first, was.madeFirst
		}
	}
	ch.b.Put(k, s.encode())
	ch.owns = append(ch.owns, t)
	return nil
}

// things are what a task's images are of. The metadata of a directory alone is none: it changes with every entry.
func (im *images) things() []thing {
	var out []thing
	for _, at := range sortedSpots(im.entries) {
		out = append(out, thing{at: at})
	}
	for _, id := range sortedOIDs(im.contents) {
		out = append(out, thing{obj: id})
	}
	for _, id := range sortedOIDs(im.metas) {
		if im.contents[id] == nil {
			out = append(out, thing{obj: id})
		}
	}
	return out
}

// moved renews the shares of a task that was just taken back or done again: its changes are of now.
func (s *step) moved(b *journal.Batch) ([]thing, error) {
	var out []thing
	for _, t := range s.want.things() {
		renewed, err := s.e.renew(b, s.task, t)
		if err != nil {
			return nil, err
		}
		if renewed {
			out = append(out, t)
		}
	}
	return out, nil
}

// renew makes a task's share in a thing one of now; false when it has none.
func (e *Engine) renew(b *journal.Batch, task tasktree.TaskID, t thing) (bool, error) {
	v, found, err := e.j.Get(t.key(task))
	if err != nil || !found {
		return false, storeError("number a change", err)
	}
	s, err := decodeShare(v)
	if err != nil {
		return false, fail("number a change", "", Damaged, err)
	}
	if s.first, err = e.nextSeq(); err != nil {
		return false, err
	}
	if s.last = s.first; s.madeFirst == 0 { // the task was made for this move
		s.madeFirst, s.madeLast = s.first, s.first
	}
	b.Put(t.key(task), s.encode())
	return true, nil
}
