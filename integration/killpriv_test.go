package integration

import (
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
)

// TestWriteTakesPrivileges has somebody without privileges write to setuid
// files of his own: the mode that the kernel runs them by is the new one at
// once, not when its attributes are a second old.
func TestWriteTakesPrivileges(t *testing.T) {
	t.Parallel()
	w := rig.NewMounted(t)
	w.Task("make")
	w.Python(`
import os
for n in "append", "update", "empty", "cut":
    with open(n, "wb") as f: f.write(b"content")
    os.chown(n, 65534, 65534)
`).OK()
	w.Task("write")
	w.Python(`
import os, subprocess
# stat(1) asks for the mode alone, as execve does; stat(2) asks for times too,
# which the kernel fetches anew after a write, and the mode with them.
def privileged(n): return int(subprocess.check_output(["stat", "-c", "%a", n]), 8) & 0o6000
os.setgroups([]); os.setgid(65534); os.setuid(65534)
bad = []
for n, flags in ("append", os.O_WRONLY | os.O_APPEND), ("update", os.O_RDWR), ("empty", os.O_WRONLY | os.O_TRUNC):
    for _ in range(3):
        os.chmod(n, 0o6755)
        f = os.open(n, flags); os.write(f, b"x")
        if privileged(n): bad.append(n)
        os.close(f)
os.chmod("cut", 0o6755); os.truncate("cut", 1)
if privileged("cut"): bad.append("cut")
if bad: raise SystemExit("still privileged: %s" % bad)
`).OK()
}
