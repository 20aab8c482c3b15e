package transport

import (
	"encoding/binary"
	"testing"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// FuzzRing: whatever lengths an entry of a ring says, what is decoded of it lies within it, and the answer has the request's numbers.
func FuzzRing(f *testing.F) {
	page := make([]byte, ringHeader)
	binary.NativeEndian.PutUint32(page, inHeaderSize+8+4)
	binary.NativeEndian.PutUint64(page[8:], 7)
	binary.NativeEndian.PutUint32(page[entPayloadAt:], 4)
	f.Add(page, []byte("name"))
	f.Add(make([]byte, ringHeader), []byte{})
	f.Fuzz(func(t *testing.T, b, payload []byte) {
		page := make([]byte, ringHeader)
		copy(page, b)
		var r ringRequest
		err := r.decode(page, payload)
		if len(r.in[0]) != inHeaderSize || len(r.in[1]) > opInSize || len(r.in[2]) > len(payload) {
			t.Fatalf("%d, %d and %d bytes of %x", len(r.in[0]), len(r.in[1]), len(r.in[2]), page)
		}
		if total := len(r.in[0]) + len(r.in[1]) + len(r.in[2]); err == nil && total != int(inHeader(page).Length) {
			t.Fatalf("%d bytes are decoded of %d", total, inHeader(page).Length)
		}
		interrupted(append(append([]byte(nil), r.in[0]...), r.in[1]...))
		r.answer(page, len(payload), fuse.EIO)
		if binary.NativeEndian.Uint64(page[8:]) != r.unique {
			t.Fatal("the answer has another number")
		}
	})
}

// FuzzLedger: whatever the notes hold that a daemon left, a request that comes again is answered as it was, refused, or done again, and the
// ledger goes on.
func FuzzLedger(f *testing.F) {
	word := make([]uint64, 4*NoteSize/8) // aligned
	bytes := func() []byte { return unsafe.Slice((*byte)(unsafe.Pointer(&word[0])), 8*len(word)) }
	n := (*note)(unsafe.Pointer(&word[0]))
	n.unique.Store(8)
	n.round = 1
	n.done(errorAnswer(8, fuse.ENOENT))
	f.Add(append([]byte(nil), bytes()...), uint32(2), uint64(8))
	f.Add([]byte{8, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0}, uint32(1), uint64(8))
	f.Fuzz(func(t *testing.T, left []byte, round uint32, unique uint64) {
		clear(word)
		copy(bytes(), left)
		l := newLedger(bytes(), round)
		for _, h := range []fuse.InHeader{{Unique: unique | resent, Opcode: 9}, {Unique: unique&^resent + 2, Opcode: 1}} {
			own := l.add()
			answer := l.begin(&own, &h)
			if answer != nil && (len(answer) < outHeaderSize || len(answer) > noteAnswer || binary.NativeEndian.Uint64(answer[8:]) != h.Unique) {
				t.Fatalf("%x is answered with %x", h.Unique, answer)
			}
			own.done(errorAnswer(h.Unique, fuse.OK))
			own.end()
		}
	})
}
