package cas

import (
	"bytes"
	"strings"
	"testing"
)

func TestParseRef(t *testing.T) {
	good := SumBytes([]byte("x"))
	if got, err := ParseRef(good.String()); err != nil || got != good {
		t.Fatalf("ParseRef(%s) = %s, %v", good, got, err)
	}
	for name, in := range map[string]string{
		"empty":   "",
		"short":   good.String()[1:],
		"long":    good.String() + "0",
		"capital": strings.Repeat("A", 64),
		"letter":  strings.Repeat("g", 64),
		"space":   " " + good.String()[1:],
		"prefix":  "0x" + good.String()[2:],
		"unicode": strings.Repeat("é", 32),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseRef(in)
			wantKind(t, err, ErrFormat)
		})
	}
}

// The hash is part of the bytes on disk: vectors of the BLAKE3 paper's suite.
func TestRefIsBLAKE3(t *testing.T) {
	for in, want := range map[string]string{
		"":     "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
		"\x00": "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213",
	} {
		if got := SumBytes([]byte(in)).String(); got != want {
			t.Errorf("SumBytes(%q) = %s, want %s", in, got, want)
		}
	}
}

func newTestCodec(t testing.TB) *codec {
	t.Helper()
	c, err := newCodec()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

func TestChunkRecord(t *testing.T) {
	c := newTestCodec(t)
	for _, tc := range []struct {
		name    string
		content []byte
		kind    byte
		below   int // the record is smaller than that
	}{
		{"empty", nil, codecRaw, 3},
		{"one", []byte("a"), codecRaw, 4},
		{"short", text(31), codecRaw, 34},
		{"text", text(5000), codecZstd, 200},
		{"random", random(1, 5000), codecRaw, 5004},
		{"random chunk", random(2, ChunkBytes), codecRaw, ChunkBytes + 5},
		{"zero byte", []byte{0}, codecZero, 3},
		{"zeros", make([]byte, ChunkBytes), codecZero, 6},
		{"zeros but the last", append(make([]byte, ChunkBytes-1), 1), codecZstd, 500},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ref := SumBytes(tc.content)
			rec := c.encode(tc.content)
			if rec[0] != tc.kind || len(rec) >= tc.below {
				t.Errorf("codec %d, %d bytes; want codec %d, below %d", rec[0], len(rec), tc.kind, tc.below)
			}
			got, err := c.open(ref, rec)
			if err != nil || !bytes.Equal(got, tc.content) {
				t.Fatalf("open: %d bytes, %v", len(got), err)
			}
			if _, err := c.open(SumBytes([]byte("else")), rec); err == nil {
				t.Error("opened under another ref")
			}
		})
	}
}

func TestChunkRecordRefuses(t *testing.T) {
	c := newTestCodec(t)
	bomb := c.encode(text(ChunkBytes))
	for name, rec := range map[string][]byte{
		"empty":          {},
		"no size":        {codecRaw},
		"unknown codec":  {9, 1, 'a'},
		"long uvarint":   {codecRaw, 0x81, 0x00, 'a'},
		"endless size":   {codecRaw, 0xff, 0xff, 0xff},
		"too large":      {codecZero, 0x81, 0x80, 0x40},
		"short payload":  {codecRaw, 2, 'a'},
		"long payload":   {codecRaw, 1, 'a', 'b'},
		"zeros and more": {codecZero, 1, 0},
		"not a frame":    {codecZstd, 1, 1, 2, 3, 4},
		"bomb":           append([]byte{codecZstd, 5}, bomb[4:]...),
		"cut":            bomb[:len(bomb)-1],
	} {
		t.Run(name, func(t *testing.T) {
			if b, err := c.decode(rec); err == nil {
				t.Errorf("decoded to %d bytes", len(b))
			}
		})
	}
}

func TestList(t *testing.T) {
	ref, other := SumBytes([]byte("r")), SumBytes([]byte("o"))
	for name, l := range map[string]chunkList{
		"least":  {ChunkBytes + 1, []Ref{{1}, {2}}},
		"two":    {2 * ChunkBytes, []Ref{{1}, {1}}},
		"three":  {2*ChunkBytes + 1, []Ref{{1}, {2}, {3}}},
		"twenty": {20 * ChunkBytes, make([]Ref, 20)},
	} {
		t.Run(name, func(t *testing.T) {
			rec := encodeList(ref, l)
			got, err := decodeList(ref, rec)
			if err != nil || got.sizeBytes != l.sizeBytes || len(got.chunks) != len(l.chunks) {
				t.Fatalf("decodeList = %v, %v", got, err)
			}
			if last := got.chunkLen(len(l.chunks) - 1); last < 1 || last > ChunkBytes {
				t.Errorf("last chunk of %d bytes", last)
			}
			if _, err := decodeList(other, rec); err == nil {
				t.Error("decoded under another ref")
			}
			for i := range rec {
				bad := bytes.Clone(rec)
				bad[i] ^= 0x10
				if _, err := decodeList(ref, bad); err == nil {
					t.Fatalf("byte %d damaged and not noticed", i)
				}
			}
		})
	}
	for name, body := range map[string][]byte{
		"version": appendListBody(nil, chunkList{ChunkBytes + 1, []Ref{{1}, {2}}})[1:],
		"small":   appendListBody(nil, chunkList{ChunkBytes, []Ref{{1}}}),
		"few":     appendListBody(nil, chunkList{3 * ChunkBytes, []Ref{{1}, {2}}}),
		"many":    appendListBody(nil, chunkList{ChunkBytes + 1, []Ref{{1}, {2}, {3}}}),
		"huge":    {listVersion, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
		"none":    {},
	} {
		t.Run(name, func(t *testing.T) {
			if l, err := decodeListBody(body); err == nil {
				t.Errorf("decoded to %d chunks", len(l.chunks))
			}
		})
	}
}

func FuzzParseRef(f *testing.F) {
	f.Add("")
	f.Add(SumBytes(nil).String())
	f.Add(strings.Repeat("F", 64))
	f.Fuzz(func(t *testing.T, in string) {
		ref, err := ParseRef(in)
		if err == nil && ref.String() != in {
			t.Errorf("ParseRef(%q) = %s", in, ref)
		}
	})
}

func FuzzList(f *testing.F) {
	f.Add([]byte{})
	f.Add(appendListBody(nil, chunkList{ChunkBytes + 1, []Ref{{1}, {2}}}))
	f.Add([]byte{listVersion, 0x80, 0x80, 0x40})
	f.Fuzz(func(t *testing.T, body []byte) {
		l, err := decodeListBody(body)
		if err != nil {
			return
		}
		if !bytes.Equal(appendListBody(nil, l), body) {
			t.Errorf("%x decodes to %v", body, l)
		}
		ref := SumBytes(body)
		if _, err := decodeList(ref, encodeList(ref, l)); err != nil {
			t.Error(err)
		}
	})
}

func FuzzChunk(f *testing.F) {
	c, err := newCodec()
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(c.close)
	f.Add([]byte{})
	f.Add(c.encode(text(300)))
	f.Add(c.encode(random(1, 40)))
	f.Add(c.encode(make([]byte, 40)))
	f.Fuzz(func(t *testing.T, rec []byte) {
		b, err := c.decode(rec)
		if err != nil {
			return
		}
		if len(b) > ChunkBytes {
			t.Fatalf("%d bytes", len(b))
		}
		if again, err := c.decode(c.encode(b)); err != nil || !bytes.Equal(again, b) {
			t.Errorf("content of %x does not come back: %v", rec, err)
		}
	})
}
