package integration

import (
	"encoding/binary"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ttfs/ttfs/integration/rig"
	"github.com/ttfs/ttfs/integration/treecmp"
)

// TestControlDirectoryIsHidden: readdir does not list .tt, so that tools do not
// walk into it, but its names open; and the root cannot lose it.
func TestControlDirectoryIsHidden(t *testing.T) {
	t.Parallel()
	w := rig.NewMounted(t)
	w.Task("one")
	w.Sh("echo 1 >f; mkdir d").OK()
	if got := w.Sh("ls -A; find . | sort").OK().Stdout; strings.Contains(got, ".tt") {
		t.Errorf("listed: %q", got)
	}
	names, err := os.ReadDir(w.Path(".tt"))
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, name := range names {
		listed = append(listed, name.Name())
	}
	for _, name := range []string{"README", "ctl", "status", "status.json", "why", "why.json", "log", "metrics", "tasks", "at", "agents"} {
		if !slices.Contains(listed, name) {
			t.Errorf(".tt lists no %s: %q", name, listed)
		}
	}
	for _, name := range []string{"README", "status", "log", "metrics"} {
		if w.Read(".tt/"+name) == "" {
			t.Errorf(".tt/%s is empty", name)
		}
	}
	for what, call := range map[string]func() error{
		"rmdir .tt":          func() error { return unix.Rmdir(w.Path(".tt")) },
		"unlink .tt":         func() error { return unix.Unlink(w.Path(".tt")) },
		"mkdir .tt":          func() error { return unix.Mkdir(w.Path(".tt"), 0o755) },
		"rename .tt":         func() error { return unix.Rename(w.Path(".tt"), w.Path("elsewhere")) },
		"rename over .tt":    func() error { return unix.Rename(w.Path("d"), w.Path(".tt")) },
		"unlink .tt/ctl":     func() error { return unix.Unlink(w.Path(".tt/ctl")) },
		"create in .tt":      func() error { return os.WriteFile(w.Path(".tt/new"), nil, 0o644) },
		"rename into .tt":    func() error { return unix.Rename(w.Path("f"), w.Path(".tt/f")) },
		"create in .tt/at/0": func() error { return os.WriteFile(w.Path(".tt/at/0/new"), nil, 0o644) },
	} {
		if err := call(); err == nil {
			t.Errorf("%s succeeded", what)
		}
	}
	w.Sh("rm -rf -- *; test -e .tt/ctl").OK()
	w.Must("undo")
}

// TestHistoryAsFiles: .tt/at/N is the workspace as it was, read-only;
// .tt/tasks/N says what the task did and keeps what was before.
func TestHistoryAsFiles(t *testing.T) {
	t.Parallel()
	w := rig.New(t)
	w.Sh("mkdir -p src/deep empty; echo old >src/f; echo gone >gone; ln -s f src/link; chmod 640 src/f; printf big | head -c 3 >src/deep/x").OK()
	w.Mount()
	trees := []treecmp.Tree{w.Snapshot()}
	ids := []int{0}
	for _, script := range []string{
		"echo new >src/f; rm gone; mkdir made; echo in >made/file",
		"mv src/deep made/deep; chmod 600 src/f; ln -sfn /no src/link; rmdir empty",
		"rm -rf src; echo >src",
	} {
		ids = append(ids, w.Task("step"))
		w.Sh(script).OK()
		trees = append(trees, w.Snapshot())
	}
	for i, id := range ids {
		got, err := treecmp.Take(w.Path(".tt/at/" + itoa(id)))
		if err != nil {
			t.Errorf("at/%d: %v", id, err)
			continue
		}
		if report := treecmp.Report(withoutTop(trees[i]), withoutTop(got)); report != "" {
			t.Errorf("at/%d is not the tree at the end of task %d:\n%s", id, id, report)
		}
		err = os.WriteFile(w.Path(".tt/at/"+itoa(id)+"/new"), nil, 0o644)
		if err == nil || err.(*os.PathError).Err != unix.EROFS {
			t.Errorf("a write into at/%d: %v, want EROFS", id, err)
		}
	}
	task := ".tt/tasks/" + itoa(ids[1]) + "/"
	want := "deleted gone\ncreated made\ncreated made/file\nmodified src/f\n"
	if got := w.Read(task + "files"); got != sortedByPath(want) {
		t.Errorf("files: %q, want %q", got, sortedByPath(want))
	}
	if got := w.Read(task+"before/gone") + w.Read(task+"before/src/f"); got != "gone\nold\n" {
		t.Errorf("before/: %q", got)
	}
	if got := w.Read(task + "diff"); !strings.Contains(got, "-old\n+new\n") {
		t.Errorf("diff: %q", got)
	}
	tree := w.Snapshot()
	if got := w.Read(task + "preview"); !strings.Contains(got, "modify src\n") && !strings.Contains(got, "create src/f\n") {
		t.Errorf("preview: %q", got)
	}
	w.Same("after reading history", tree)
}

// withoutTop leaves out the top directory itself, whose times belong to the view,
// and link counts, which depend on the names that history keeps.
func withoutTop(tree treecmp.Tree) treecmp.Tree {
	copied := tree.WithoutLinkCounts()
	delete(copied, ".")
	return copied
}

func sortedByPath(list string) string {
	lines := strings.Split(strings.TrimSpace(list), "\n")
	slices.SortFunc(lines, func(a, b string) int {
		_, pathA, _ := strings.Cut(a, " ")
		_, pathB, _ := strings.Cut(b, " ")
		return strings.Compare(pathA, pathB)
	})
	return strings.Join(lines, "\n") + "\n"
}

// TestHistoryIsListedWithTypes: who lists a directory of the past is told what each entry is, so that a walk need not ask for each.
func TestHistoryIsListedWithTypes(t *testing.T) {
	t.Parallel()
	w := rig.NewMounted(t)
	w.Task("one")
	w.Sh("mkdir d d/dir; echo 1 >d/file; ln -s x d/link; mkfifo d/fifo; touch d/gone").OK()
	w.Task("two")
	w.Sh("rm -r d/gone d/link; mkdir d/link").OK()
	fd, err := unix.Open(w.Path(".tt/at/1/d"), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	b := make([]byte, 4096)
	n, err := unix.Getdents(fd, b)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]byte{}
	for b = b[:n]; len(b) > 0; b = b[binary.NativeEndian.Uint16(b[16:]):] {
		name, _, _ := strings.Cut(string(b[19:binary.NativeEndian.Uint16(b[16:])]), "\x00")
		got[name] = b[18]
	}
	want := map[string]byte{".": unix.DT_DIR, "..": unix.DT_DIR, "dir": unix.DT_DIR, "file": unix.DT_REG, "link": unix.DT_LNK, "fifo": unix.DT_FIFO, "gone": unix.DT_REG}
	if !maps.Equal(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}
}
