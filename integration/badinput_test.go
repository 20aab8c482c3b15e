package integration

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ttfs/ttfs/integration/rig"
)

// TestBadCommands writes to .tt/ctl what nobody should. Each fails in write(2)
// with the errno of DESIGN section 3, says why, and changes nothing.
func TestBadCommands(t *testing.T) {
	t.Parallel()
	w := rig.NewMounted(t)
	w.Task("one")
	w.Sh("echo 1 >f; mkdir d; echo 2 >d/g").OK()
	w.Task("two")
	w.Sh("echo 2 >f").OK()
	tree, list, active := w.Snapshot(), w.Read(".tt/tasks/list"), w.Active()

	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	invalid, missing := []error{unix.EINVAL}, []error{unix.ENOENT}
	either := []error{unix.EINVAL, unix.ENOENT} // EINVAL also from a version that cannot do it yet
	for _, c := range []struct {
		name, command string
		want          []error
	}{
		{"newline", "\n", invalid},
		{"blanks", "   ", invalid},
		{"unknown", "frobnicate", invalid},
		{"unknown with arguments", "frobnicate 1 2 3", invalid},
		{"upper case", "UNDO", invalid},
		{"glued", "undo;redo", invalid},
		{"prefix of a verb", "und", invalid},
		{"binary", string(every), invalid},
		{"zero bytes", "\x00\x00\x00\x00", invalid},
		{"not UTF-8", "\xff\xfe", invalid},
		{"huge", strings.Repeat("x", 1<<20), invalid},
		{"huge number", "switch " + strings.Repeat("9", 5000), either},
		{"switch without", "switch", invalid},
		{"switch 99", "switch 99", missing},
		{"switch -1", "switch -1", invalid},
		{"switch x", "switch x", invalid},
		{"switch 0x1", "switch 0x1", invalid},
		{"switch 1.0", "switch 1.0", invalid},
		{"switch 4294967297", "switch 4294967297", missing},
		{"switch 2^64", "switch 18446744073709551616", either},
		{"switch 1 2", "switch 1 2", invalid},
		{"revert 99", "revert 99", either},
		{"revert without", "revert", invalid},
		{"undo 1 2", "undo 1 2", invalid},
		{"undo sideways", "undo sideways", invalid},
		{"undo of nobody", "undo agent=nobody", missing},
		{"undo of a path", "undo agent=../x", either},
		{"redo with nothing ahead", "redo", missing},
		{"restore without a path", "restore 1", invalid},
		{"restore of no task", "restore 99 f", either},
		{"restore of no path", "restore 1 nowhere", either},
		{"restore upward", "restore 1 ../../../etc/passwd", []error{unix.EINVAL, unix.ENOENT, unix.EPERM}},
		{"restore absolute", "restore 1 /etc/passwd", []error{unix.EINVAL, unix.ENOENT, unix.EPERM}},
		{"agent without a name", "agent", invalid},
		{"agent with a slash", "agent a/b", invalid},
		{"agent dot dot", "agent ..", invalid},
		{"agent of unknown isolation", "agent a isolation=weird", invalid},
		{"agent of no parent", "agent a parent=nobody", missing},
		{"agent of no process", "agent a pid=x", invalid},
		{"end of nobody", "end nobody", either},
		{"fork without a name", "fork", invalid},
		{"merge of nothing", "merge nothing", either},
		{"discard of nothing", "discard nothing", either},
		{"guard maybe", "guard maybe", invalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			reply, err := w.Ctl(c.command)
			if !slices.ContainsFunc(c.want, func(want error) bool { return errors.Is(err, want) }) {
				t.Errorf("write(2) gives %v, want %v; reply %q", err, c.want, reply)
			}
			if err != nil && w.Why() == "" {
				t.Error("refused, and .tt/why is empty")
			}
		})
	}
	w.Same("after all of it", tree)
	if now := w.Read(".tt/tasks/list"); now != list {
		t.Errorf(".tt/tasks/list was\n%s\nis\n%s", list, now)
	}
	if now := w.Active(); now != active {
		t.Errorf("the active task was %d, is %d", active, now)
	}
	w.Must("undo")
	if got := w.Read("f"); got != "1\n" {
		t.Errorf("a good command after the bad ones: f is %q", got)
	}
}

// TestUndoAtTheRoot is refused in the words of the contract, from .tt/ctl and
// from the command line.
func TestUndoAtTheRoot(t *testing.T) {
	t.Parallel()
	w := rig.NewMounted(t)
	if _, err := w.Ctl("undo"); !errors.Is(err, unix.ENOENT) {
		t.Errorf("undo in a fresh workspace: %v, want ENOENT", err)
	}
	if why := w.Why(); !strings.Contains(why, "Already at root task") {
		t.Errorf(".tt/why: %q", why)
	}
	w.Task("one")
	w.Sh("echo 1 >f").OK()
	w.TTFS("undo").OK()
	result := w.TTFS("undo").Exit(5)
	if !strings.Contains(result.Stderr, "Already at root task") {
		t.Errorf("stderr does not say why: %s", result)
	}
}

// TestTitles: a title is one line, and past 60 characters it is cut to 57 and
// three dots; the characters are those of the language, not bytes.
func TestTitles(t *testing.T) {
	t.Parallel()
	w := rig.NewMounted(t)
	for _, c := range []struct{ name, title, want string }{
		{"plain", "fix the parser", "fix the parser"},
		{"of 60", strings.Repeat("a", 60), strings.Repeat("a", 60)},
		{"of 61", strings.Repeat("a", 61), strings.Repeat("a", 57) + "..."},
		{"of 61 wide", strings.Repeat("é", 61), strings.Repeat("é", 57) + "..."},
		{"of 30,000", strings.Repeat("b", 30000), strings.Repeat("b", 57) + "..."},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := w.Task(c.title)
			if got := strings.TrimSuffix(w.Read(".tt/tasks/"+itoa(id)+"/title"), "\n"); got != c.want {
				t.Errorf("title %q, want %q", got, c.want)
			}
		})
	}
}

// TestMountRefuses what it must not mount over, before anything changes.
func TestMountRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, prepare string
		say           string
	}{
		{"a foreign .tt directory", "mkdir .tt; echo theirs >.tt/notes", ".tt"},
		{"a file .tt", "echo theirs >.tt", ".tt"},
		{"a symlink .tt", "mkdir elsewhere; ln -s elsewhere .tt", ".tt"},
		{"an unknown format", "mkdir -m 700 .tt; echo 'ttfs 999' >.tt/format", "999"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := rig.New(t)
			w.Sh(c.prepare).OK()
			tree := w.Sh("find . | sort; find . -type f -exec cat {} +").OK().Stdout
			result := w.TTFSIn("/", "mount", w.Dir).Exit(1)
			if !strings.Contains(result.Stderr, c.say) {
				t.Errorf("stderr does not name %q: %s", c.say, result)
			}
			if w.Mounted() {
				t.Error("it is mounted all the same")
			}
			if now := w.Sh("find . | sort; find . -type f -exec cat {} +").OK().Stdout; now != tree {
				t.Errorf("the directory was\n%s\nis\n%s", tree, now)
			}
		})
	}
	t.Run("twice", func(t *testing.T) {
		t.Parallel()
		w := rig.NewMounted(t)
		w.Sh("echo 1 >f").OK()
		if result := w.TTFSIn("/", "mount", w.Dir); result.Code == 0 {
			t.Errorf("a second mount of one workspace: %s", result)
		}
		if got := w.Read("f"); got != "1\n" {
			t.Errorf("the first mount reads %q", got)
		}
		w.Unmount()
	})
	t.Run("no directory", func(t *testing.T) {
		t.Parallel()
		w := rig.New(t)
		w.TTFSIn("/", "mount", w.Path("missing")).Exit(1)
		w.Sh("echo x >file").OK()
		w.TTFSIn("/", "mount", w.Path("file")).Exit(1)
		if _, err := os.Lstat(w.Path("missing")); !os.IsNotExist(err) {
			t.Errorf("mount made the missing directory: %v", err)
		}
	})
}

// TestExitCodes are an interface (DESIGN section 2).
func TestExitCodes(t *testing.T) {
	t.Parallel()
	w := rig.New(t)
	plain := rig.Disk(t)
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"frobnicate"}, 64},
		{[]string{"undo", "--frobnicate"}, 64},
		{[]string{"mount"}, 64},
		{[]string{"mount", "--guard", "maybe", w.Dir}, 64},
		{[]string{"switch"}, 64},
		{[]string{"status"}, 6},
		{[]string{"task", "x"}, 6},
	} {
		w.TTFSIn(plain, c.args...).Exit(c.want)
	}
	w.Mount()
	w.Task("one")
	w.Sh("echo 1 >f").OK()
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"switch", "99"}, 5},
		{[]string{"switch", "x"}, 64},
		{[]string{"show", "99"}, 5},
		{[]string{"undo", "--agent", "nobody"}, 5},
		{[]string{"redo"}, 5},
		{[]string{"run", "--agent", "a1", "--", "sh", "-c", "exit 7"}, 7},
		{[]string{"status"}, 0},
	} {
		w.TTFS(c.args...).Exit(c.want)
	}
}
