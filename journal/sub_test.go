package journal

import (
	"bytes"
	"slices"
	"testing"
)

// TestSub holds two parts, one inside the other, against a whole journal: neither sees what is not its own, and both are
// there after a new start.
func TestSub(t *testing.T) {
	dir := t.TempDir()
	open := func() *Journal {
		j, err := Open(dir, Options{FloorBytes: -1})
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	j := open()
	big := bytes.Repeat([]byte("x"), 4*inlineMax)
	put := func(commit func(*Batch) error, kv ...string) {
		t.Helper()
		var b Batch
		for i := 0; i < len(kv); i += 2 {
			b.Put([]byte(kv[i]), []byte(kv[i+1]))
		}
		if err := commit(&b); err != nil {
			t.Fatal(err)
		}
	}
	keys := func(scan func([]byte, func(k, v []byte) error) error, prefix string) (out []string) {
		t.Helper()
		if err := scan([]byte(prefix), func(k, v []byte) error { out = append(out, string(k)+"="+string(v[:1])); return nil }); err != nil {
			t.Fatal(err)
		}
		return out
	}
	check := func(j *Journal) {
		t.Helper()
		a := j.Sub([]byte("J1"))
		in := a.Sub([]byte("J2"))
		if got := keys(j.Scan, "a"); !slices.Equal(got, []string{"a=0"}) {
			t.Errorf("the whole has %q", got)
		}
		if got := keys(a.Scan, "a"); !slices.Equal(got, []string{"a=1", "ab=x"}) {
			t.Errorf("the part has %q", got)
		}
		if got := keys(in.Scan, ""); !slices.Equal(got, []string{"a=2"}) {
			t.Errorf("the part of the part has %q", got)
		}
		view, err := a.View([]byte("a"))
		if err != nil {
			t.Fatal(err)
		}
		defer view.Close()
		for prefix, want := range map[string][]string{"ab": {"ab=x"}, "a": {"a=1", "ab=x"}, "ac": nil} {
			if got := keys(view.Scan, prefix); !slices.Equal(got, want) {
				t.Errorf("a view of the part has %q at %s", got, prefix)
			}
		}
		if v, found, err := a.Get([]byte("ab")); err != nil || !found || !bytes.Equal(v, big) {
			t.Errorf("a long value came back with %d bytes, %v, %v", len(v), found, err)
		}
	}
	a := j.Sub([]byte("J1"))
	put(j.Commit, "a", "0")
	put(a.Commit, "a", "1", "ab", string(big), "gone", "1", "pre1", "1", "pre2", "1")
	put(a.Sub([]byte("J2")).Commit, "a", "2")
	var b Batch
	b.Delete([]byte("gone"))
	b.DeletePrefix([]byte("pre"))
	if err := a.Commit(&b); err != nil {
		t.Fatal(err)
	}
	check(j)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = open()
	check(j)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}
