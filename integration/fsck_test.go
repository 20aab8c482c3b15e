package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFsckWhileMounted: the same words mounted and not, sound and damaged.
func TestFsckWhileMounted(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	w.Sh("echo old > f; echo old > g").OK()
	w.Task("one")
	w.Sh("rm f; echo new > g").OK()
	sound := func(when string) {
		t.Helper()
		if r := w.TTFS("fsck").OK(); !strings.HasSuffix(r.Stdout, ": 0 problems\n") || strings.Count(r.Stdout, "\n") != 1 {
			t.Errorf("%s: %s", when, r)
		}
		var res struct {
			Tasks    int
			Problems []string
		}
		if err := json.Unmarshal([]byte(w.TTFS("fsck", "--json").OK().Stdout), &res); err != nil || res.Tasks != 2 || res.Problems == nil {
			t.Errorf("%s: %+v, %v", when, res, err)
		}
	}
	sound("mounted")
	if got := w.Read(".tt/fsck"); !strings.HasPrefix(got, "2 tasks, ") {
		t.Errorf(".tt/fsck: %q", got)
	}
	if names := w.Sh("ls .tt").OK().Stdout; strings.Contains(names, "fsck") {
		t.Errorf("ls .tt names it: %s", names)
	}
	if _, err := os.OpenFile(w.Path(".tt/fsck"), os.O_RDWR, 0); err == nil {
		t.Error("it can be opened for writing")
	}
	w.TTFS("undo").OK()
	w.TTFS("redo").OK()
	w.Unmount()
	sound("not mounted")
	held, err := filepath.Glob(w.Path(".tt/hold/o*"))
	if err != nil || len(held) == 0 {
		t.Fatalf("nothing is held: %v", err)
	}
	for _, h := range held {
		if err := os.Remove(h); err != nil {
			t.Fatal(err)
		}
	}
	damaged := func(when string) string {
		t.Helper()
		r := w.TTFS("fsck").Exit(1)
		if !strings.Contains(r.Stdout, `"f" is gone`) || !strings.Contains(r.Stderr, "damaged") {
			t.Errorf("%s: %s", when, r)
		}
		if r := w.TTFS("fsck", "--json").Exit(1); !strings.Contains(r.Stdout, "is gone") {
			t.Errorf("%s: %s", when, r)
		}
		return strings.Split(r.Stdout, "\n")[0]
	}
	before := damaged("not mounted")
	w.Mount()
	if after := damaged("mounted"); after != before {
		t.Errorf("mounted it says %q, not mounted %q", after, before)
	}
}
