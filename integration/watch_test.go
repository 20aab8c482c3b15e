package integration

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ttfs/ttfs/integration/rig"
)

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

// TestOpenReaderSeesRestoredBytes: a descriptor and a mapping that were there
// before the change show the old bytes again after undo, the new ones after
// redo, and the inode stays: for a small and a big file, rewritten by O_TRUNC
// or in place.
func TestOpenReaderSeesRestoredBytes(t *testing.T) {
	t.Parallel()
	small, big := strings.Repeat("old line\n", 20), strings.Repeat("0123456789abcdef", 200000)
	for _, c := range []struct{ name, old, change string }{
		{"small, rewritten", small, `printf 'short' >f`},
		{"small, grown", small, `for i in $(seq 200); do echo "new line $i"; done >f`},
		{"small, in place", small, `printf 'NEW' | dd of=f bs=1 seek=9 conv=notrunc status=none`},
		{"small, appended", small, `echo more >>f`},
		{"big, rewritten", big, `yes other | head -c 500000 >f`},
		{"big, in place", big, `printf 'NEW' | dd of=f bs=1 seek=1500000 conv=notrunc status=none`},
		{"big, cut", big, `truncate -s 1000 f`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := rig.New(t)
			if err := os.WriteFile(w.Path("f"), []byte(c.old), 0o644); err != nil {
				t.Fatal(err)
			}
			w.Mount()
			reader, err := os.Open(w.Path("f"))
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			number := inode(t, w.Path("f"))
			see := func(moment, want string) {
				t.Helper()
				got, err := io.ReadAll(io.NewSectionReader(reader, 0, 1<<40))
				if err != nil || string(got) != want {
					t.Errorf("%s: the open reader sees %d bytes, want %d; same bytes: %v; error %v", moment, len(got), len(want), string(got) == want, err)
				}
				mapped, err := unix.Mmap(int(reader.Fd()), 0, len(want), unix.PROT_READ, unix.MAP_SHARED)
				if err != nil {
					t.Fatalf("%s: mmap: %v", moment, err)
				}
				if string(mapped) != want {
					t.Errorf("%s: the mapping has other bytes", moment)
				}
				if err := unix.Munmap(mapped); err != nil {
					t.Error(err)
				}
				if now := inode(t, w.Path("f")); now != number {
					t.Errorf("%s: the inode is %d, was %d", moment, now, number)
				}
			}
			see("at first", c.old)
			w.Task("change")
			w.Sh(c.change).OK()
			changed := w.Read("f")
			if changed == c.old {
				t.Fatal("the change changes nothing")
			}
			see("changed", changed)
			w.Must("undo")
			see("after undo", c.old)
			w.Must("redo")
			see("after redo", changed)
		})
	}
}

// TestTailFollows: `tail -f` prints what a task appends, and what redo brings
// back after an undo cut it off.
func TestTailFollows(t *testing.T) {
	t.Parallel()
	w := rig.New(t)
	w.Sh("echo first >log").OK()
	w.Mount()
	said := w.Dir + ".said"
	shell := w.Shell(w.Dir)
	shell.Say("tail -n +1 -f log >'" + said + "' 2>&1 &")
	count := func(line string) int {
		b, _ := os.ReadFile(said)
		return bytes.Count(b, []byte(line+"\n"))
	}
	rig.Eventually(t, "tail to print the file", func() bool { return count("first") == 1 })
	w.Task("append")
	w.Sh("echo appended >>log").OK()
	rig.Eventually(t, "tail to print what was appended", func() bool { return count("appended") == 1 })
	w.Must("undo")
	rig.Eventually(t, "tail to notice that the file was cut", func() bool { return count("first") == 2 })
	w.Must("redo")
	rig.Eventually(t, "tail to print it again", func() bool { return count("appended") == 2 })
}

// TestWatcherSeesUndo: inotify tells of a restored file like of any other write.
func TestWatcherSeesUndo(t *testing.T) {
	t.Parallel()
	w := rig.New(t)
	w.Sh("echo old >f; echo gone >g").OK()
	w.Mount()
	w.Task("change")
	w.Sh("echo new >f; rm g; echo made >h").OK()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := unix.InotifyAddWatch(fd, w.Dir, unix.IN_MODIFY|unix.IN_CLOSE_WRITE|unix.IN_ATTRIB|unix.IN_CREATE|unix.IN_DELETE|unix.IN_MOVE); err != nil {
		t.Fatal(err)
	}
	w.Must("undo")
	var seen []byte
	buffer := make([]byte, 4096)
	for _, name := range []string{"f", "g", "h"} {
		rig.Eventually(t, "an inotify event that names "+name, func() bool {
			if n, err := unix.Read(fd, buffer); err == nil {
				seen = append(seen, buffer[:n]...)
			}
			return slices.Contains(eventNames(seen), name)
		})
	}
}

// eventNames parses inotify(7) events: a header of 16 bytes with the length of
// the name at 12.
func eventNames(b []byte) []string {
	var names []string
	for len(b) >= unix.SizeofInotifyEvent {
		end := unix.SizeofInotifyEvent + int(b[12]) + int(b[13])<<8
		names = append(names, string(bytes.TrimRight(b[unix.SizeofInotifyEvent:end], "\x00")))
		b = b[end:]
	}
	return names
}

// TestDirectoryMovesUnderProcess: a process whose current directory was renamed
// goes on in it when undo renames it back.
func TestDirectoryMovesUnderProcess(t *testing.T) {
	t.Parallel()
	w := rig.New(t)
	w.Sh("mkdir -p d/sub; echo deep >d/sub/file").OK()
	w.Mount()
	start := w.Snapshot()
	shell := w.Shell(w.Path("d/sub"))
	w.Task("move")
	w.Sh("mkdir else; mv d else/e; echo new >else/e/sub/file").OK()
	moved := w.Snapshot()
	if got := shell.Say("cat file"); got != "new" {
		t.Errorf("after the move the process reads %q", got)
	}
	w.Must("undo")
	w.Same("undo", start)
	if got := shell.Say("cat file && ls"); got != "deep\nfile" {
		t.Errorf("after undo the process reads %q", got)
	}
	w.Must("redo")
	w.Same("redo", moved)
	if got := shell.Say("cat file"); got != "new" {
		t.Errorf("after redo the process reads %q", got)
	}
	w.Must("undo")
	shell.Say("echo made >here")
	if got := w.Read("d/sub/here"); got != "made\n" {
		t.Errorf("what the process made in its directory reads %q", got)
	}
}

// TestOpenFileOutlivesItsName: a descriptor of a removed file keeps its bytes
// through undo and redo, and the name that undo brings back has them too.
func TestOpenFileOutlivesItsName(t *testing.T) {
	t.Parallel()
	w := rig.New(t)
	content := strings.Repeat("kept ", 50000)
	if err := os.WriteFile(w.Path("f"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	w.Mount()
	start := w.Snapshot()
	open, err := os.Open(w.Path("f"))
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	check := func(moment string) {
		t.Helper()
		got, err := io.ReadAll(io.NewSectionReader(open, 0, 1<<40))
		if err != nil || string(got) != content {
			t.Errorf("%s: the descriptor reads %d bytes, %v", moment, len(got), err)
		}
	}
	w.Task("remove")
	w.Sh("rm f").OK()
	check("removed")
	w.Must("undo")
	w.Same("undo", start)
	check("after undo")
	w.Must("redo")
	if _, err := os.Lstat(w.Path("f")); !os.IsNotExist(err) {
		t.Errorf("after redo f is still there: %v", err)
	}
	check("after redo")
}
