package integration

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// blameTime is when a task began, which differs from run to run.
var blameTime = regexp.MustCompile(`\d{4}-\d\d-\d\d[T ][\d:.]+Z?`)

// TestBlameOfPaths asks who changed what, mounted and not, in the words of the command and in the files.
func TestBlameOfPaths(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	w.Sh("mkdir src; echo 0 > src/f; echo 0 > quiet").OK()
	w.Unmount()
	if err := os.RemoveAll(w.Path(".tt")); err != nil { // nobody made any of it
		t.Fatal(err)
	}
	w.Mount()
	w.Task("write")
	w.Sh("echo 1 >> src/f; mkdir -p new/deep; echo 1 > new/deep/x").OK()
	w.Task("move away")
	w.Sh("mv src/f 'src/g h'; chmod 600 'src/g h'; rm -r new").OK()
	w.Task("take back")
	w.Sh("rm 'src/g h'").OK()
	w.TTFS("undo").OK()

	lines := map[string]string{
		"src/g h":    "↯ 3 deleted  take back  [user]  TIME\n→ 2 renamed from src/f, mode  move away  [user]  TIME\n  1 modified  write  [user]  TIME\n",
		"src/f":      "→ 2 renamed to src/g h  move away  [user]  TIME\n  1 modified  write  [user]  TIME\n",
		"new/deep/x": "→ 2 deleted  move away  [user]  TIME\n  1 created  write  [user]  TIME\n",
		"new":        "→ 2 deleted  move away  [user]  TIME\n  1 created  write  [user]  TIME\n",
		"quiet":      "", "src": "",
	}
	check := func(when string) {
		t.Helper()
		for name, want := range lines {
			r := w.TTFS("blame", name).OK()
			if got := blameTime.ReplaceAllString(r.Stdout, "TIME"); got != want {
				t.Errorf("%s: %s:\n%swant\n%s", when, name, got, want)
			}
			if want == "" && !strings.Contains(r.Stderr, "no task changed "+name) {
				t.Errorf("%s: %s: %s", when, name, r)
			}
			var all []map[string]any
			if err := json.Unmarshal([]byte(w.TTFS("blame", "--json", name).OK().Stdout), &all); err != nil || len(all) != strings.Count(want, "\n") {
				t.Errorf("%s: %s: %v, %v", when, name, all, err)
			}
		}
		if r := w.TTFSIn(w.Path("src"), "blame", "f").OK(); !strings.Contains(r.Stdout, "renamed to src/g h") {
			t.Errorf("%s: from within src: %s", when, r)
		}
		w.TTFS("blame", "none").Exit(1)
		w.TTFS("blame", ".tt/log").Exit(64)
		w.TTFS("blame", "..").Exit(64)
	}
	check("mounted")
	if got, want := blameTime.ReplaceAllString(w.Read(".tt/blame/src/f"), "TIME"), "→ 2\tuser\tTIME\trenamed to src/g h\tmove away\n  1\tuser\tTIME\tmodified\twrite\n"; got != want {
		t.Errorf(".tt/blame/src/f: %q", got)
	}
	if got := w.Read(".tt/blame/new/.tt"); !strings.Contains(got, "deleted") {
		t.Errorf(".tt/blame/new/.tt: %q", got)
	}
	if _, err := os.Stat(w.Path(".tt/blame/src/none")); !os.IsNotExist(err) {
		t.Errorf("a path that never was: %v", err)
	}
	// What was a file becomes a directory under the same name, and its line is found in both.
	w.Task("a directory instead")
	w.Sh("rm quiet; mkdir quiet; echo x > quiet/x; cat .tt/blame/quiet/x .tt/blame/quiet/.tt").OK()
	w.TTFS("undo").OK()
	w.Unmount()
	lines["quiet"] = "↯ 4 modified  a directory instead  [user]  TIME\n"
	lines["quiet/x"] = "↯ 4 created  a directory instead  [user]  TIME\n"
	check("not mounted")
}

// TestDryRunAtAFork: where more than one task follows, redo goes to the one that was left last, and its preview says so,
// mounted and not; the preview changes nothing.
func TestDryRunAtAFork(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	w.Task("base")
	w.Sh("echo base > f").OK()
	w.Task("left")
	w.Sh("echo left > l").OK()
	w.TTFS("undo").OK()
	w.Task("right")
	w.Sh("echo right > r").OK()
	w.TTFS("undo").OK()
	before := w.Snapshot()
	check := func(when, verb, want string) {
		t.Helper()
		if got := w.TTFS(verb, "--dry-run").OK().Stdout; got != want {
			t.Errorf("%s: %s --dry-run is %q, want %q", when, verb, got, want)
		}
	}
	for range 2 {
		check("mounted", "redo", "task 1 -> 3, 1 path would change\n  create   r\n")
		check("mounted", "undo", "task 1 -> 0, 1 path would change\n  delete   f\n")
		w.Same("after the dry runs", before)
		w.TTFSIn(w.Dir, "--workspace", w.Dir, "switch", "2").OK()
		if r := w.TTFS("redo", "--dry-run").Exit(5); !strings.Contains(r.Stderr, "Nothing to redo") {
			t.Errorf("%s", r)
		}
		w.TTFS("switch", "3").OK()
		w.TTFS("undo").OK()
	}
	w.TTFS("switch", "0").OK()
	if r := w.TTFS("undo", "--dry-run").Exit(5); !strings.Contains(r.Stderr, "Already at root task") {
		t.Errorf("%s", r)
	}
	check("mounted", "redo", "task 0 -> 1, 1 path would change\n  create   f\n")
	w.TTFS("redo").OK()
	w.Unmount()
	check("not mounted", "redo", "task 1 -> 3, 1 path would change\n  create   r\n")
	check("not mounted", "undo", "task 1 -> 0, 1 path would change\n  delete   f\n")
}
