package cas

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"testing"
)

// packs starts ServePacks at the other end of two pipes; end waits for its end.
func packs(t *testing.T) (p Packer, in *io.PipeWriter, end func() error) {
	t.Helper()
	childIn, in := io.Pipe()
	out, childOut := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := ServePacks(childIn, childOut)
		ended <- errors.Join(err, childOut.CloseWithError(io.EOF))
	}()
	end = func() error {
		if err := in.Close(); err != nil {
			return err
		}
		return <-ended
	}
	return NewPacker(in, out), in, end
}

// TestPacker: what another process packs is what the store itself would have kept, byte by byte.
func TestPacker(t *testing.T) {
	t.Parallel()
	c, err := newCodec()
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	p, _, end := packs(t)
	contents := [][]byte{{}, []byte("a"), random(1, 100), random(2, ChunkBytes), make([]byte, ChunkBytes), make([]byte, 777), bytes.Repeat([]byte("text "), 100_000)}
	for _, b := range contents {
		wantRef, wantRec := c.pack(b)
		ref, rec, err := p.Pack(b)
		if err != nil || ref != wantRef || !bytes.Equal(rec, wantRec) {
			t.Fatalf("%d bytes: %s, %d bytes of record, %v; want %s, %d", len(b), ref, len(rec), err, wantRef, len(wantRec))
		}
	}
	o, _ := memory()
	s := open(t, "s", o)
	h := s.Hold(p)
	for _, b := range append(contents, random(3, 2*ChunkBytes+5)) {
		ref, n, err := h.PutReader(bytes.NewReader(b))
		if err != nil || n != int64(len(b)) || ref != SumBytes(b) {
			t.Fatalf("%d bytes: %s, %d, %v", len(b), ref, n, err)
		}
		got, err := s.Get(ref)
		if err != nil || !bytes.Equal(got, b) {
			t.Fatalf("%d bytes come back as %d, %v", len(b), len(got), err)
		}
	}
	h.Release()
	if err := end(); err != nil {
		t.Fatal(err)
	}
	_, _, err = s.Hold(p).PutReader(bytes.NewReader([]byte("after its end")))
	wantKind(t, err, ErrIO)
}

// TestPackerAnswers: an answer that is none is an error, and nothing is kept of it.
func TestPackerAnswers(t *testing.T) {
	t.Parallel()
	ref := make([]byte, 32)
	for name, answer := range map[string][]byte{
		"nothing":             {},
		"half a ref":          ref[:10],
		"no record":           ref,
		"half a record":       slices.Concat(ref, []byte{9, 0, 0, 0, 1, 2}),
		"too much":            slices.Concat(ref, []byte{0xff, 0xff, 0xff, 0xff}),
		"no record at all":    slices.Concat(ref, []byte{0, 0, 0, 0}),
		"of another size":     slices.Concat(ref, []byte{5, 0, 0, 0, codecRaw, 3, 'a', 'b', 'c'}),
		"a size that is none": slices.Concat(ref, []byte{3, 0, 0, 0, codecRaw, 0x84, 0}),
	} {
		o, _ := memory()
		s := open(t, "s", o)
		if _, _, err := s.Hold(NewPacker(io.Discard, bytes.NewReader(answer))).PutReader(bytes.NewReader([]byte("four"))); err == nil {
			t.Errorf("%s: is taken for an answer", name)
		}
		if w := s.Stats().WrittenBytes; w != 0 {
			t.Errorf("%s: %d bytes are kept", name, w)
		}
	}
	// What is asked of it is not trusted either.
	if err := ServePacks(bytes.NewReader([]byte{0xff, 0xff, 0xff, 0xff}), io.Discard); err == nil {
		t.Error("a chunk of 4 GiB is taken")
	}
	if err := ServePacks(bytes.NewReader([]byte{4, 0, 0, 0, 'a'}), io.Discard); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("half a chunk: %v", err)
	}
}

// TestHold: what is put under a hold is not collected until it is released, though nothing names it.
func TestHold(t *testing.T) {
	t.Parallel()
	o, _ := memory()
	s := open(t, "s", o)
	h := s.Hold(nil)
	var refs []Ref
	for i := range 3 {
		ref, _, err := h.PutReader(bytes.NewReader(random(uint64(i), ChunkBytes+i)))
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, ref)
	}
	collect := func() (n int) {
		t.Helper()
		n, _, err := s.Collect(context.Background(), func(Ref) bool { return false })
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := collect(); n != 0 {
		t.Errorf("%d are collected while they are held", n)
	}
	for _, ref := range refs {
		if _, err := s.Get(ref); err != nil {
			t.Error(err)
		}
	}
	h.Release()
	if n := collect(); n < len(refs) {
		t.Errorf("%d of at least %d are collected afterwards", n, len(refs))
	}
}
