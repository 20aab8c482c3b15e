package cas

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"os"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/zeebo/blake3"
)

// TestMain fixes what rapid draws, unless the command line asks otherwise.
func TestMain(m *testing.M) {
	flag.Parse()
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range map[string]string{"rapid.seed": "20260101", "rapid.checks": "10", "rapid.steps": "15", "rapid.nofailfile": "true"} {
		if !given[name] {
			if err := flag.Set(name, value); err != nil {
				panic(err)
			}
		}
	}
	os.Exit(m.Run())
}

const plenty = int64(1) << 40

func freeAlways(n int64) func(string) (int64, error) {
	return func(string) (int64, error) { return n, nil }
}

// open opens a store that is closed at the end of the test.
func open(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// memory returns options for a store in memory that can crash.
func memory() (Options, *vfs.MemFS) {
	disk := vfs.NewCrashableMem()
	return Options{fs: disk, freeBytes: freeAlways(plenty)}, disk
}

// random returns n bytes that do not compress, the same for the same seed.
func random(seed uint64, n int) []byte {
	h := blake3.New()
	_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, seed))
	b := make([]byte, n)
	_, _ = h.Digest().Read(b)
	return b
}

func text(n int) []byte {
	return bytes.Repeat([]byte("all work and no play\n"), n/21+1)[:n]
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func mustPut(t testing.TB, s *Store, b []byte) Ref {
	t.Helper()
	ref, err := s.Put(b)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func wantGet(t testing.TB, s *Store, ref Ref, want []byte) {
	t.Helper()
	got, err := s.Get(ref)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("Get(%s) differs: %d bytes, want %d", ref, len(got), len(want))
	}
}

func wantKind(t testing.TB, err error, kind Kind) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("error %v, want %v", err, kind)
	}
	if _, ok := errors.AsType[*Error](err); !ok {
		t.Fatalf("error %v is not an *Error", err)
	}
}

// wantNames checks that err is of the kind and names ref.
func wantNames(t testing.TB, err error, kind Kind, ref Ref) {
	t.Helper()
	wantKind(t, err, kind)
	if e, _ := errors.AsType[*Error](err); e.Ref != ref {
		t.Fatalf("error %v names %s, want %s", err, e.Ref, ref)
	}
}
