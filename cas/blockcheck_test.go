package cas

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
)

// TestFlippedBit flips a bit in each table of a store of big blobs: each is found and named at once, without pebble's search for
// the bit, which its message would tell of; and what is beside it can be read. Without damage nothing is found.
func TestFlippedBit(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cas")
	s := open(t, dir, Options{FloorBytes: -1})
	var refs []Ref
	for i := range uint64(8) {
		refs = append(refs, mustPut(t, s, random(i, 300<<10)), mustPut(t, s, random(100+i, ChunkBytes)), mustPut(t, s, random(200+i, 700)))
		if err := s.db.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.db.Compact(t.Context(), []byte{0}, []byte{0xff}, true); err != nil {
		t.Fatal(err)
	}
	if named := verify(t, s); len(named) > 0 {
		t.Fatalf("in a sound store: %v", named)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("%d tables, %v", len(tables), err)
	}
	for _, name := range tables {
		flipBit(t, name, 200<<10) // of the first, which has the record of the format in the same block, too
	}
	s = open(t, dir, Options{FloorBytes: -1})
	bad := 0
	for _, ref := range refs {
		if _, err := s.Get(ref); err != nil {
			wantNames(t, err, ErrCorrupt, ref)
			if !pebble.IsCorruptionError(err) || strings.Contains(err.Error(), "crc32c") {
				t.Errorf("pebble read it: %v", err)
			}
			bad++
		}
	}
	if bad == 0 || bad > 2*len(tables) {
		t.Errorf("%d of %d blobs cannot be read, %d tables have a flipped bit", bad, len(refs), len(tables))
	}
	if named := verify(t, s); len(named) == 0 {
		t.Error("Verify finds nothing")
	}
}

func flipBit(t *testing.T, name string, at int64) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 4
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
}
