package overlay

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestMergeOfMuch: what a merge brings need not fit into its record: past a bound the bytes are blobs, and come and go as the
// others do.
func TestMergeOfMuch(t *testing.T) {
	const files, size = 400, 100 << 10
	s := newStand(t, 1)
	s.begin("before the fork")
	s.must(s.create("f", "f", 0o600))
	s.begin("the fork's")
	f := s.fork("one")
	rng := rand.NewChaCha8([32]byte{1}) // so that nothing is saved by compressing
	content := make([]byte, size)
	for i := range files {
		rng.Read(content)
		f.must(f.create(fmt.Sprint("n", i), string(content), 0o600))
	}
	s.merged(MergeOptions{}) // of what is new the fork remembers the bytes, and no more
	want := f.seen()
	s.same(s.seen(), want, "the parent after a merge of new files")
	for i := range files {
		rng.Read(content)
		f.must(f.rewrite(fmt.Sprint("n", i), string(content)))
	}
	before := s.tree()
	s.merged(MergeOptions{})
	var inline int
	s.must(f.e.j.Scan(key(kPiece, uint64(mergedRun)), func(_, v []byte) error { inline += len(v); return nil }))
	if inline < mergeInline/2 || inline > mergeInline+mergeInline/16 {
		t.Errorf("of %d bytes a merge's record has %d", files*size, inline)
	}
	want = f.seen()
	s.same(s.seen(), want, "the parent after a merge of changes")
	s.undo()
	s.names = map[dentry]NodeID{}
	s.same(s.tree(), before, "undone")
	s.redo()
	s.names = map[dentry]NodeID{}
	s.same(s.seen(), want, "redone")
	if again := s.merged(MergeOptions{}); again.To != again.From {
		t.Errorf("another merge changes %v", again.Paths)
	}
	s.verify()
}
