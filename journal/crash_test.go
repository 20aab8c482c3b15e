package journal

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// crashCopy copies an abandoned journal; the tail segment is cut off at the byte cut, if not negative.
func crashCopy(t testing.TB, from, to string, cut int64) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	if cut >= 0 {
		if err := os.Truncate(lastSegment(t, to), cut); err != nil {
			t.Fatal(err)
		}
	}
}

// abandon stops j as a kill -9 does: nothing more is written. (The index' own files are consistent at every instant, that is pebble's to keep.)
func abandon(t testing.TB, j *Journal) {
	t.Helper()
	j.users.Add(closedBit)
	close(j.stop)
	<-j.stopped
	if err := j.releaseAll(); err != nil {
		t.Log(err)
	}
}

func segmentFiles(t testing.TB, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "*"+segSuffix))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func lastSegment(t testing.TB, dir string) string {
	t.Helper()
	list := segmentFiles(t, dir)
	if len(list) == 0 {
		t.Fatal("no segment")
	}
	return list[len(list)-1]
}

// TestTornTail cuts the last record at every byte, and also fills the rest with zeros or rubbish as a power cut may: the records
// before it stay, it is gone, nothing is reported, and the journal goes on.
func TestTornTail(t *testing.T) {
	for name, checkpoint := range map[string]bool{"replayed": false, "checkpointed": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			j := mustOpen(t, dir, testOptions(t))
			commit(t, j, "a", "1", "big", big("b", 700))
			if checkpoint {
				if err := j.Checkpoint(); err != nil {
					t.Fatal(err)
				}
			}
			commit(t, j, "a", "2")
			before := j.tail.end.Load()
			commit(t, j, "last", "record", "a", "-")
			after := j.tail.end.Load()
			abandon(t, j)
			for cut := before; cut < after; cut++ {
				fill := []byte{0, 0xa5}[cut%2 : cut%2+1]
				crashed := filepath.Join(t.TempDir(), "j")
				crashCopy(t, dir, crashed, cut)
				if cut%3 == 0 {
					appendTo(t, lastSegment(t, crashed), bytes.Repeat(fill, int(after-cut)))
				}
				wantAfterCrash(t, crashed, map[string]string{"a": "2", "big": big("b", 700)})
			}
		})
	}
}

func wantAfterCrash(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	o := testOptions(t)
	o.ReadOnly = true
	j := mustOpen(t, dir, o)
	wantContents(t, j, want)
	mustClose(t, j)
	j = mustOpen(t, dir, testOptions(t))
	if p := j.Problems(); len(p) > 0 {
		t.Fatal(p)
	}
	wantContents(t, j, want)
	want = maps.Clone(want)
	want["new"] = "n"
	commit(t, j, "new", "n")
	mustClose(t, j)
	j = mustOpen(t, dir, testOptions(t))
	wantContents(t, j, want)
	wantSound(t, j)
	mustClose(t, j)
}

func appendTo(t testing.TB, path string, b []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func flip(t testing.TB, path string, at int64) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 0x10
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedMiddle flips one bit, in every third byte, of the second of three records, or of the header: it is reported, the other records are there, the segment stays,
// also when nothing needs it any more, and across a reopen Verify still names it.
func TestDamagedMiddle(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir, testOptions(t))
	commit(t, j, "a", "1")
	from := j.tail.end.Load()
	commit(t, j, "b", "2")
	to := j.tail.end.Load()
	commit(t, j, "c", "3")
	abandon(t, j)
	all := map[string]string{"a": "1", "b": "2", "c": "3"}
	for at := int64(0); at < to; at += 3 {
		if at >= headerBytes && at < from {
			at = from
		}
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			want := all
			if at >= from {
				want = map[string]string{"a": "1", "c": "3"}
			}
			crashed := filepath.Join(t.TempDir(), "j")
			crashCopy(t, dir, crashed, -1)
			first := lastSegment(t, crashed)
			flip(t, first, at)
			checkDamaged(t, crashed, first, want)
		})
	}
}

func checkDamaged(t *testing.T, dir, seg string, want map[string]string) {
	j := mustOpen(t, dir, testOptions(t))
	wantContents(t, j, want)
	if len(j.Problems()) == 0 || j.Problems()[0].Path != seg {
		t.Fatalf("problems: %v", j.Problems())
	}
	commit(t, j, "", "*")
	if err := j.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	mustClose(t, j)
	if _, err := os.Stat(seg); err != nil {
		t.Fatal("the damaged segment is gone: ", err)
	}
	j = mustOpen(t, dir, testOptions(t))
	wantContents(t, j, map[string]string{})
	named := false
	n, err := j.Verify(t.Context(), func(p Problem) { named = named || p.Path == seg })
	if err != nil || n.Problems == 0 || !named {
		t.Fatalf("verify: %+v, %v", n, err)
	}
}

// TestMissing takes a whole segment away: below a segment that is still replayed that is damage, not the end.
func TestMissing(t *testing.T) {
	dir := t.TempDir()
	o := testOptions(t)
	o.SegmentBytes = 100
	j := mustOpen(t, dir, o)
	for i := range 6 {
		commit(t, j, fmt.Sprint("key", i), big("v", 60))
	}
	abandon(t, j)
	list := segmentFiles(t, dir)
	if len(list) != 6 {
		t.Fatal(list)
	}
	if err := os.Remove(list[2]); err != nil {
		t.Fatal(err)
	}
	j = mustOpen(t, dir, o)
	if p := j.Problems(); len(p) != 1 || !strings.Contains(p[0].What, "records 3 to 3") {
		t.Fatal(p)
	}
	if got := contents(t, j, ""); len(got) != 5 || got["key2"] != "" {
		t.Fatal(brief(got))
	}
}

// TestDamagedBigValue: a flipped bit in a value that only the segment holds is found by Get, Scan and Verify.
func TestDamagedBigValue(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir, testOptions(t))
	commit(t, j, "big", big("b", 5000))
	mustClose(t, j)
	flip(t, lastSegment(t, dir), 2000)
	j = mustOpen(t, dir, testOptions(t))
	if _, _, err := j.Get([]byte("big")); !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
	if err := j.Scan(nil, func(_, _ []byte) error { return nil }); !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
	var found []Problem
	n, err := j.Verify(t.Context(), func(p Problem) { found = append(found, p) })
	if err != nil || n.Problems != 2 || len(found) != 2 {
		t.Fatalf("%+v %v %v", n, err, found)
	}
}
