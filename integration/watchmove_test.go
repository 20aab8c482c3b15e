package integration

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ttfs/ttfs/integration/rig"
)

// watcher is an inotify descriptor and all that it was told.
type watcher struct {
	t    *testing.T
	w    *rig.Workspace
	fd   int
	name map[int32]string // what each watch is on
	told []string         // "WATCHED: NAME EVENT"
}

var eventBits = []struct {
	bit  uint32
	name string
}{
	{unix.IN_MODIFY, "modify"}, {unix.IN_ATTRIB, "attrib"}, {unix.IN_CLOSE_WRITE, "close_write"}, {unix.IN_MOVED_FROM, "moved_from"},
	{unix.IN_MOVED_TO, "moved_to"}, {unix.IN_CREATE, "create"}, {unix.IN_DELETE, "delete"}, {unix.IN_DELETE_SELF, "delete_self"},
}

func watch(t *testing.T, w *rig.Workspace, names ...string) *watcher {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	in := &watcher{t: t, w: w, fd: fd, name: map[int32]string{}}
	t.Cleanup(in.close)
	in.add(names...)
	return in
}

// close ends the watches, once: the number may be another file's after that.
func (in *watcher) close() {
	if in.fd >= 0 {
		unix.Close(in.fd)
		in.fd = -1
	}
}

func (in *watcher) add(names ...string) {
	in.t.Helper()
	var mask uint32
	for _, e := range eventBits {
		mask |= e.bit
	}
	for _, name := range names {
		wd, err := unix.InotifyAddWatch(in.fd, in.w.Path(name), mask)
		if err != nil {
			in.t.Fatalf("watch %s: %v", name, err)
		}
		in.name[int32(wd)] = name
	}
}

// read takes what there is to read. Source: inotify(7).
func (in *watcher) read() {
	in.t.Helper()
	buffer := make([]byte, 1<<16)
	for {
		n, err := unix.Read(in.fd, buffer)
		if errors.Is(err, unix.EAGAIN) {
			return
		}
		if err != nil {
			in.t.Fatal(err)
		}
		for b := buffer[:n]; len(b) >= unix.SizeofInotifyEvent; {
			wd, mask := int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[4:])
			end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
			name := string(bytes.TrimRight(b[unix.SizeofInotifyEvent:end], "\x00"))
			b = b[end:]
			for _, e := range eventBits {
				if mask&e.bit != 0 {
					in.told = append(in.told, strings.TrimSpace(in.name[wd]+": "+strings.TrimSpace(name+" "+e.name)))
				}
			}
		}
	}
}

// hears waits for events in any order, and forgets all that there were. None may name what is called same.
func (in *watcher) hears(moment string, want ...string) {
	in.t.Helper()
	var missing []string
	done := func() bool {
		in.read()
		missing = slices.DeleteFunc(slices.Clone(want), func(e string) bool { return slices.Contains(in.told, e) })
		return len(missing) == 0
	}
	until := time.Now().Add(time.Minute)
	for !done() {
		if time.Now().After(until) {
			in.t.Fatalf("%s: not told of %q; told of %q", moment, missing, in.told)
		}
		time.Sleep(5 * time.Millisecond) // the pause of the poll
	}
	for _, e := range in.told {
		if strings.Contains(e, "same") {
			in.t.Errorf("%s: told of %q, which did not change", moment, e)
		}
	}
	in.told = nil
}

// tasks is the list of tasks without what is current.
func tasks(w *rig.Workspace) []string {
	lines := strings.Split(strings.TrimSpace(w.Read(".tt/tasks/list")), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimLeft(line, "→↯⎇ ")
	}
	return lines
}

// TestMoveIsSeenByWatchers: programs that watch directories and files with inotify hear of an undo and of a redo as if a
// program had done it; and nothing but the move is done for that: no bytes, times or modes, no inode, no task.
func TestMoveIsSeenByWatchers(t *testing.T) {
	t.Parallel()
	for _, passthrough := range []string{"auto", "off"} {
		t.Run("passthrough "+passthrough, func(t *testing.T) {
			t.Parallel()
			w := rig.New(t)
			w.Sh(`echo old >f; echo gone >g; echo same >same; mkdir d dd; echo deep >d/deep; ln -s f l; echo perm >perm; echo from >from
				chmod 400 g; touch -d 2001-02-03 f d dd same; mkdir same.d; echo x >same.d/x`).OK()
			w.Mount("--passthrough", passthrough)
			start := w.Snapshot()
			w.Task("change")
			w.Sh(`echo new >f; rm -f g; echo made >h; rm -r d; rmdir dd; echo file >dd; rm l; mkdir n; echo in >n/in; mkfifo p; ln -s h l2
				chmod 600 perm; mv from to`).OK()
			changed := w.Snapshot()
			before := tasks(w)
			in := watch(t, w, "", "f", "h", "n", "same", "same.d")
			number := inode(t, w.Path("f"))
			w.Must("undo")
			in.hears("undo",
				": f modify", ": f close_write", "f: modify", "f: close_write",
				": g create", ": g close_write", ": h delete", "h: delete_self", ": d create", ": dd delete", ": dd create",
				": l create", ": l2 delete", ": n delete", ": p delete", ": perm attrib", ": to delete", ": from create")
			w.Same("undo", start)
			in.add("g", "from")
			w.Must("redo")
			in.hears("redo",
				": f modify", ": f close_write", "f: modify", "f: close_write",
				": g delete", "g: delete_self", ": h create", ": h close_write", ": d delete", ": dd delete", ": dd create",
				": l delete", ": l2 create", ": n create", ": p create", ": perm attrib", ": from delete", ": to create")
			w.Same("redo", changed)
			w.Must("undo")
			w.Same("undo again", start)
			if now := inode(t, w.Path("f")); now != number {
				t.Errorf("the inode of f is %d, was %d", now, number)
			}
			if now := tasks(w); !slices.Equal(now, before) {
				t.Errorf("the tasks are %q, were %q", now, before)
			}
			w.Sh(`test "$(cat f)" = old; test "$(cat d/deep)" = deep; echo more >d/more; mkdir d/e; rmdir dd; mkdir dd; echo x >dd/x; rm -r d`).OK()
			w.Must("undo")
			w.Same("undo of what was done after it", start)
			w.Unmount()
			w.Same("unmounted", start)
		})
	}
}

// TestWatchersAndOpenFiles: a file that somebody has open for reading, writing or both while it is shown, and a process
// in a directory that is, go on as they were.
func TestWatchersAndOpenFiles(t *testing.T) {
	t.Parallel()
	w := rig.New(t)
	w.Sh(`echo old >f; echo two >two; mkdir -p d/e; echo x >d/x`).OK()
	w.Mount()
	start := w.Snapshot()
	in := watch(t, w, "", "f", "d")
	open := func(name string, flags int) *os.File {
		t.Helper()
		file, err := os.OpenFile(w.Path(name), flags, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { file.Close() })
		return file
	}
	reader := open("f", os.O_RDONLY)
	w.Task("change")
	w.Sh("echo new >f; echo 2 >two; mkdir made; echo y >d/y").OK()
	w.Sh("echo appended >>f").OK()
	both := open("two", os.O_RDWR)
	inside := w.Shell(w.Path("made"))
	deep := w.Shell(w.Path("d/e"))
	in.told = nil
	in.read()
	in.told = nil
	for range 3 {
		w.Must("undo")
		in.hears("undo", ": f modify", ": f close_write", "f: close_write", ": two close_write", ": made delete", "d: y delete")
		w.Same("undo", start)
		w.Must("redo")
		in.hears("redo", ": f modify", ": f close_write", "f: close_write", ": two close_write", ": made create", "d: y create")
	}
	buffer := make([]byte, 100)
	for file, want := range map[*os.File]string{reader: "new\nappended\n", both: "2\n"} {
		if n, err := file.ReadAt(buffer, 0); string(buffer[:n]) != want {
			t.Errorf("the open %s reads %q, want %q; %v", filepath.Base(file.Name()), buffer[:n], want, err)
		}
	}
	if got := inside.Say("echo z >z && cat z && cd . && pwd"); got != "z\n"+w.Path("made") {
		t.Errorf("the process in the directory that came back says %q", got)
	}
	if got := deep.Say("echo z >z && cat z && cat ../y"); got != "z\ny" {
		t.Errorf("the process deep in a directory says %q", got)
	}
}

// showsMoves is the pid of the daemon's child that shows moves, 0 for none.
func showsMoves(t *testing.T, daemon int) int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		line, _ := os.ReadFile(path)
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, after, _ := strings.Cut(string(stat), ") ")
		if fields := strings.Fields(after); len(fields) > 1 && fields[1] == strconv.Itoa(daemon) && bytes.Contains(line, []byte("show-moves")) {
			return pid
		}
	}
	return 0
}

// TestTheShowerIsNoBurden: there is no process for it before somebody watches; killed, it is started again; it holds
// nothing of the mount; and it ends with the daemon, however that ends.
func TestTheShowerIsNoBurden(t *testing.T) {
	t.Parallel()
	w := rig.New(t)
	w.Sh("echo old >f").OK()
	w.Mount()
	w.Task("change")
	w.Sh("echo new >f").OK()
	for range 5 { // the last wait for the first
		w.Must("undo")
		w.Must("redo")
	}
	if pid := showsMoves(t, w.Daemon()); pid != 0 {
		t.Errorf("nobody watches, but process %d shows moves", pid)
	}
	in := watch(t, w, "f")
	w.Must("undo")
	in.hears("undo", "f: modify")
	first := showsMoves(t, w.Daemon())
	if first == 0 {
		t.Fatal("no process shows moves")
	}
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	rig.Eventually(t, "the killed process to be reaped", func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/%d", first))
		return os.IsNotExist(err)
	})
	w.Must("redo")
	in.hears("redo, with a new process", "f: modify")
	second := showsMoves(t, w.Daemon())
	if second == 0 || second == first {
		t.Fatalf("process %d shows moves, after %d was killed", second, first)
	}
	in.close()
	w.Unmount()
	rig.Eventually(t, "the process to end with the mount", func() bool { return !rig.Alive(second) })

	w.Mount()
	again := watch(t, w, "f")
	w.Must("undo")
	again.hears("undo", "f: modify")
	third := showsMoves(t, w.Daemon())
	if third == 0 {
		t.Fatal("no process shows moves")
	}
	again.close()
	w.Kill()
	rig.Eventually(t, "the process to end with its daemon", func() bool { return !rig.Alive(third) })
}

// TestCoveredWorkspace: when something is mounted over the workspace, moves are made all the same, and what covers it is
// left alone.
func TestCoveredWorkspace(t *testing.T) {
	t.Parallel()
	w := rig.New(t)
	w.Sh("echo old >f; echo gone >g").OK()
	w.Mount()
	w.Task("change")
	w.Sh("echo new >f; rm g").OK()
	ctl, err := os.OpenFile(w.Path(".tt/ctl"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer ctl.Close()
	in := watch(t, w, "")
	if err := unix.Mount("tmpfs", w.Dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	covered := true
	uncover := func() {
		if covered {
			covered = false
			if err := unix.Unmount(w.Dir, 0); err != nil {
				t.Error(err)
			}
		}
	}
	defer uncover()
	if err := os.WriteFile(w.Path("f"), []byte("over"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ctl.Write([]byte("undo")); err != nil {
		t.Fatal(err)
	}
	if names, err := os.ReadDir(w.Dir); err != nil || len(names) != 1 || w.Read("f") != "over" {
		t.Errorf("what covers the workspace has changed: %v, f reads %q; %v", names, w.Read("f"), err)
	}
	uncover()
	if got := w.Read("f") + w.Read("g"); got != "old\ngone\n" {
		t.Errorf("after undo the files read %q", got)
	}
	w.Must("redo")
	in.hears("redo", ": f modify", ": g delete")
}
