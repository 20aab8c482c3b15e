package journal

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
)

// damaged is a journal on the disk with keys in the index, in old segments and behind the checkpoint.
func toDamage(t *testing.T) (dir string, want map[string]string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "j")
	o := testOptions(t)
	o.SegmentBytes = 16 << 10
	j := mustOpen(t, dir, o)
	want = map[string]string{}
	for i := range 600 {
		key := string(append([]byte{'A' + byte(i%3)}, 0, 0, 0, 0, 0, 0, byte(i>>8), byte(i)))
		want[key] = fmt.Sprint("small", i)
		if i%9 == 0 {
			want[key] = big(fmt.Sprint(i), 700)
		}
		commit(t, j, key, want[key])
		if i == 300 || i == 500 {
			if err := j.Checkpoint(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for key := range want {
		if key[0] == 'B' && key[8]%2 == 0 {
			var b Batch
			b.Delete([]byte(key))
			if err := j.Commit(&b); err != nil {
				t.Fatal(err)
			}
			delete(want, key)
		}
	}
	abandon(t, j)
	return dir, want
}

// repaired repairs and says what must hold: what was not lost is exact, nothing else is there, and a second look finds nothing.
func repaired(t *testing.T, what, dir string, want map[string]string) (lost int) {
	t.Helper()
	var gone []Lost
	var said []string
	o := testOptions(t)
	o.Logger = nil
	sound := true
	if j, err := Open(dir, o); err != nil {
		sound = false
	} else {
		if _, err := j.Verify(t.Context(), func(Problem) { sound = false }); err != nil {
			sound = false
		}
		abandon(t, j)
	}
	j, err := Repair(dir, o, func(l Lost) { gone = append(gone, l) }, func(what string) { said = append(said, what) })
	if errors.Is(err, ErrBeyondRepair) {
		return -1
	}
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return 0
	}
	if !sound && len(gone)+len(said) == 0 {
		t.Errorf("%s: it was damaged and is whole, and the repair says nothing of it", what)
	}
	covered := func(key string) bool {
		for _, l := range gone {
			if key >= string(l.From) && (len(l.To) == 0 || key < string(l.To)) {
				return true
			}
		}
		return false
	}
	got := contents(t, j, "")
	for key, value := range want {
		if got[key] != value && !covered(key) {
			t.Errorf("%s: key %q is gone, and nobody said so (%d parts are)", what, key, len(gone))
			break
		}
	}
	for key := range got {
		if got[key] != want[key] {
			t.Errorf("%s: key %q has come back", what, key)
			break
		}
	}
	wantSound(t, j)
	commit(t, j, "new", "new")
	mustClose(t, j)
	j = mustOpen(t, dir, o)
	if p := j.Problems(); len(p) > 0 {
		t.Errorf("%s: opened again: %v", what, p)
	}
	got["new"] = "new"
	if now := contents(t, j, ""); !maps.Equal(now, got) {
		t.Errorf("%s: after another start %s, before %s", what, brief(now), brief(got))
	}
	wantSound(t, j)
	mustClose(t, j)
	return len(gone)
}

// TestRepairIndex flips bits all over the files of the index.
func TestRepairIndex(t *testing.T) {
	dir, want := toDamage(t)
	files, err := filepath.Glob(filepath.Join(dir, "index", "*"))
	if err != nil {
		t.Fatal(err)
	}
	points, lost, beyond := 0, 0, 0
	for _, f := range files {
		st, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		for at := int64(0); at < st.Size(); at += max(1, st.Size()/5) {
			to := filepath.Join(t.TempDir(), "j")
			if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			flip(t, filepath.Join(to, "index", filepath.Base(f)), at)
			points++
			what := fmt.Sprintf("%s at %d", filepath.Base(f), at)
			switch n := repaired(t, what, to, want); {
			case n < 0:
				beyond++
			case n > 0:
				lost++
			}
		}
	}
	t.Logf("points: %d, of which %d lose keys and %d are beyond repair", points, lost, beyond)
	if points < 20 || lost == 0 || beyond > points/2 {
		t.Errorf("of %d points %d lose keys, %d are beyond repair", points, lost, beyond)
	}
}

// TestRepairSegment flips bits all over the segments.
func TestRepairSegment(t *testing.T) {
	dir, want := toDamage(t)
	points, lost := 0, 0
	for _, f := range segmentFiles(t, dir) {
		st, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		for at := int64(5); at < st.Size(); at += max(1, st.Size()/5) {
			to := filepath.Join(t.TempDir(), "j")
			if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			seg := filepath.Join(to, filepath.Base(f))
			flip(t, seg, at)
			points++
			// A record behind the checkpoint may be gone without a trace of which keys were in it: then the journal says where.
			o := testOptions(t)
			o.Logger = nil
			o.ReadOnly = true
			j := mustOpen(t, to, o)
			problems := len(j.Problems())
			torn := j.lastLSN < 600
			mustClose(t, j)
			if problems > 0 || torn {
				lost++
				repairedMostly(t, to)
				continue
			}
			if repaired(t, fmt.Sprintf("%s at %d", filepath.Base(f), at), to, want) > 0 {
				lost++
			}
		}
	}
	t.Logf("points: %d, of which %d lose something", points, lost)
	if points < 10 || lost == 0 || lost == points {
		t.Errorf("of %d points %d lose something", points, lost)
	}
}

// repairedMostly is for damage behind the checkpoint: the journal is sound after it, and no damaged segment is left.
func repairedMostly(t *testing.T, dir string) {
	t.Helper()
	o := testOptions(t)
	o.Logger = nil
	j, err := Repair(dir, o, func(Lost) {}, func(string) {})
	if err != nil {
		t.Error(err)
		return
	}
	wantSound(t, j)
	mustClose(t, j)
	j = mustOpen(t, dir, o)
	if p := j.Problems(); len(p) > 0 {
		t.Error(p)
	}
	wantSound(t, j)
	mustClose(t, j)
	if marks, err := filepath.Glob(filepath.Join(dir, "*"+damagedSuffix)); err != nil || len(marks) > 0 {
		t.Errorf("marks of damage are left: %v, %v", marks, err)
	}
}

// TestRepairLostIndex makes a new index of the segments where they go back to the first record, and else says that it cannot.
func TestRepairLostIndex(t *testing.T) {
	for _, all := range []bool{true, false} {
		dir := filepath.Join(t.TempDir(), "j")
		o := testOptions(t)
		j := mustOpen(t, dir, o)
		for i := range 50 {
			commit(t, j, fmt.Sprintf("A1234567%d", i), big("x", 600))
		}
		if !all {
			var b Batch
			b.DeletePrefix(nil)
			if err := errors.Join(j.Commit(&b), j.Commit(batchOf("k", "v")), j.checkpoint()); err != nil {
				t.Fatal(err)
			}
			j.appendMu.Lock()
			err := j.rollLocked()
			j.appendMu.Unlock()
			if err := errors.Join(err, j.Commit(batchOf("k2", "v")), j.checkpoint()); err != nil {
				t.Fatal(err)
			}
		}
		want := contents(t, j, "")
		mustClose(t, j)
		files, _ := filepath.Glob(filepath.Join(dir, "index", "*"))
		for _, f := range files {
			if err := os.WriteFile(f, bytes.Repeat([]byte("rubbish"), 100), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if all {
			repaired(t, "rubbish", dir, want)
			continue
		}
		before := segmentBytes(t, dir)
		if _, err := Repair(dir, o, func(Lost) {}, func(string) {}); !errors.Is(err, ErrBeyondRepair) {
			t.Errorf("without the first segments: %v", err)
		}
		if after := segmentBytes(t, dir); after != before {
			t.Error("what is beyond repair was changed")
		}
	}
}

// segmentBytes is what is in the segments.
func segmentBytes(t *testing.T, dir string) (all string) {
	t.Helper()
	for _, f := range segmentFiles(t, dir) {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all += filepath.Base(f) + string(b)
	}
	return all
}
