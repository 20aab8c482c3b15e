package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
	"golang.org/x/sys/unix"
)

// TestFullDisk fills the disk of workspace and store to the last byte, through the mount: what was acknowledged is there,
// what the task made itself can be removed, and then everything; undo is exact; the check finds nothing.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	w := rig.New(t)
	// The workspace gets a disk of its own, and its outer directory does not change: the rest of the rig goes on as ever.
	if err := unix.Mount("tmpfs", w.Dir, "tmpfs", 0, "size=64m,mode=0755"); err != nil {
		t.Fatalf("a small disk: %v", err)
	}
	t.Cleanup(func() {
		if w.Mounted() { // the test has failed
			w.TTFSIn("/", "unmount", "--lazy", w.Dir)
		}
		if err := unix.Unmount(w.Dir, unix.MNT_DETACH); err != nil {
			t.Errorf("the small disk does not go: %v", err)
		}
	})
	w.Sh("echo precious > p; head -c 4000000 /dev/urandom > big; mkdir d; echo x > d/x").OK()
	w.Mount()
	before := w.Snapshot()
	w.Task("fill")
	w.Sh("i=0; while head -c 1000000 /dev/urandom > f$i; do i=$((i+1)); done 2>/dev/null; test $i -gt 10").OK()
	w.Sh("for i in $(seq 9); do printf 'new %s\n' $i > new$i || exit 0; done; echo more >> p || true").Exit(0)
	full := w.Snapshot()
	// Whatever is refused changes nothing; whatever is not is there.
	if r := w.Sh("echo other > p"); r.Code == 0 && w.Read("p") != "other\n" || r.Code != 0 && w.Read("p") == "" {
		t.Errorf("p is %q after %s", w.Read("p"), r)
	}
	w.Sh("rm f0 f1 f4 f5 f6 f7").OK() // what the task made itself needs no record; that makes room for those of others
	// Their room is there once the kernel has let go of them, which it tells in its own time.
	rig.Eventually(t, "room for the record of a removal", func() bool { return w.Sh("rm -f big d/x").Code == 0 })
	w.Sh("rmdir d").OK()
	w.TTFS("undo").OK()
	w.Same("undo on a full disk", before)
	w.TTFS("redo").OK()
	for _, name := range []string{"f2", "f3"} {
		if got, err := os.ReadFile(w.Path(name)); err != nil || len(got) != int(full[name].SizeBytes) {
			t.Errorf("%s has %d bytes, had %d: %v", name, len(got), full[name].SizeBytes, err)
		}
	}
	w.TTFS("undo").OK()
	w.Same("undo again", before)
	w.Unmount()
	w.TTFS("fsck").OK()
	w.Mount()
	w.Same("mounted again", before)
}

// TestRemoveOnFullDisk: on a disk without a single free byte, which somebody else has filled, what was there before the task can be removed, by an agent
// without a task too. That makes no room, for it can be undone, and is; pruning makes it.
func TestRemoveOnFullDisk(t *testing.T) {
	t.Parallel()
	image := filepath.Join(rig.Disk(t), "disk")
	rig.NewImage(t, image, 96<<20, "")
	w := rig.Image(t, image)
	w.Sh("mkdir -p d/e; for i in $(seq 60); do echo $i >d/$i; done; echo x >d/e/x; head -c 2000000 /dev/urandom >big").OK()
	w.Mount()
	before := w.Snapshot()
	filler := filepath.Join(filepath.Dir(w.Dir), "filler")
	w.Sh(`head -c 200000000 /dev/zero >"$1" || true; i=0; while echo byte >"$1.$i"; do i=$((i+1)); done 2>/dev/null; true`, filler).OK()
	if free := freeBytes(t, w.Dir); free != 0 {
		t.Fatalf("%d bytes are free", free)
	}
	if err := os.WriteFile(w.Path("d/1"), []byte("other"), 0o644); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a rewrite on a full disk: %v", err)
	}
	w.Same("what was refused", before)
	w.Sh("rm -r d; rm big; test ! -e d; test ! -e big").OK()
	if free := freeBytes(t, w.Dir); free != 0 {
		t.Errorf("%d bytes are free: this test sees nothing", free)
	}
	removed := w.Snapshot()
	w.Task("next")
	rig.Eventually(t, "a prune to give back what was removed more than a second ago", func() bool {
		w.TTFS("prune", "--keep", "1s").OK()
		return freeBytes(t, w.Dir) > 2000000
	})
	w.Same("pruned", removed)
	w.Unmount()
	w.TTFS("fsck").OK()
}

// TestMountOnFullDisk: on a disk that was filled while nothing was mounted, to the last byte, the workspace is mounted all the same: history is read, what needs room is
// refused and changes nothing, and what was there is removed, taken back and pruned.
func TestMountOnFullDisk(t *testing.T) {
	t.Parallel()
	image := filepath.Join(rig.Disk(t), "disk")
	rig.NewImage(t, image, 96<<20, "")
	w := rig.Image(t, image)
	w.Sh("mkdir d; for i in $(seq 60); do echo $i >d/$i; done; head -c 2000000 /dev/urandom >big; echo one >f").OK()
	w.Mount()
	w.Task("old")
	w.Sh("rm big; echo two >f; rm d/7").OK()
	removed := w.Snapshot()
	w.Unmount()
	fills := 0
	fill := func() {
		t.Helper()
		fills++
		filler := filepath.Join(filepath.Dir(w.Dir), fmt.Sprint("filler", fills))
		w.Sh(`head -c 200000000 /dev/zero >"$1" || true; i=0; while echo byte >"$1.$i"; do i=$((i+1)); done 2>/dev/null; true`, filler).OK()
		if free := freeBytes(t, w.Dir); free != 0 {
			t.Fatalf("%d bytes are free", free)
		}
	}
	fill()
	w.Mount()
	fill() // what opening has given back is taken again
	if got := w.Read(".tt/tasks/1/before/f"); got != "one\n" {
		t.Errorf("f was %q", got)
	}
	if err := os.WriteFile(w.Path("d/1"), []byte("other"), 0o644); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a rewrite on a full disk: %v", err)
	}
	w.Same("what was refused", removed)
	w.Sh("rm d/8").OK()
	removed = w.Snapshot()
	if _, err := w.Ctl("undo"); err != nil { // it needs room, and is refused whole
		w.Same("an undo that was refused", removed)
	} else {
		w.Must("redo")
	}
	w.Task("next")
	rig.Eventually(t, "a prune to give back what was removed more than a second ago", func() bool {
		w.TTFS("prune", "--keep", "1s").OK()
		return freeBytes(t, w.Dir) > 1_500_000
	})
	w.Same("pruned", removed)
	w.Sh("rm ../filler1; rm d/9").OK()
	w.Must("undo")
	w.Same("a removal that was undone", removed)
	w.Unmount()
	w.TTFS("fsck").OK()
}

func freeBytes(t *testing.T, dir string) int64 {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	return int64(st.Bavail) * st.Bsize
}
