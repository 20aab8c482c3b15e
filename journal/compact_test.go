package journal

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
)

// TestCompact gives back the space of what was deleted, in old segments and in the tail, and keeps what is live.
func TestCompact(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "j")
	o := testOptions(t)
	o.SegmentBytes = 4 << 20
	j := mustOpen(t, dir, o)
	want := map[string]string{}
	for i := range 300 {
		key, value := fmt.Sprintf("%03d", i), big(fmt.Sprint(i), 60_000)
		commit(t, j, key, value)
		want[key] = value
	}
	full := j.Stats()
	for i := range 300 {
		if i%20 != 0 {
			var b Batch
			b.Delete(fmt.Appendf(nil, "%03d", i))
			if err := j.CommitFreeing(&b); err != nil {
				t.Fatal(err)
			}
			delete(want, fmt.Sprintf("%03d", i))
		}
	}
	if err := j.Compact(); err != nil {
		t.Fatal(err)
	}
	st := j.Stats()
	if st.SegmentBytes > full.SegmentBytes/10 || st.LiveBytes == 0 {
		t.Errorf("%d bytes before, %d after, %d of them live", full.SegmentBytes, st.SegmentBytes, st.LiveBytes)
	}
	wantContents(t, j, want)
	wantSound(t, j)
	if err := j.Compact(); err != nil || j.Stats().SegmentBytes != st.SegmentBytes {
		t.Errorf("a second compaction: %v, %d bytes", err, j.Stats().SegmentBytes)
	}
	var b Batch
	b.DeletePrefix(nil)
	if err := errors.Join(j.Commit(&b), j.Compact()); err != nil {
		t.Fatal(err)
	}
	if st := j.Stats(); st.LiveBytes != 0 || st.SegmentBytes > 2<<20 {
		t.Errorf("nothing is left in %d bytes", st.SegmentBytes)
	}
	mustClose(t, j)
	j = mustOpen(t, dir, o)
	wantContents(t, j, map[string]string{})
	wantSound(t, j)
	mustClose(t, j)
}

// TestCompactBesideCommits moves values while they are changed and deleted: the newest counts.
func TestCompactBesideCommits(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "j")
	o := testOptions(t)
	o.SegmentBytes, o.MemBytes = 64<<10, 16<<10
	j := mustOpen(t, dir, o)
	var wg sync.WaitGroup
	want := map[string]string{}
	for w := range 4 {
		for i := range 20 {
			key := fmt.Sprintf("%d/%02d", w, i)
			want[key] = big(fmt.Sprint(w, i, 59), 3000)
		}
		wg.Go(func() {
			for round := range 60 {
				for i := range 20 {
					if err := j.Commit(batchOf(fmt.Sprintf("%d/%02d", w, i), big(fmt.Sprint(w, i, round), 3000))); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	for range 30 {
		if err := j.Compact(); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	if err := j.Compact(); err != nil {
		t.Error(err)
	}
	wantContents(t, j, want)
	wantSound(t, j)
	mustClose(t, j)
}
