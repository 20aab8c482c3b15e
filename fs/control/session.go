package control

import (
	"errors"
	"strings"
	"sync"

	"github.com/ttfs/ttfs/tasktree"
)

// Session is one open of ctl. Safe for concurrent use.
//
// Reading is a stream: what has been read is gone, and the offset of a read does not matter. So both work: to write and
// go on reading at the offset after it (a shell's `exec 3<>`), and to seek back to 0 first (python's r+). Open it with
// direct I/O.
type Session struct {
	backend Backend
	caller  Caller

	mu sync.Mutex
	// reply is what has not been read yet.
	// +checklocks:mu
	reply []byte
}

// NewSession is an open of ctl by that caller.
func NewSession(b Backend, c Caller) *Session { return &Session{backend: b, caller: c} }

// Write executes one command. All of p is taken, or none: the error is what write(2) is to fail with (Errno). Either way
// the reply can be read afterwards, and replaces one that was not read.
func (s *Session) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := Parse(p)
	var reply string
	if err == nil {
		reply, err = Execute(c, s.caller, s.backend)
	}
	if err != nil {
		s.reply = []byte("error: " + err.Error() + "\n")
		if errors.Is(err, Protected) { // its errno is that of NotYours as well
			s.reply = append(s.reply, protectedReply...)
		}
		s.backend.Refused(s.caller.Agent, err.Error())
		return 0, err
	}
	s.reply = []byte(reply)
	return len(p), nil
}

// protectedReply is the second line of the reply to a move that was refused for protected paths.
const protectedReply = "protected: see .tt/conflicts\n"

// CutProtected takes it off a reply; found says whether it was there.
func CutProtected(reply string) (rest string, found bool) {
	return strings.CutSuffix(reply, protectedReply)
}

// Read takes from the reply; 0 and no error at its end.
func (s *Session) Read(p []byte) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := copy(p, s.reply)
	s.reply = s.reply[n:]
	return n
}

// Refusals keeps the last refusal of each agent, for a Backend's Why and Refused. The zero value is empty. Safe for
// concurrent use.
type Refusals struct {
	mu sync.Mutex
	// last and order are bounded by maxRefusals, the oldest goes first.
	// +checklocks:mu
	last  map[tasktree.Agent]string
	order []tasktree.Agent
}

// maxRefusals is the number of agents whose last refusal is kept.
const maxRefusals = 1024

// Refused keeps a sentence.
func (r *Refusals) Refused(a tasktree.Agent, sentence string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = map[tasktree.Agent]string{}
	}
	if _, ok := r.last[a]; !ok {
		if len(r.order) == maxRefusals {
			delete(r.last, r.order[0])
			r.order = append(r.order[:0], r.order[1:]...)
		}
		r.order = append(r.order, a)
	}
	r.last[a] = sentence
}

// Why is the last one, "" for none.
func (r *Refusals) Why(a tasktree.Agent) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last[a]
}
