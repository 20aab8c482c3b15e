package journal

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
)

// testLog shows in the test's output what the journal logs.
type testLog struct{ t testing.TB }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

func testOptions(t testing.TB) Options {
	return Options{FloorBytes: -1, Logger: slog.New(slog.NewTextHandler(testLog{t}, nil))}
}

func mustOpen(t testing.TB, dir string, o Options) *Journal {
	t.Helper()
	j, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil && !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
	return j
}

func mustClose(t testing.TB, j *Journal) {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// commit commits key, value pairs; a value "-" deletes the key, "*" all that begins with it.
func commit(t testing.TB, j *Journal, pairs ...string) {
	t.Helper()
	if err := j.Commit(batchOf(pairs...)); err != nil {
		t.Fatal(err)
	}
}

func batchOf(pairs ...string) *Batch {
	b := &Batch{}
	for i := 0; i < len(pairs); i += 2 {
		switch k := []byte(pairs[i]); pairs[i+1] {
		case "-":
			b.Delete(k)
		case "*":
			b.DeletePrefix(k)
		default:
			b.Put(k, []byte(pairs[i+1]))
		}
	}
	return b
}

func contents(t testing.TB, j *Journal, prefix string) map[string]string {
	t.Helper()
	got, last := map[string]string{}, ""
	err := j.Scan([]byte(prefix), func(k, v []byte) error {
		if len(got) > 0 && string(k) <= last {
			return fmt.Errorf("key %q after %q", k, last)
		}
		last = string(k)
		got[last] = string(v)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func wantContents(t testing.TB, j *Journal, want map[string]string) {
	t.Helper()
	if got := contents(t, j, ""); !maps.Equal(got, want) {
		t.Fatalf("got %s\nwant %s", brief(got), brief(want))
	}
	for k, v := range want {
		got, ok, err := j.Get([]byte(k))
		if err != nil || !ok || string(got) != v {
			t.Fatalf("get %q: %v %v, %d bytes, want %d", k, ok, err, len(got), len(v))
		}
	}
}

func brief(m map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&b, " %q:%d:%.8q", k, len(m[k]), m[k])
	}
	return b.String()
}

func wantSound(t testing.TB, j *Journal) {
	t.Helper()
	n, err := j.Verify(t.Context(), func(p Problem) { t.Error(p) })
	if err != nil || n.Problems != 0 {
		t.Fatalf("verify: %+v, %v", n, err)
	}
}

func big(s string, n int) string { return string(bytes.Repeat([]byte(s), n/len(s)+1)[:n]) }

// TestLayers runs the same changes with a checkpoint, a reopen or nothing after each: what is seen must not depend on it.
func TestLayers(t *testing.T) {
	steps := []struct {
		batch []string
		want  map[string]string
	}{
		{[]string{"a", "1", "b", "2", "", "empty"}, map[string]string{"a": "1", "b": "2", "": "empty"}},
		{[]string{"a", "-", "c", big("x", 513)}, map[string]string{"b": "2", "c": big("x", 513), "": "empty"}},
		{[]string{"b", "*", "b2", "3", "b1", big("y", 4096)}, map[string]string{"b1": big("y", 4096), "b2": "3", "c": big("x", 513), "": "empty"}},
		{[]string{"c", "", "d", big("z", 512), "x", "-"}, map[string]string{"b1": big("y", 4096), "b2": "3", "c": "", "d": big("z", 512), "": "empty"}},
		{[]string{"\xff\xff", "hi", "\xff", "lo"}, map[string]string{"b1": big("y", 4096), "b2": "3", "c": "", "d": big("z", 512), "": "empty", "\xff\xff": "hi", "\xff": "lo"}},
		{[]string{"\xff", "*", "b", "*", "b1", "n", "b", "*", "b3", "m"}, map[string]string{"b3": "m", "c": "", "d": big("z", 512), "": "empty"}},
		{[]string{"", "*", "e", "5"}, map[string]string{"e": "5"}},
		{[]string{"e", "*"}, map[string]string{}},
		{[]string{"f", big("q", 100000)}, map[string]string{"f": big("q", 100000)}},
	}
	between := map[string]func(*testing.T, *Journal, string) *Journal{
		"nothing": func(_ *testing.T, j *Journal, _ string) *Journal { return j },
		"checkpoint": func(t *testing.T, j *Journal, _ string) *Journal {
			if err := j.Checkpoint(); err != nil {
				t.Fatal(err)
			}
			return j
		},
		"reopen": func(t *testing.T, j *Journal, dir string) *Journal {
			mustClose(t, j)
			return mustOpen(t, dir, testOptions(t))
		},
	}
	for name, f := range between {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			j := mustOpen(t, dir, testOptions(t))
			for i, s := range steps {
				commit(t, j, s.batch...)
				wantContents(t, j, s.want)
				j = f(t, j, dir)
				t.Log("step", i)
				wantContents(t, j, s.want)
				wantSound(t, j)
			}
		})
	}
}
