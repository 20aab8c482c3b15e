package integration

import (
	"os"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
)

// TestOddNamesInFiles: names with newlines, tabs, quotes and bytes that are no UTF-8 stay one line each in the files under .tt, and no
// name can pass for lines of a diff; a diff of one of them alone is asked for by its name.
func TestOddNamesInFiles(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	out := w.Python(`
import os, subprocess, sys
evil = b"x\n--- a/forged\n+++ b/forged".replace(b"/", b":")
names = [b"new\nline", b"bad\xff\xfe", b"tab\there", b'"quoted"', b"back\\slash", b" lead", b"trail ", b"-- a", evil, b"bin\n", b"mode\n"]
def write(text):
    for n in names: open(n, "wb").write(text)
write(b"old\n"); open(b"bin\n", "wb").write(b"\0old")
fd = os.open(".tt/ctl", os.O_RDWR); os.write(fd, b"task odd names")
for n in names: open(b".tt/as/bot/" + n, "rb").read()
write(b"new\n"); open(b"bin\n", "wb").write(b"\0new"); os.chmod(b"mode\n", 0o700)
task = [l for l in open(".tt/status").read().split("\n") if l.startswith("task=")][0][5:]
read = lambda p: open(p, "rb").read()
for what, mark in ((".tt/tasks/%s/files" % task, b"modified "), (".tt/as/bot/.tt/stale", None)):
    lines = read(what).split(b"\n")
    assert lines.pop() == b"" and len(lines) == len(names), (what, lines)
    assert mark is None or all(l.startswith(mark) for l in lines), lines
diff = read(".tt/tasks/%s/diff" % task)
heads = [l for l in diff.split(b"\n") if l.startswith(b"--- ")]
assert len(heads) == len(names) - 1, heads
for want in (b'--- "a/new\\nline"', b"--- a/bad\xff\xfe", b'--- "a/tab\\there"', b'--- a/"quoted"', b"--- a/back\\slash", b"--- a/ lead", b"--- a/trail "):
    assert want in heads, (want, heads)
assert b'\nold mode 100644 "mode\\n"\n' in b"\n" + diff and b'Binary files "a/bin\\n" and "b/bin\\n" differ\n' in diff, diff
for n in names:
    one = subprocess.run([sys.argv[1], "diff", task, "--", os.fsdecode(n)], stdout=subprocess.PIPE, check=True).stdout
    assert one != b"" and one in diff and one.count(b"\n--- ") + one.startswith(b"--- ") == (n != b"bin\n"), (n, one)
print("whole")
`, os.Getenv(rig.EnvBinary)).OK()
	if !strings.Contains(out.Stdout, "whole") {
		t.Error(out)
	}
}
