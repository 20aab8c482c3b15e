package overlay

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

// noise is bytes that nothing compresses.
func noise(n int) []byte {
	b := make([]byte, n)
	rng := rand.New(rand.NewPCG(uint64(n), 1))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// TestPack: bytes in a record come back as they were, and take no more than they are; text takes less.
func TestPack(t *testing.T) {
	t.Parallel()
	text := []byte(strings.Repeat("func (e *Engine) capture(fd int, gaps []span) error {\n", 3000))
	for _, c := range []struct {
		name   string
		data   []byte
		packed bool
	}{
		{"nothing", nil, false},
		{"a word", []byte("word"), false},
		{"less than is tried", text[:packMin-1], false},
		{"a page of text", text[:4096], true},
		{"all that goes into a record", text[:smallBytes], true},
		{"more than goes into a record", text[:smallBytes+1], false},
		{"zeros", make([]byte, 16<<10), true},
		{"noise", noise(16 << 10), false},
		{"noise with a little text", append(noise(16<<10), text[:1000]...), false},
		{"noise and text", append(noise(4<<10), text[:4<<10]...), true},
	} {
		data := bytes.Clone(c.data)
		p := keepData(7, data)
		clear(data) // it is the caller's again
		if got := p.kind == piecePacked; got != c.packed {
			t.Errorf("%s: packed is %v, should be %v", c.name, got, c.packed)
		}
		if len(p.data) > len(c.data) {
			t.Errorf("%s: %d bytes take %d", c.name, len(c.data), len(p.data))
		}
		again, err := decodePiece(7, p.encode())
		if err != nil || again.size != int64(len(c.data)) || again.kind != p.kind {
			t.Errorf("%s: it is read as %d bytes of kind %d: %v", c.name, again.size, again.kind, err)
			continue
		}
		b, err := again.unpack()
		if err != nil || !bytes.Equal(b, c.data) {
			t.Errorf("%s: it comes back as %d other bytes: %v", c.name, len(b), err)
		}
	}
}

// TestPackDamaged: a packed piece that is not what it says is refused when it is read, before anything is allocated for it,
// or Damaged when it is opened.
func TestPackDamaged(t *testing.T) {
	t.Parallel()
	good := keepData(0, make([]byte, 4096))
	for _, size := range []int64{0, 4095, 4097, 1 << 40, -1} {
		p := good
		p.size = size
		if _, err := decodePiece(0, p.encode()); err == nil {
			t.Errorf("4096 bytes are read where %d are told", size)
		}
	}
	p := keepData(0, make([]byte, 4096))
	p.data = p.data[:len(p.data)-1]
	if _, err := p.unpack(); !errors.Is(err, Damaged) {
		t.Errorf("a piece that was cut gives %v", err)
	}
}
