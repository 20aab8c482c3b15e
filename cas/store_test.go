package cas

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"

	"github.com/cockroachdb/pebble/v2"
)

// contents are one of each shape.
func contents() map[string][]byte {
	hole := make([]byte, ChunkBytes)
	return map[string][]byte{
		"empty":             nil,
		"byte":              []byte("a"),
		"text":              text(10_000),
		"random":            random(1, 10_000),
		"chunk less one":    random(2, ChunkBytes-1),
		"chunk":             random(3, ChunkBytes),
		"chunk and one":     random(4, ChunkBytes+1),
		"chunk of zeros":    hole,
		"zeros":             make([]byte, 2*ChunkBytes+7),
		"two chunks":        text(2 * ChunkBytes),
		"sparse":            join(text(ChunkBytes), hole, hole, random(5, 10)),
		"the same chunk":    join(random(6, ChunkBytes), random(6, ChunkBytes)),
		"hole in the front": join(hole, random(7, 4096)),
	}
}

func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	refs := map[string]Ref{}
	for name, b := range contents() {
		ref := mustPut(t, s, b)
		if want := SumBytes(b); ref != want {
			t.Errorf("%s: ref %s, want %s", name, ref, want)
		}
		again, n, err := s.PutReader(iotest.HalfReader(bytes.NewReader(b)))
		if err != nil || again != ref || n != int64(len(b)) {
			t.Errorf("%s: PutReader = %s, %d, %v", name, again, n, err)
		}
		refs[name] = ref
	}
	check := func(t *testing.T, s *Store) {
		for name, b := range contents() {
			t.Run(name, func(t *testing.T) {
				wantGet(t, s, refs[name], b)
				if ok, err := s.Has(refs[name]); err != nil || !ok {
					t.Errorf("Has = %v, %v", ok, err)
				}
				checkBlob(t, s, refs[name], b)
			})
		}
		counts, err := s.Verify(context.Background(), func(p Problem) { t.Errorf("problem: %v", p.Err) })
		if err != nil || counts.Lists != 6 || counts.Chunks == 0 {
			t.Errorf("Verify = %+v, %v", counts, err)
		}
	}
	t.Run("open", func(t *testing.T) { check(t, s) })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	t.Run("again, read-only", func(t *testing.T) { check(t, open(t, dir, Options{ReadOnly: true})) })
}

func checkBlob(t *testing.T, s *Store, ref Ref, want []byte) {
	t.Helper()
	b, err := s.Open(ref)
	if err != nil {
		t.Fatal(err)
	}
	if b.Size() != int64(len(want)) {
		t.Fatalf("size %d, want %d", b.Size(), len(want))
	}
	got, err := io.ReadAll(io.NewSectionReader(b, 0, b.Size()))
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("read %d bytes, %v", len(got), err)
	}
	for _, r := range [][2]int{{0, 0}, {0, 1}, {ChunkBytes - 3, 7}, {ChunkBytes, 5}, {ChunkBytes / 2, 2 * ChunkBytes}, {len(want) - 1, 1}, {len(want) - 1, 2}, {len(want), 1}, {len(want) + 9, 3}} {
		off, p := max(r[0], 0), make([]byte, r[1])
		n, err := b.ReadAt(p, int64(off))
		wantN, wantErr := bytes.NewReader(want).ReadAt(p[:len(p):len(p)], int64(off))
		if len(p) == 0 { // bytes.Reader says EOF at the end, both are allowed
			wantN, wantErr = 0, nil
		}
		if n != wantN || err != wantErr {
			t.Errorf("ReadAt(%d bytes at %d) = %d, %v; want %d, %v", r[1], off, n, err, wantN, wantErr)
		}
		if n > 0 && !bytes.Equal(p[:n], want[off:off+n]) {
			t.Errorf("ReadAt(%d bytes at %d) differs", r[1], off)
		}
	}
	_, err = b.ReadAt(make([]byte, 1), -1)
	wantKind(t, err, ErrInvalid)
	if err := errors.Join(b.Close(), b.Close()); err != nil {
		t.Error(err)
	}
	if len(want) > 0 {
		_, err = b.ReadAt(make([]byte, 1), 0)
		wantKind(t, err, ErrClosed)
	}
}

func TestDuplicatesAndHolesCostLittle(t *testing.T) {
	o, _ := memory()
	s := open(t, "s", o)
	b := random(1, 3*ChunkBytes)
	mustPut(t, s, b)
	before := s.Stats()
	if before.WrittenBytes < 3*ChunkBytes {
		t.Fatalf("%+v", before)
	}
	mustPut(t, s, b)
	if after := s.Stats(); after.WrittenBytes != before.WrittenBytes || after.Duplicates != before.Duplicates+3 {
		t.Errorf("second Put wrote %d bytes, %d duplicates", after.WrittenBytes-before.WrittenBytes, after.Duplicates)
	}
	if _, n, err := s.PutReader(io.LimitReader(zeros{}, 64*ChunkBytes)); err != nil || n != 64*ChunkBytes {
		t.Fatal(n, err)
	}
	if grown := s.Stats().WrittenBytes - before.WrittenBytes; grown > 4096 {
		t.Errorf("64 MiB of zeros wrote %d bytes", grown)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestReaderThatFails(t *testing.T) {
	o, _ := memory()
	s := open(t, "s", o)
	for name, cause := range map[string]error{"own": errors.New("cable cut"), "unexpected EOF": io.ErrUnexpectedEOF} {
		for _, n := range []int{0, 5, ChunkBytes, ChunkBytes + 5} {
			_, _, err := s.PutReader(io.MultiReader(bytes.NewReader(random(9, n)), iotest.ErrReader(cause)))
			wantKind(t, err, ErrIO)
			if !errors.Is(err, cause) {
				t.Errorf("%s after %d bytes: %v has lost its cause", name, n, err)
			}
		}
	}
	_, _, err := s.PutReader(idle{})
	if wantKind(t, err, ErrIO); !errors.Is(err, io.ErrNoProgress) {
		t.Error(err)
	}
}

type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

func TestNotFound(t *testing.T) {
	o, _ := memory()
	s := open(t, "s", o)
	ref := SumBytes([]byte("nobody put this"))
	_, err := s.Get(ref)
	wantNames(t, err, ErrNotFound, ref)
	_, err = s.Open(ref)
	wantNames(t, err, ErrNotFound, ref)
	if ok, err := s.Has(ref); ok || err != nil {
		t.Errorf("Has = %v, %v", ok, err)
	}
}

func TestClosed(t *testing.T) {
	o, _ := memory()
	s := open(t, "s", o)
	ref := mustPut(t, s, random(1, ChunkBytes+1))
	b, err := s.Open(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func() error{
		"put":     func() error { _, err := s.Put([]byte("x")); return err },
		"reader":  func() error { _, _, err := s.PutReader(zeros{}); return err },
		"get":     func() error { _, err := s.Get(ref); return err },
		"open":    func() error { _, err := s.Open(ref); return err },
		"has":     func() error { _, err := s.Has(ref); return err },
		"sync":    s.Sync,
		"read":    func() error { _, err := b.ReadAt(make([]byte, 1), 0); return err },
		"collect": func() error { _, _, err := s.Collect(t.Context(), func(Ref) bool { return true }); return err },
		"verify":  func() error { _, err := s.Verify(t.Context(), func(Problem) {}); return err },
	} {
		t.Run(name, func(t *testing.T) { wantKind(t, call(), ErrClosed) })
	}
	if got := s.Stats(); got != (Stats{}) {
		t.Errorf("Stats = %+v", got)
	}
}

func TestReadOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s")
	_, err := Open(dir, Options{ReadOnly: true})
	wantKind(t, err, ErrNotFound)
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("made %s: %v", dir, err)
	}
	w := open(t, dir, Options{})
	ref := mustPut(t, w, []byte("kept"))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, Options{ReadOnly: true})
	_, err = s.Put([]byte("x"))
	wantKind(t, err, ErrReadOnly)
	_, _, err = s.PutReader(zeros{})
	wantKind(t, err, ErrReadOnly)
	wantKind(t, s.Sync(), ErrReadOnly)
	_, _, err = s.Collect(t.Context(), func(Ref) bool { return false })
	wantKind(t, err, ErrReadOnly)
	wantGet(t, s, ref, []byte("kept"))
}

func TestLocked(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "other-name")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, Options{})
	for _, name := range []string{dir, dir + "/.", link} {
		_, err := Open(name, Options{})
		wantKind(t, err, ErrLocked)
		_, err = Open(name, Options{ReadOnly: true})
		wantKind(t, err, ErrLocked)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, link, Options{})
}

func TestFormat(t *testing.T) {
	write := func(t *testing.T, dir string, o Options, k, v string) {
		t.Helper()
		db, err := pebble.Open(dir, &pebble.Options{FS: o.fs, Logger: &pebbleLog{log: slog.New(slog.DiscardHandler)}, FormatMajorVersion: pebbleFormat})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(db.Set([]byte(k), []byte(v), pebble.Sync), db.Close()); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("newer", func(t *testing.T) {
		o, _ := memory()
		if err := open(t, "s", o).Close(); err != nil {
			t.Fatal(err)
		}
		write(t, "s", o, formatKey, "ttfs cas 2")
		_, err := Open("s", o)
		wantKind(t, err, ErrFormat)
		_, err = Open("s", o) // the lock has been let go of
		wantKind(t, err, ErrFormat)
	})
	t.Run("of something else", func(t *testing.T) {
		o, _ := memory()
		write(t, "s", o, "key", "value")
		_, err := Open("s", o)
		wantKind(t, err, ErrFormat)
	})
	t.Run("newer pebble", func(t *testing.T) {
		dir := t.TempDir()
		if err := open(t, dir, Options{}).Close(); err != nil {
			t.Fatal(err)
		}
		old, err := filepath.Glob(filepath.Join(dir, "marker.format-version.*"))
		if err != nil || len(old) != 1 {
			t.Fatal(old, err)
		}
		if err := os.Rename(old[0], filepath.Join(dir, "marker.format-version.000099.999")); err != nil {
			t.Fatal(err)
		}
		_, err = Open(dir, Options{})
		wantKind(t, err, ErrFormat)
	})
	t.Run("not a directory", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Open(file, Options{})
		wantKind(t, err, ErrIO)
	})
}
