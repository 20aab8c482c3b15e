package cas

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"
)

// FuzzPacks: whatever one side of the packing process says, the other ends with an error or has records of what was asked for.
func FuzzPacks(f *testing.F) {
	var asked, answered bytes.Buffer
	asked.Write(append(binary.LittleEndian.AppendUint32(nil, 4), "text"...))
	if err := ServePacks(bytes.NewReader(asked.Bytes()), &answered); err != nil {
		f.Fatal(err)
	}
	f.Add(asked.Bytes(), []byte("text"))
	f.Add(answered.Bytes(), []byte("text"))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff}, []byte{})
	f.Fuzz(func(t *testing.T, said, content []byte) {
		if len(content) > ChunkBytes {
			return
		}
		if err := ServePacks(bytes.NewReader(said), io.Discard); err == nil && len(said) > 0 && len(said) < 4 {
			t.Fatalf("%x is a whole conversation", said)
		}
		p := NewPacker(io.Discard, bytes.NewReader(said))
		if _, rec, err := p.Pack(content); err == nil {
			if _, size, _, err := splitChunk(rec); err != nil || size != len(content) {
				t.Fatalf("a record of %d bytes for %d, %v", size, len(content), err)
			}
		}
	})
}
