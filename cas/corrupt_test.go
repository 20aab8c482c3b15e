package cas

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2"
)

// damage changes one byte of a record behind the store's back.
func damage(t *testing.T, s *Store, prefix byte, ref Ref, at int) {
	t.Helper()
	rec, closer, err := s.db.Get(key(prefix, ref))
	if err != nil {
		t.Fatal(err)
	}
	bad := bytes.Clone(rec)
	if err := closer.Close(); err != nil {
		t.Fatal(err)
	}
	if at < 0 {
		at += len(bad)
	}
	bad[at] ^= 1
	if err := s.db.Set(key(prefix, ref), bad, pebble.Sync); err != nil {
		t.Fatal(err)
	}
}

// verify returns the refs that Verify names.
func verify(t *testing.T, s *Store) map[Ref]bool {
	t.Helper()
	named := map[Ref]bool{}
	counts, err := s.Verify(t.Context(), func(p Problem) {
		wantKind(t, p.Err, ErrCorrupt)
		named[p.Ref] = true
	})
	if err != nil {
		t.Fatal(err)
	}
	if (counts.Problems > 0) != (len(named) > 0) {
		t.Fatalf("%d problems, %d named", counts.Problems, len(named))
	}
	return named
}

func TestDamagedChunk(t *testing.T) {
	for name, content := range map[string][]byte{"raw": random(1, 3000), "zstd": text(3000), "zero": make([]byte, 3000), "one": []byte("x")} {
		ref := SumBytes(content)
		for _, at := range []int{0, 1, -1} {
			t.Run(name, func(t *testing.T) {
				o, _ := memory()
				s := open(t, "s", o)
				other := mustPut(t, s, []byte("other"))
				mustPut(t, s, content)
				damage(t, s, prefixChunk, ref, at)
				_, err := s.Get(ref)
				wantNames(t, err, ErrCorrupt, ref)
				_, err = s.Open(ref)
				wantNames(t, err, ErrCorrupt, ref)
				if named := verify(t, s); len(named) != 1 || !named[ref] {
					t.Errorf("Verify names %v", named)
				}
				wantGet(t, s, other, []byte("other"))

				mustPut(t, s, content)
				wantGet(t, s, ref, content)
				if named := verify(t, s); len(named) != 0 {
					t.Errorf("Verify names %v after it was mended", named)
				}
			})
		}
	}
}

func TestDamagedLargeBlob(t *testing.T) {
	content := join(text(ChunkBytes), random(2, 1000), text(ChunkBytes-1000), random(3, 100))
	second := SumBytes(content[ChunkBytes : 2*ChunkBytes])
	for name, tc := range map[string]struct {
		hurt  func(t *testing.T, s *Store, ref Ref)
		chunk bool // the second chunk is what is bad
	}{
		"chunk":         {func(t *testing.T, s *Store, _ Ref) { damage(t, s, prefixChunk, second, 99) }, true},
		"list header":   {func(t *testing.T, s *Store, ref Ref) { damage(t, s, prefixList, ref, 0) }, false},
		"list ref":      {func(t *testing.T, s *Store, ref Ref) { damage(t, s, prefixList, ref, 40) }, false},
		"list checksum": {func(t *testing.T, s *Store, ref Ref) { damage(t, s, prefixList, ref, -1) }, false},
		"missing chunk": {func(t *testing.T, s *Store, _ Ref) {
			if err := s.db.Delete(key(prefixChunk, second), pebble.Sync); err != nil {
				t.Fatal(err)
			}
		}, true},
		"list of other content": {func(t *testing.T, s *Store, ref Ref) {
			l := chunkList{2*ChunkBytes + 100, []Ref{second, second, SumBytes(content[2*ChunkBytes:])}}
			if err := s.db.Set(key(prefixList, ref), encodeList(ref, l), pebble.Sync); err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := memory()
			s := open(t, "s", o)
			ref := mustPut(t, s, content)
			tc.hurt(t, s, ref)
			_, err := s.Get(ref)
			wantNames(t, err, ErrCorrupt, ref)
			if named := verify(t, s); !named[ref] {
				t.Errorf("Verify names %v", named)
			}
			if tc.chunk {
				b, err := s.Open(ref)
				if err != nil {
					t.Fatal(err)
				}
				p := make([]byte, 3*ChunkBytes)
				n, err := b.ReadAt(p, 0)
				wantNames(t, err, ErrCorrupt, ref)
				if n != ChunkBytes || !bytes.Equal(p[:n], content[:n]) {
					t.Errorf("%d bytes before the damage", n)
				}
				n, err = b.ReadAt(p[:100], 2*ChunkBytes)
				if n != 100 || err != nil {
					t.Errorf("behind the damage: %d, %v", n, err)
				}
			}
			mustPut(t, s, content)
			wantGet(t, s, ref, content)
			if named := verify(t, s); len(named) != 0 {
				t.Errorf("Verify names %v after it was mended", named)
			}
		})
	}
}

// Collect cannot tell the chunks of a damaged live list, and removes none.
func TestCollectStopsAtDamagedLiveList(t *testing.T) {
	o, _ := memory()
	s := open(t, "s", o)
	content := random(1, 2*ChunkBytes)
	ref, dead := mustPut(t, s, content), mustPut(t, s, []byte("dead"))
	damage(t, s, prefixList, ref, 40)
	_, _, err := s.Collect(t.Context(), func(r Ref) bool { return r == ref })
	wantNames(t, err, ErrCorrupt, ref)
	if ok, err := s.Has(dead); !ok || err != nil {
		t.Errorf("Has = %v, %v", ok, err)
	}
	if n, _, err := s.Collect(t.Context(), func(r Ref) bool { return false }); n != 4 || err != nil {
		t.Errorf("Collect of all = %d, %v", n, err)
	}
}

// One byte anywhere in the files of a store: every read is right or fails with
// ErrCorrupt, and Verify finds out.
func TestDamagedFiles(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	blobs := map[Ref][]byte{}
	for i := range 80 {
		b := random(uint64(i), 500+i)
		blobs[mustPut(t, s, b)] = b
	}
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	for _, table := range tables {
		good, err := os.ReadFile(table)
		if err != nil {
			t.Fatal(err)
		}
		for at := len(good) / 20; at < len(good); at += len(good) / 10 {
			bad := bytes.Clone(good)
			bad[at] ^= 0x40
			if err := os.WriteFile(table, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			checkDamaged(t, dir, blobs)
		}
		if err := os.WriteFile(table, good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s = open(t, dir, Options{})
	if named := verify(t, s); len(named) != 0 {
		t.Errorf("Verify names %v", named)
	}
}

func checkDamaged(t *testing.T, dir string, blobs map[Ref][]byte) {
	t.Helper()
	s, err := Open(dir, Options{ReadOnly: true})
	if err != nil {
		wantKind(t, err, ErrCorrupt)
		return
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	bad := 0
	for ref, want := range blobs {
		got, err := s.Get(ref)
		switch {
		case err == nil && bytes.Equal(got, want):
		case errors.Is(err, ErrCorrupt):
			wantNames(t, err, ErrCorrupt, ref)
			bad++
		default:
			t.Fatalf("Get(%s): %d bytes, %v", ref, len(got), err)
		}
	}
	if named := verify(t, s); len(named) == 0 && bad > 0 {
		t.Errorf("Verify finds nothing, %d blobs are bad", bad)
	}
}
