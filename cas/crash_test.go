package cas

import (
	"os"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The files of an open store, copied after a Sync, are what a killed process
// leaves.
func TestKilledAfterSync(t *testing.T) {
	dir, copied := t.TempDir(), t.TempDir()
	s := open(t, dir, Options{})
	blobs := map[Ref][]byte{}
	for i := range 20 {
		b := random(uint64(i), 1000*i)
		blobs[mustPut(t, s, b)] = b
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	after := open(t, copied, Options{})
	for ref, b := range blobs {
		wantGet(t, after, ref, b)
	}
	if named := verify(t, after); len(named) != 0 {
		t.Errorf("Verify names %v", named)
	}
}

// Sync covers puts whose WAL has been ended since, and large blobs.
func TestCrashAfterSync(t *testing.T) {
	o, disk := memory()
	s := open(t, "s", o)
	blobs := map[Ref][]byte{}
	put := func(seed uint64, n int) {
		b := random(seed, n)
		blobs[mustPut(t, s, b)] = b
	}
	for i := range 6 {
		put(uint64(i), ChunkBytes/3) // more than the first WALs hold
	}
	put(100, ChunkBytes+3)
	put(101, 10)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	lost := mustPut(t, s, []byte("not synced"))
	o.fs = disk.CrashClone(vfs.CrashCloneCfg{})
	after := open(t, "s", o)
	for ref, b := range blobs {
		wantGet(t, after, ref, b)
	}
	// Were it there, Sync would not have been what kept the others.
	if ok, err := after.Has(lost); ok || err != nil {
		t.Errorf("not synced: %v, %v", ok, err)
	}
}
