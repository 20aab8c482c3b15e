package integration

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
	"golang.org/x/sys/unix"
)

// TestReadOnlyDisk: the disk of workspace and store becomes read-only below the mount, as ext4 makes itself after an error. What would change
// something is refused with EROFS or EIO from then on, and everything can be read, the past too; when the disk can be written again, and is mounted
// anew, all goes on, and can be undone.
func TestReadOnlyDisk(t *testing.T) {
	for _, kind := range []string{"classic", "uring"} {
		t.Run(kind, func(t *testing.T) {
			image := filepath.Join(rig.Disk(t), "disk")
			rig.NewImage(t, image, 128<<20, "")
			w := rig.Image(t, image)
			if kind == "uring" && !uringWorks(t, w) {
				return // TestTransport asserts what happens instead
			}
			w.Sh("mkdir d other; echo x >d/x; echo y >other/y; for i in f gone over; do echo content >$i; done; head -c 3000000 /dev/urandom >big").OK()
			w.Mount("--transport", kind)
			start := w.Snapshot()
			w.Task("before")
			w.Sh("echo more >>f; echo rewritten >over; rm gone; echo back >gone").OK()
			before := w.Snapshot()
			unix.Sync()
			disk := filepath.Dir(w.Dir)
			if out, err := exec.Command("mount", "-o", "remount,abort", disk).CombinedOutput(); err != nil {
				t.Fatalf("make the disk read-only: %v: %s", err, out)
			}
			refused := 0
			for _, c := range scarce {
				switch err := c.do(w); {
				case c.name == "list" || c.name == "read" || c.name == "old content":
					if err != nil {
						t.Errorf("%s on a read-only disk: %v", c.name, err)
					}
				case c.name == "redo" || c.name == "change in a fork" || c.name == "merge" || c.name == "discard": // there is nothing to do it with
				case !errors.Is(err, syscall.EROFS) && !errors.Is(err, syscall.EIO):
					t.Errorf("%s on a read-only disk: %v (%s)", c.name, err, w.Why())
				default:
					refused++
				}
			}
			if b, err := os.ReadFile(w.Path(".tt/at/0/over")); err != nil || string(b) != "content\n" {
				t.Errorf("the past on a read-only disk: %q, %v", b, err)
			}
			w.Same("refused on a read-only disk", before)
			t.Logf("%d calls, %d refused", len(scarce), refused)
			w.Unmount()
			if err := unix.Unmount(disk, 0); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command("mount", "-o", "loop", image, disk).CombinedOutput(); err != nil {
				t.Fatalf("mount the disk again: %v: %s", err, out)
			}
			w.Mount("--transport", kind)
			w.Same("on a disk that can be written again", before)
			w.Sh("echo again >>f; rm gone; mkdir new").OK()
			w.Task("after")
			w.Sh("rm -r d; echo z >z").OK()
			w.Must("switch 0")
			w.Same("all taken back", start)
			w.Unmount()
			w.TTFS("fsck").OK()
		})
	}
}
