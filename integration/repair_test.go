package integration

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
)

// TestRepairOfBlob flips a bit in the blobs of a real workspace: fsck says it and changes nothing, mounted or not; the repair keeps the
// rest; then fsck finds nothing, and undo brings back all but what could not be had.
func TestRepairOfBlob(t *testing.T) {
	t.Parallel()
	w := rig.New(t)
	big := bytes.Repeat([]byte("0123456789abcde\n"), 40<<10)
	for i := range big[:300<<10] {
		big[i] ^= byte(i * i >> 7) // it is not to be compressed to nothing
	}
	for _, name := range []string{"big", "small"} {
		if err := os.WriteFile(w.Path(name), big, 0o644); err != nil {
			t.Fatal(err)
		}
		big = big[:100]
	}
	w.Mount()
	w.Task("one")
	w.Sh("head -c 1000 /dev/zero > big; head -c 10 /dev/zero > small; rm -f none").OK()
	w.Task("two") // what the first keeps may be archived
	after := w.Snapshot()
	rig.Patiently(t, "the archiver", func() bool {
		m := w.Read(".tt/metrics")
		_, rest, _ := strings.Cut(m, "\nttfs_archived_total ")
		return !strings.HasPrefix(rest, "0\n") && rest != ""
	})
	w.Unmount()
	w.TTFS("fsck").OK()

	flipped := flipIn(t, w, "cas")
	for range 2 {
		r := w.TTFS("fsck").Exit(1)
		if !strings.Contains(r.Stdout, "blob") || !strings.Contains(r.Stderr, "damaged") {
			t.Fatalf("%s: %s", flipped, r)
		}
	}
	w.Mount() // a damaged blob keeps nobody from working
	w.TTFS("fsck").Exit(1)
	w.Unmount()
	if r := w.TTFS("fsck", "--repair").OK(); strings.Contains(r.Stdout, "0 repairs") || !strings.Contains(r.Stdout, "repaired: ") {
		t.Errorf("the repair: %s", r)
	}
	w.TTFS("fsck").OK()
	if r := w.TTFS("fsck", "--repair").OK(); !strings.Contains(r.Stdout, "0 repairs") {
		t.Errorf("a second repair: %s", r)
	}
	w.Mount()
	w.Same("after the repair", after)
	w.TTFS("undo").OK()
	w.TTFS("undo").OK()
	if got := w.Read("small"); got != string(big) {
		t.Errorf("undo brings small back as %q", got)
	}
	if log := w.TTFS("log", "--json").OK().Stdout; !strings.Contains(log, `"incomplete": true`) {
		t.Errorf("no task is marked: %s", log)
	}
	if list := w.Read(".tt/tasks/list"); !strings.Contains(list, "(incomplete)") {
		t.Errorf("no task is marked: %s", list)
	}
}

// TestRepairOfJournal flips a bit in each segment of a real journal: what can be read is kept, and it is said.
func TestRepairOfJournal(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	w.Sh("echo old > f; mkdir d; echo x > d/x").OK()
	w.Task("one")
	w.Sh("echo new > f; rm -r d").OK()
	after := w.Snapshot()
	w.Unmount()
	flipIn(t, w, "journal")
	w.TTFS("fsck").Exit(1)
	if r := w.TTFS("fsck", "--repair").OK(); strings.Contains(r.Stdout, "0 repairs") {
		t.Errorf("the repair: %s", r)
	}
	w.TTFS("fsck").OK()
	w.Mount()
	w.Same("after the repair", after)
	w.TTFS("undo").OK()
	if got := w.Read("f") + w.Read("d/x"); got != "old\nx\n" {
		t.Errorf("undo: %q", got)
	}
}

// flipIn flips a bit in the middle of each big file of a part of the store.
func flipIn(t *testing.T, w *rig.Workspace, part string) (files []string) {
	t.Helper()
	all, err := filepath.Glob(w.Path(".tt/" + part + "/*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		if ext := filepath.Ext(name); ext != ".sst" && ext != ".blob" && ext != ".seg" && ext != ".log" {
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil || len(b) < 200 {
			continue
		}
		b[len(b)/2] ^= 0x10
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, name)
	}
	if len(files) == 0 {
		t.Fatalf("there is nothing to damage in %s: %q", part, all)
	}
	return files
}
