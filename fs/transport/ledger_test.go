package transport

import (
	"bytes"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

const (
	testMkdir = 9
	testRead  = 15
)

func ask(unique uint64, op uint32) *fuse.InHeader {
	h := inHeader(make([]byte, inHeaderSize))
	h.Unique, h.Opcode = unique, op
	return h
}

// TestLedgerOverDeaths: what a daemon had not begun is new to the next, what it had begun is known, with its mark, and what it
// had done is answered without being done.
func TestLedgerOverDeaths(t *testing.T) {
	memory := make([]byte, 4*NoteSize)
	first := newLedger(memory, 1)
	begun, done, closed := first.add(), first.add(), first.add()
	before := time.Now()
	for unique, n := range map[uint64]**note{10: &begun, 12: &done, 14: &closed} {
		if answer := first.begin(n, ask(unique, testMkdir)); answer != nil {
			t.Fatalf("a new request is answered with %x", answer)
		}
	}
	c := &Conn{ledger: first}
	c.Mark(10, 77)
	if _, _, was := c.Begun(10); was {
		t.Error("a request that was not sent again counts as begun before")
	}
	done.done(errorAnswer(12, fuse.ENOENT))
	closed.done(errorAnswer(14, fuse.OK))
	closed.end()

	second := newLedger(memory, 2)
	c = &Conn{ledger: second}
	own := second.add()
	if got, want := second.begin(&own, ask(12|resent, testMkdir)), errorAnswer(12|resent, fuse.ENOENT); !bytes.Equal(got, want) {
		t.Errorf("what was done is answered with %x, not %x", got, want)
	}
	own.end()
	if answer := second.begin(&own, ask(14|resent, testMkdir)); answer != nil {
		t.Errorf("what was answered, and is new, is answered with %x", answer)
	}
	if _, _, was := c.Begun(14 | resent); was {
		t.Error("a request without a note counts as begun")
	}
	own.end()
	if answer := second.begin(&own, ask(10|resent, testMkdir)); answer != nil {
		t.Errorf("what was begun is answered with %x", answer)
	}
	since, mark, was := c.Begun(10 | resent)
	if !was || mark != 77 || since.Before(before.Add(-time.Second)) || since.After(time.Now()) {
		t.Errorf("what was begun: %v, mark %d, since %v", was, mark, since)
	}
	own.end()
	if answer := second.begin(&own, ask(16, testRead)); answer != nil || own.began != 0 {
		t.Errorf("a look is answered with %x, and dated %d", answer, own.began)
	}
	if _, mark, _ := c.Begun(16); mark != 0 {
		t.Error("the mark of another request is left")
	}
}

// TestLedgerGivesUp: a request of which several daemons died is answered with EIO, and a note that nobody asked for is given up.
func TestLedgerGivesUp(t *testing.T) {
	memory := make([]byte, 4*NoteSize)
	l := newLedger(memory, 1)
	n := l.add()
	if l.begin(&n, ask(10, testMkdir)) != nil {
		t.Fatal("a new request is answered")
	}
	for round := uint32(2); ; round++ {
		l = newLedger(memory, round)
		n = l.add()
		answer := l.begin(&n, ask(10|resent, testMkdir))
		if answer != nil {
			if want := errorAnswer(10|resent, fuse.EIO); !bytes.Equal(answer, want) || round != mostTries+1 {
				t.Errorf("round %d is answered with %x", round, answer)
			}
			break
		}
		if round > mostTries {
			t.Fatalf("round %d tries once more", round)
		}
	}
	for round := uint32(20); round < 22; round++ {
		l = newLedger(memory, round)
	}
	for range 4 {
		if l.add() == nil {
			t.Error("a note that nobody asks for is never free again")
		}
	}
	if l.add() != nil {
		t.Error("there are more notes than there is memory")
	}
}
