package cas

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestRepair flips a bit in every file of a store: what can be read is kept, what cannot is told of, and then nothing is
// damaged.
func TestRepair(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cas")
	o := Options{FloorBytes: -1}
	s := open(t, dir, o)
	blobs := map[Ref][]byte{}
	for i := range 8 {
		b := random(uint64(i), 40_000*(1+i%2))
		if i == 3 {
			b = random(uint64(i), ChunkBytes+5)
		}
		blobs[mustPut(t, s, b)] = b
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	points, lost := 0, 0
	for _, f := range files {
		st, err := os.Stat(f)
		if err != nil || st.Size() == 0 {
			continue
		}
		for _, at := range []int64{st.Size() / 2, st.Size() - 1} {
			to := filepath.Join(t.TempDir(), "cas")
			if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			name := filepath.Join(to, filepath.Base(f))
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			b[at] ^= 0x10
			if err := os.WriteFile(name, b, 0o600); err != nil {
				t.Fatal(err)
			}
			points++
			lost += repairedBlobs(t, fmt.Sprintf("%s at %d", filepath.Base(f), at), to, blobs, isWAL(name))
		}
	}
	t.Logf("points: %d, blobs lost: %d", points, lost)
	if points < 6 || lost == 0 {
		t.Errorf("%d points lose %d blobs", points, lost)
	}
}

func repairedBlobs(t *testing.T, what, dir string, blobs map[Ref][]byte, wal bool) (lost int) {
	t.Helper()
	told := 0
	o := Options{FloorBytes: -1}
	s, err := Repair(t.Context(), dir, o, func(Problem) { told++ })
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return 0
	}
	for ref, want := range blobs {
		if got, err := s.Get(ref); err != nil {
			lost++
		} else if !bytes.Equal(got, want) {
			t.Errorf("%s: a blob is not what it was", what)
		}
	}
	if lost > 0 && told == 0 && !wal { // what is behind damage in a log looks to pebble as if it had never been written
		t.Errorf("%s: %d blobs are gone and nobody said so", what, lost)
	}
	if named := verify(t, s); len(named) != 0 {
		t.Errorf("%s: damage is left: %v", what, named)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	again := 0
	if s, err = Repair(t.Context(), dir, o, func(Problem) { again++ }); err != nil || again != 0 {
		t.Errorf("%s: a second repair finds %d, %v", what, again, err)
		return lost
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return lost
}
