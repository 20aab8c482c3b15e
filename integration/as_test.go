package integration

import (
	"strings"
	"testing"
)

// TestTwoAgentsInOneProcess: a harness that is one process does what its agents want through their views.
func TestTwoAgentsInOneProcess(t *testing.T) {
	w := mounted(t)
	put(t, w, "f", "from the user\n")
	put(t, w, "gone", "x\n")
	out := w.Python(`
import errno, mmap, os, sys
a, b = ".tt/as/a/", ".tt/as/b/"
assert open(a + "f").read() == "from the user\n"
open(b + "f", "w").write("from b\n")
assert open("f").read() == "from b\n", open("f").read()
try:
    open(a + "f", "w")
    sys.exit("a destroyed what b wrote")
except OSError as e:
    assert e.errno == errno.ESTALE, e
assert "b" in open(a + ".tt/why").read()
assert open(a + ".tt/stale").read() == "f\tb\n", open(a + ".tt/stale").read()
assert open(a + "f").read() == "from b\n"
open(a + "f", "w").write("from a\n")
os.mkdir(a + "dir"); open(a + "dir/new", "w").write("made by a"); os.rename(a + "dir/new", a + "dir/newer")
os.unlink(b + "gone")
assert os.stat(a + "f").st_ino == os.stat("f").st_ino == os.stat(b + "f").st_ino
assert "agent=a\n" in open(a + ".tt/status").read()
fd = os.open("f", os.O_RDWR); m = mmap.mmap(fd, 0)
assert m[:6] == b"from a"
open(b + "dir/newer").read()
assert os.listdir(".tt/as") == []
print("done")
`).OK()
	if !strings.Contains(out.Stdout, "done") {
		t.Fatal(out)
	}
	if got := get(t, w, "dir/newer"); got != "made by a" {
		t.Errorf("the main tree does not see what a made: %q", got)
	}
	for agent, want := range map[string]string{"a": "modified f", "b": "deleted gone"} {
		files := w.Read(".tt/tasks/" + strings.TrimSpace(w.Read(".tt/agents/"+agent+"/active")) + "/files")
		if !strings.Contains(files, want) {
			t.Errorf("the task of %s has no %q:\n%s", agent, want, files)
		}
	}
	w.Sh("! echo undo > .tt/as/b/.tt/ctl; grep -q 'f.*a' .tt/as/b/.tt/conflicts; echo undo skip > .tt/as/b/.tt/ctl").OK()
	if got := get(t, w, "gone"); got != "x\n" {
		t.Errorf("after b's undo: %q", got)
	}
	if got := get(t, w, "dir/newer"); got != "made by a" {
		t.Errorf("b's undo took a's work away: %q", got)
	}
	w.Sh("! ls .tt/as/..x 2>/dev/null; ! ls .tt/as/user 2>/dev/null; mv .tt/as/a/dir/newer .tt/as/a/moved; test ! -e dir/newer; cat moved").OK()
}
