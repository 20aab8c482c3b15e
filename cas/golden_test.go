package cas

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"testing"
)

// The examples are records of each version of the store (formatValue) and of lists, from 1 on: every later program reads them. A new
// version comes with its own.
var (
	chunkExamples = []map[string]string{{
		"raw":  "000474657874",
		"zstd": "01ac0228b52ffd40002c0075000030616761696e20015406032c2309",
		"zero": "028827",
	}}
	listExamples = []string{
		"018580800117762fddd969a453925d65717ac3eea21320b66b54342fde15128d6caf21215f10e5cf3d3c8a4f9f3468c8cc58eea84892a22fdadbc1acb22410190044c1d553ea7aa1fc9efdbe106dbb70369a75e9671fa29d52bd55536711bf197477b8f021e05cac5c9ee3505787826aa5eac88bf455d867a88fb49c5dec1bcc5caf7b94b0",
	}
)

// exampleContents are what the chunks hold.
var exampleContents = map[string][]byte{"raw": []byte("text"), "zstd": bytes.Repeat([]byte("again "), 50), "zero": make([]byte, 5000)}

// TestGolden: what earlier programs wrote is read.
func TestGolden(t *testing.T) {
	if last := fmt.Sprintf("ttfs cas %d", len(chunkExamples)); formatValue != last {
		t.Fatalf("the last example is of %q, and it is %q: add one", last, formatValue)
	}
	if len(listExamples) != listVersion {
		t.Fatalf("there are examples of %d versions of lists, and it is version %d: add one", len(listExamples), listVersion)
	}
	c := newTestCodec(t)
	for i, kinds := range chunkExamples {
		for kind, content := range exampleContents {
			if b, err := hex.DecodeString(kinds[kind]); err != nil {
				t.Fatal(err)
			} else if got, err := c.decode(b); err != nil || !bytes.Equal(got, content) {
				t.Errorf("version %d, %s: %q, %v; now it is %x", i+1, kind, got, err, c.encode(content))
			}
		}
	}
	ref := SumBytes([]byte("of three chunks"))
	want := chunkList{sizeBytes: 2*ChunkBytes + 5, chunks: []Ref{SumBytes([]byte("a")), SumBytes([]byte("b")), SumBytes([]byte("c"))}}
	for i, text := range listExamples {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if i == len(listExamples)-1 && !bytes.Equal(encodeList(ref, want), b) {
			t.Errorf("lists have changed without a new version: %x", encodeList(ref, want))
		}
		if got, err := decodeList(ref, b); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("version %d of lists: %+v, %v", i+1, got, err)
		}
	}
}
