package journal

import "sync"

// line is those who want to append a record at the same time. One of them appends for all who stand in it: would each take the lock
// that the one before has let go, each would have to be woken and to get a processor first, while nobody appends.
type line struct {
	mu     sync.Mutex
	served bool      // +checklocks:mu somebody appends
	all    []*inLine // +checklocks:mu first come first
}

// inLine is a record that somebody else appends.
type inLine struct {
	b    *Batch
	sum  uint32
	need need
	lsn  uint64
	err  error
	turn chan bool // true: append it yourself, and what comes after it; false: it was appended, or has failed
}

// mostRounds is how often one looks whether others have come while it appended for those before.
const mostRounds = 4

// append appends a record to the tail, and makes it visible. Errors: those of Commit.
func (j *Journal) append(b *Batch, sum uint32, need need) (lsn uint64, err error) {
	if w := j.line.join(b, sum, need); w != nil && !<-w.turn {
		return w.lsn, w.err
	}
	defer j.line.next()
	j.appendMu.Lock()
	defer j.appendMu.Unlock()
	lsn, err = j.appendLocked(b, sum, need)
	for range mostRounds {
		all := j.line.take()
		for _, w := range all {
			w.lsn, w.err = j.appendLocked(w.b, w.sum, w.need)
		}
		for _, w := range all {
			w.turn <- false
		}
		if all == nil {
			break
		}
	}
	return lsn, err
}

// join takes a place in the line; nil: there is none, it is the caller's turn.
func (l *line) join(b *Batch, sum uint32, need need) *inLine {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.served {
		l.served = true
		return nil
	}
	w := &inLine{b: b, sum: sum, need: need, turn: make(chan bool, 1)}
	l.all = append(l.all, w)
	return w
}

// take is all who are in the line; they are no more.
func (l *line) take() []*inLine {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}

// next gives the turn to the first in the line.
func (l *line) next() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) == 0 {
		l.served = false
		return
	}
	w := l.all[0]
	l.all = l.all[1:]
	w.turn <- true
}
