package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
	"golang.org/x/sys/unix"
)

// TestSharing: on filesystems whose files can share blocks, what is kept of a big file, what a move puts back and what a
// fork fills take no blocks, and everything comes back as on any other.
func TestSharing(t *testing.T) {
	for _, kind := range rig.Sharing {
		t.Run(kind, func(t *testing.T) {
			image := filepath.Join(rig.Disk(t), kind)
			rig.NewSharing(t, image, kind)
			w := rig.Image(t, image)
			w.Sh(`for i in 1 2 3 4 5 6 7 8; do head -c 4M /dev/urandom >big$i; done
				git init -q; git config user.name t; git config user.email t@example.org; seq 1000 >lines; mkdir dir; ln -s ../lines dir/link; ln lines dir/hard; mkfifo fifo
				truncate -s 50M sparse; echo tail >>sparse; setfattr -n user.a -v b lines; setfacl -m u:1234:r lines
				git add lines dir; git commit -qm start`).OK()
			w.Mount()
			start := w.Snapshot()
			sharedEdits(t, w, w, "an edit of each big file", "ctl")
			w.TTFS("undo").OK()
			w.Same("undo of the edits", start)
			w.TTFS("redo").OK()
			w.TTFS("undo").OK()

			w.Task("tools")
			w.Sh(`cp --reflink=auto big1 copy; cp --sparse=always sparse again; dd if=/dev/zero of=sparse bs=4k seek=100 count=3 conv=notrunc status=none
				fallocate -p -o 8192 -l 65536 big2; fallocate -z -o 0 -l 65536 big3; truncate -s 1M big4; : >big5; rm big6; mv big7 big8
				sed -i s/5/five/ lines; git commit -qam more; tar cf all.tar dir; rm -rf dir; tar xf all.tar
				sqlite3 db 'create table t(a); insert into t values(1),(2),(3); update t set a=a+1'
				python3 -c 'import mmap; f = open("big1", "r+b"); m = mmap.mmap(f.fileno(), 0); m[5000:5005] = b"there"; m.close()'`).OK()
			end := w.Snapshot()
			w.TTFS("undo").OK()
			w.Same("undo of the tools", start)
			w.TTFS("redo").OK()
			w.Same("redo of the tools", end)
			w.TTFS("undo").OK()

			w.TTFS("fork", "kid").OK()
			sharedEdits(t, w, w.Fork("kid"), "an edit of each big file in a fork", "")
			w.Same("beside the fork", start)
			w.TTFS("fsck").OK()
			w.Unmount()
			w.TTFS("fsck").OK()
		})
	}
}

// sharedEdits changes one byte of each big file, as a program does that opens it for reading and writing, so that all of it
// is kept, and holds what that takes of the disk to a quarter of the files.
func sharedEdits(t *testing.T, disk, w *rig.Workspace, what, task string) {
	t.Helper()
	if task != "" {
		w.Task(task)
	}
	before := diskUsed(t, disk)
	for i := range 8 {
		f, err := os.OpenFile(w.Path(fmt.Sprint("big", i+1)), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte{'x'}, 2<<20); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if grown := diskUsed(t, disk) - before; grown > 8<<20 {
		t.Errorf("%s takes %.1f MiB of the disk; the files have 32", what, float64(grown)/(1<<20))
	}
}

// diskUsed is what is used of a workspace's filesystem, once everything is written.
func diskUsed(t *testing.T, w *rig.Workspace) int64 {
	t.Helper()
	top, err := os.Open(filepath.Dir(w.Dir))
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	if err := unix.Syncfs(int(top.Fd())); err != nil {
		t.Fatal(err)
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(top.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	return int64(st.Blocks-st.Bfree) * st.Bsize
}
