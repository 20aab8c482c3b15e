package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLock: one writer, or many readers.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir, testOptions(t))
	ro := testOptions(t)
	ro.ReadOnly = true
	for _, o := range []Options{testOptions(t), ro} {
		if _, err := Open(dir, o); !errors.Is(err, ErrLocked) {
			t.Fatal(err)
		}
	}
	mustClose(t, j)
	a, b := mustOpen(t, dir, ro), mustOpen(t, dir, ro)
	if _, err := Open(dir, testOptions(t)); !errors.Is(err, ErrLocked) {
		t.Fatal(err)
	}
	mustClose(t, a)
	mustClose(t, b)
	mustOpen(t, dir, testOptions(t))
}

// snapshot is every file below dir with its bytes and time.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %v %v\n", path, info.ModTime(), info.Mode())
		if d.IsDir() {
			return nil
		}
		raw, err := os.ReadFile(path)
		fmt.Fprintf(&b, "%x\n", crc32.ChecksumIEEE(raw))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestReadOnly opens a crashed journal, with a torn tail and with damage: all is seen, nothing is written.
func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir, testOptions(t))
	commit(t, j, "a", "1", "big", big("b", 900))
	if err := j.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	commit(t, j, "b", "2")
	at := j.tail.end.Load()
	commit(t, j, "lost", "3")
	commit(t, j, "c", "4")
	abandon(t, j)
	flip(t, lastSegment(t, dir), at+recordHead)
	appendTo(t, lastSegment(t, dir), []byte("torn"))
	before := snapshot(t, dir)
	o := testOptions(t)
	o.ReadOnly = true
	j = mustOpen(t, dir, o)
	wantContents(t, j, map[string]string{"a": "1", "big": big("b", 900), "b": "2", "c": "4"})
	if len(j.Problems()) != 1 {
		t.Fatal(j.Problems())
	}
	if err := j.Commit(batchOf("x", "y")); !errors.Is(err, ErrReadOnly) {
		t.Fatal(err)
	}
	if err := j.Checkpoint(); !errors.Is(err, ErrReadOnly) {
		t.Fatal(err)
	}
	if st := j.Stats(); st.Records != 4 || st.Segments != 1 {
		t.Fatalf("%+v", st)
	}
	if n, err := j.Verify(t.Context(), nil); err != nil || n.Problems == 0 {
		t.Fatal(n, err)
	}
	mustClose(t, j)
	if after := snapshot(t, dir); after != before {
		t.Fatalf("something was written:\n%s\n%s", before, after)
	}
	empty := t.TempDir()
	wantContents(t, mustOpen(t, empty, o), map[string]string{})
	if list, err := os.ReadDir(empty); err != nil || len(list) > 0 {
		t.Fatal(list, err)
	}
	if _, err := Open(filepath.Join(empty, "none"), o); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
}

// TestUnknownVersion: a segment or an index of another version is refused, and untouched.
func TestUnknownVersion(t *testing.T) {
	dir := t.TempDir()
	mustClose(t, mustOpen(t, dir, testOptions(t)))
	seg := lastSegment(t, dir)
	raw, err := os.ReadFile(seg)
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint32(raw[8:], formatVersion+1)
	binary.LittleEndian.PutUint32(raw[36:], crc32.Checksum(raw[:36], castagnoli))
	if err := os.WriteFile(seg, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, testOptions(t)); !errors.Is(err, ErrFormat) {
		t.Fatal(err)
	}
	if now, err := os.ReadFile(seg); err != nil || !bytes.Equal(now, raw) {
		t.Fatal("the segment was changed: ", err)
	}
	m := meta{salt: 1}.encode()
	if _, err := decodeMeta(m); err != nil {
		t.Fatal(err)
	}
	m[0]++
	if _, err := decodeMeta(m); !errors.Is(err, ErrFormat) {
		t.Fatal(err)
	}
}

// TestBlankTail: a power cut at the birth of a segment leaves it without a header; it is taken away and its number used again.
func TestBlankTail(t *testing.T) {
	for _, n := range []int{0, 1, headerBytes - 1, headerBytes, 5000} {
		dir := t.TempDir()
		j := mustOpen(t, dir, testOptions(t))
		commit(t, j, "a", "1")
		abandon(t, j)
		if err := os.WriteFile(segPath(dir, 2), make([]byte, n), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(segPath(dir, 3)+newSuffix, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		j = mustOpen(t, dir, testOptions(t))
		if p := j.Problems(); len(p) > 0 {
			t.Fatal(p)
		}
		commit(t, j, "b", "2")
		abandon(t, j)
		if list := segmentFiles(t, dir); len(list) > 2 {
			t.Fatal(list)
		}
		if _, err := os.Stat(segPath(dir, 3) + newSuffix); !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		j = mustOpen(t, dir, testOptions(t))
		wantContents(t, j, map[string]string{"a": "1", "b": "2"})
		wantSound(t, j)
	}
}

// TestIndexLost: without its index a journal is rebuilt from its segments, if they are all there, else refused.
func TestIndexLost(t *testing.T) {
	dir := t.TempDir()
	o := testOptions(t)
	o.SegmentBytes = 1000
	j := mustOpen(t, dir, o)
	commit(t, j, "a", "1", "b", big("b", 900))
	commit(t, j, "c", big("c", 900))
	mustClose(t, j)
	if err := os.RemoveAll(filepath.Join(dir, "index")); err != nil {
		t.Fatal(err)
	}
	j = mustOpen(t, dir, o)
	wantContents(t, j, map[string]string{"a": "1", "b": big("b", 900), "c": big("c", 900)})
	commit(t, j, "b", "2")
	mustClose(t, j)
	if _, err := os.Stat(segPath(dir, 1)); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal("the dead segment is there: ", err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "index")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, o); !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
}

// TestDeadSegments: a segment goes when nothing in it is live, not before, and what a view holds stays readable.
func TestDeadSegments(t *testing.T) {
	o := testOptions(t)
	o.SegmentBytes = 1000
	dir := t.TempDir()
	j := mustOpen(t, dir, o)
	checkpoint := func() {
		t.Helper()
		if err := j.Checkpoint(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		commit(t, j, fmt.Sprint("p", i), big(fmt.Sprint(i), 900))
	}
	checkpoint()
	if st := j.Stats(); st.Segments != 5 || st.LiveBytes != 4500 {
		t.Fatalf("%+v", st)
	}
	err := j.Scan([]byte("p"), func(k, v []byte) error {
		if string(k) == "p0" {
			commitOther(t, j)
		}
		if want := big(string(k[1:]), 900); string(v) != want {
			return fmt.Errorf("%s: %.5q", k, v)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if st := j.Stats(); st.Segments != 1 || st.LiveBytes != 0 {
		t.Fatalf("%+v", st)
	}
	if list := segmentFiles(t, dir); len(list) != 1 {
		t.Fatal(list)
	}
	wantContents(t, j, map[string]string{"q": "1"})
	wantSound(t, j)
}

// commitOther deletes everything, from another goroutine, and writes a checkpoint.
func commitOther(t *testing.T, j *Journal) {
	done := make(chan error)
	go func() {
		err := j.Commit(batchOf("p", "*", "q", "1"))
		done <- errors.Join(err, j.Checkpoint())
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

var update = flag.Bool("update", false, "write the newest testdata/vN anew")

func goldenContents() map[string]string {
	want := map[string]string{"": "the empty key", "empty": "", "big/1": big("one", 700), "replayed": "yes", "replayed/big": big("r", 513)}
	for i := range 20 {
		want[fmt.Sprintf("key/%02d", i)] = fmt.Sprint("value ", i)
	}
	return want
}

// TestGolden reads a journal of each version of the format, and goes on writing in a copy of it. A new version comes with its own.
func TestGolden(t *testing.T) {
	for v := 1; v <= formatVersion; v++ {
		golden := filepath.Join("testdata", fmt.Sprintf("v%d", v))
		if *update && v == formatVersion {
			writeGolden(t, golden)
		}
		dir := filepath.Join(t.TempDir(), "j")
		if err := os.CopyFS(dir, os.DirFS(golden)); err != nil {
			t.Fatal(err)
		}
		if h, ok := headerOf(filepath.Join(dir, "00000001.seg")); !ok || h.version != uint32(v) {
			t.Fatalf("%s is of version %d, %t", golden, h.version, ok)
		}
		for _, readOnly := range []bool{true, false, false} {
			o := testOptions(t)
			o.ReadOnly = readOnly
			j := mustOpen(t, dir, o)
			if p := j.Problems(); len(p) > 0 {
				t.Fatal(p)
			}
			wantContents(t, j, goldenContents())
			wantSound(t, j)
			if !readOnly {
				commit(t, j, "more", "1")
				commit(t, j, "more", "-")
			}
			mustClose(t, j)
		}
	}
}

func writeGolden(t *testing.T, dir string) {
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	o := testOptions(t)
	o.SegmentBytes = 2000
	j := mustOpen(t, dir, o)
	var b Batch
	for k, v := range goldenContents() {
		if !strings.HasPrefix(k, "replayed") {
			b.Put([]byte(k), []byte(v))
		}
	}
	b.Put([]byte("gone/1"), []byte("x"))
	if err := j.Commit(&b); err != nil {
		t.Fatal(err)
	}
	commit(t, j, "gone/2", big("x", 1500))
	if err := j.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	commit(t, j, "gone", "*", "replayed", "yes", "replayed/big", big("r", 513))
	abandon(t, j)
}

// TestReadOnlyTornTail: what a crash cut off is no damage, also to who may not take it away; nor is a segment that a power cut left blank.
func TestReadOnlyTornTail(t *testing.T) {
	for name, spoil := range map[string]func(dir string){
		"torn": func(dir string) { appendTo(t, lastSegment(t, dir), []byte("torn")) },
		"blank": func(dir string) {
			if err := os.WriteFile(segPath(dir, 2), make([]byte, 4096), 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		dir := t.TempDir()
		j := mustOpen(t, dir, testOptions(t))
		commit(t, j, "a", "1")
		abandon(t, j)
		spoil(dir)
		o := testOptions(t)
		o.ReadOnly = true
		j = mustOpen(t, dir, o)
		if n, err := j.Verify(t.Context(), func(p Problem) { t.Errorf("%s: %v", name, p) }); err != nil || n.Records != 1 {
			t.Errorf("%s: %+v, %v", name, n, err)
		}
		mustClose(t, j)
		j = mustOpen(t, dir, testOptions(t))
		wantContents(t, j, map[string]string{"a": "1"})
		mustClose(t, j)
	}
}
