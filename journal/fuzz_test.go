package journal

import (
	"bytes"
	"maps"
	"os"
	"testing"
)

// FuzzStored: a value of the index, its meta record and the header of a segment may be anything; what is understood is what
// was written.
func FuzzStored(f *testing.F) {
	f.Add(pointer{1, 2, 3, 4}.encode(nil))
	m := meta{salt: 5, done: position{1, 2, 3}, live: map[uint32]int64{7: 8}}
	f.Add(m.encode())
	f.Add(header{version: formatVersion, num: 1, firstLSN: 2, salt: 3}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, ok := decodePointer(b); ok && !bytes.Equal(p.encode(nil), b) {
			t.Fatalf("%x is the pointer %+v", b, p)
		}
		if m, err := decodeMeta(b); err == nil {
			w, err := decodeMeta(m.encode())
			if err != nil || w.salt != m.salt || w.done != m.done || !maps.Equal(w.live, m.live) {
				t.Fatalf("%x is %+v, then %+v, %v", b, m, w, err)
			}
		}
		if len(b) >= headerBytes {
			if h, ok := decodeHeader(b[:headerBytes]); ok && h.version == formatVersion && !bytes.Equal(h.encode()[:32], b[:32]) {
				t.Fatalf("%x is %+v", b, h)
			}
		}
	})
}

// FuzzDamage: bytes of a segment that are turned, or cut off, are told or not read; no value is ever another than one that
// was committed.
func FuzzDamage(f *testing.F) {
	f.Add(uint32(50), byte(1), uint32(0))
	f.Add(uint32(700), byte(0x80), uint32(9))
	f.Add(uint32(3), byte(0xff), uint32(0))
	f.Fuzz(func(t *testing.T, at uint32, turn byte, cut uint32) {
		dir := t.TempDir()
		o := testOptions(t)
		j := mustOpen(t, dir, o)
		want := map[string][]string{}
		for _, kv := range [][2]string{{"a", "1"}, {"b", big("x", 600)}, {"a", "2"}, {"c", ""}, {"b", big("y", 700)}} {
			var b Batch
			b.Put([]byte(kv[0]), []byte(kv[1]))
			if err := j.Commit(&b); err != nil {
				t.Fatal(err)
			}
			want[kv[0]] = append(want[kv[0]], kv[1])
		}
		mustClose(t, j)
		path := segPath(dir, 1)
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		raw[int(at)%len(raw)] ^= turn
		raw = raw[:len(raw)-int(cut)%len(raw)]
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		j, err = Open(dir, o)
		if err != nil {
			return // refused, with a reason
		}
		defer j.Close()
		for k, values := range want {
			v, found, err := j.Get([]byte(k))
			if err != nil || !found {
				continue
			}
			known := false
			for _, w := range values {
				known = known || w == string(v)
			}
			if !known {
				t.Fatalf("%s is %.20q", k, v)
			}
		}
		if _, err := j.Verify(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	})
}
