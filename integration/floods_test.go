package integration

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
	"golang.org/x/sys/unix"
)

// floodLimit is what a flood may make of the daemon. Units: KiB.
const floodLimit = 200 << 10

// bounded says what the daemon takes after a flood, and that somebody else is served as before.
func bounded(t *testing.T, w *rig.Workspace, flood string) {
	t.Helper()
	kib := residentKiB(t, w.Daemon())
	if kib > floodLimit {
		t.Errorf("%s: the daemon takes %d KiB", flood, kib)
	}
	t.Logf("%s: the daemon takes %d KiB", flood, kib)
	w.Sh("echo other >other && cat other f && rm other && ls >/dev/null && cat .tt/status").OK()
}

// TestFloodOfForks: a thousand forks are made, worked in, listed and discarded.
func TestFloodOfForks(t *testing.T) {
	t.Parallel()
	n := grown(20, 1000)
	w := mounted(t)
	w.Sh("echo live >f; mkdir d; echo 1 >d/g").OK()
	for from := 0; from < n; from += 50 { // a command of the test has two minutes
		w.Python(`
import os, sys
ctl = os.open(".tt/ctl", os.O_RDWR)
for i in range(int(sys.argv[1]), int(sys.argv[2])):
    os.write(ctl, b"fork f%d" % i)
    with open(".tt/forks/f%d/tree/f" % i, "w") as f: f.write("fork %d\n" % i)
    os.mkdir(".tt/forks/f%d/tree/new" % i)
`, fmt.Sprint(from), fmt.Sprint(min(n, from+50))).OK()
	}
	w.Python(`
import os, sys
n = int(sys.argv[1])
names = sorted(os.listdir(".tt/forks"))
assert names == sorted("f%d" % i for i in range(n)), names
for i in range(0, n, 7):
    assert open(".tt/forks/f%d/tree/f" % i).read() == "fork %d\n" % i
    assert open(".tt/forks/f%d/tree/d/g" % i).read() == "1\n"
assert open("f").read() == "live\n"
`, fmt.Sprint(n)).OK()
	bounded(t, w, fmt.Sprintf("%d forks", n))
	before := w.Snapshot()
	w.Unmount()
	w.Mount()
	if got := w.Read(fmt.Sprintf(".tt/forks/f%d/tree/f", n-1)); got != fmt.Sprintf("fork %d\n", n-1) {
		t.Errorf("after a remount: %q", got)
	}
	for from := 0; from < n; from += 50 {
		w.Python(`
import os, sys
ctl = os.open(".tt/ctl", os.O_RDWR)
for i in range(int(sys.argv[1]), int(sys.argv[2])): os.write(ctl, b"discard f%d" % i)
`, fmt.Sprint(from), fmt.Sprint(min(n, from+50))).OK()
	}
	w.Sh("test -z \"$(ls .tt/forks)\"").OK()
	w.Same("with all of them discarded", before)
	w.Unmount()
	w.TTFS("fsck").OK()
}

// TestFloodOfProcesses: processes of an agent without end, many at once, deep below one another, some with tasks of their own.
func TestFloodOfProcesses(t *testing.T) {
	t.Parallel()
	n := grown(100, 10_000)
	w := mounted(t)
	w.Sh("echo f >f").OK()
	for from := 0; from < n; from += 100 { // a command of the test has two minutes
		w.TTFS("run", "--agent", "bomb", "--", "sh", "-c", `
i=`+fmt.Sprint(from)+`
while test $i -lt `+fmt.Sprint(min(n, from+100))+`; do
	i=$((i+1))
	sh -c 'read x <f; read y <.tt/status; test $(($1 % 10)) -gt 0 || echo "task number $1" >.tt/ctl' sh $i &
	test $((i % 50)) -gt 0 || wait
done
wait`).OK()
	}
	r := w.TTFS("run", "--agent", "bomb", "--", "sh", "-c", `
deep() { if test $1 -gt 0; then (deep $(($1-1))); else sed -n s/^agent=//p .tt/status; fi; }
deep 100`).OK()
	if r.Stdout != "bomb\n" {
		t.Errorf("a hundred processes down it is %q", r.Stdout)
	}
	if got := strings.Count(w.Read(".tt/agents/bomb/list"), " number "); got != n/10 {
		t.Errorf("%d tasks, want %d", got, n/10)
	}
	bounded(t, w, fmt.Sprintf("%d processes", n))
}

// TestFloodOfOneCommand: a command without an end is refused as soon as it is too long, and takes no room.
func TestFloodOfOneCommand(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	w.Sh("echo f >f").OK()
	f, err := os.OpenFile(w.Path(".tt/ctl"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	part := []byte("restore 1 " + strings.Repeat("p ", 1<<19))
	total := int64(grown(64<<20, 1<<30))
	for at := int64(0); at < total; at += int64(len(part)) {
		if _, err := f.WriteAt(part, at); err == nil {
			t.Fatalf("a command of %d bytes is taken", at+int64(len(part)))
		}
	}
	bounded(t, w, fmt.Sprintf("a command of %d MiB", total>>20))
}

// TestFloodOfOpenFiles: files that processes hold open, as many as the machine lets them.
func TestFloodOfOpenFiles(t *testing.T) {
	t.Parallel()
	n := grown(2_000, 100_000)
	var may unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &may); err != nil {
		t.Fatal(err)
	}
	if n > int(may.Max)-2000 { // the daemon has each of them open, too, and may have no more
		n = int(may.Max) - 2000
	}
	w := mounted(t)
	w.Sh("echo f >f; mkdir d").OK()
	holder := w.Shell(w.Dir)
	holder.Say(`cat >` + strconv.Quote(w.Dir+"/../hold.py") + ` <<'EOF'
import os, resource, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
left, each, kids = int(sys.argv[1]), min(10000, (hard - 100) // 1000 * 1000), []
fds = []
while left > 0:
    take = min(left, each)
    left -= take
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        for i in range(take):
            if i % 1000 == 999: print(flush=True)
            fds.append(os.open("d/%d.%d" % (os.getpid(), i % 1000), os.O_RDWR | os.O_CREAT, 0o644))
        os.write(w, b"1")
        sys.stdin.read()
        os._exit(0)
    os.read(r, 1)
    kids.append(pid)
sys.stdin.read()
EOF`)
	holder.Say("mkfifo ../go; python3 ../hold.py " + fmt.Sprint(n) + " <../go >held & exec 7>../go")
	for at := 0; at < n; at += 1000 {
		rig.Eventually(t, fmt.Sprintf("%d files to be open", at), func() bool {
			b, _ := os.ReadFile(w.Path("held"))
			return strings.Count(string(b), "\n")*1000 >= min(n, at+1000)
		})
	}
	bounded(t, w, fmt.Sprintf("%d open files", n))
	w.Task("with files open")
	w.Sh("rm -r d").OK()
	w.Must("undo")
	holder.Say("exec 7>&-; wait; rm ../go ../hold.py")
	bounded(t, w, fmt.Sprintf("%d files closed", n))
}
