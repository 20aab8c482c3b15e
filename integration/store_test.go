package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
)

// TestStoreElsewhere: the journal and the blobs in a directory of their own, found again by every verb.
func TestStoreElsewhere(t *testing.T) {
	w := rig.New(t)
	put(t, w, "f", "before\n")
	disk := rig.Disk(t)
	store := filepath.Join(disk, "the store")
	w.TTFSIn("/", "mount", "--store", store, w.Dir).OK()
	before := w.Snapshot()
	w.Task("one")
	put(t, w, "f", "after\n")
	w.Sh("rm -f nothing; mkdir d; echo 1 > d/x").OK()
	after := w.Snapshot()
	if got := w.Status()["store"]; got != store {
		t.Errorf("status says %q", got)
	}
	w.TTFSIn("/", "unmount", w.Dir).OK()
	if _, err := os.Stat(filepath.Join(w.Dir, ".tt", "journal")); err == nil {
		t.Error("there is a journal in .tt")
	}
	w.TTFS("undo").OK()
	w.Same("after an undo without the mount", before)
	w.TTFSIn("/", "mount", w.Dir).OK()
	w.Must("redo")
	w.Same("after a mount that does not name the store, and a redo", after)
	w.TTFSIn("/", "unmount", w.Dir).OK()
	other := filepath.Join(disk, "another store")
	if r := w.TTFSIn("/", "mount", "--store", other, w.Dir).Exit(1); !strings.Contains(r.Stderr, store) {
		t.Errorf("another store is refused with %q", r.Stderr)
	}
	if err := os.Rename(store, store+" moved"); err != nil {
		t.Fatal(err)
	}
	if r := w.TTFSIn("/", "mount", w.Dir).Exit(1); !strings.Contains(r.Stderr, "is not there") {
		t.Errorf("a lost store is refused with %q", r.Stderr)
	}
	if err := os.Rename(store+" moved", store); err != nil {
		t.Fatal(err)
	}
	w.TTFSIn("/", "fsck", "--workspace", w.Dir).OK()
}
