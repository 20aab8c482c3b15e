package integration

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hanwen/go-fuse/v2/posixtest"
	"github.com/ttfs/ttfs/integration/rig"
	"golang.org/x/sys/unix"
)

// TestToolsInAFork is TestTools in a fork of a workspace that has a repository already: every stop of the whole timeline is
// what it was, also after a remount, and the workspace stays as it is.
func TestToolsInAFork(t *testing.T) {
	t.Parallel()
	w := rig.New(t)
	realRepository(t, w)
	w.Mount()
	w.Sh("echo dirty >>repo/db.go; echo untracked >repo/new.txt").OK()
	before := w.Snapshot()
	w.Must("fork c")
	fork := w.Fork("c")
	line := walkTools(t, fork)
	last := len(line.ids) - 1
	w.Same("after the tools in its fork", before)
	line.move(last-1, "undo")
	line.jump(0)
	line.jump(last)
	w.Unmount()
	w.Mount()
	line.same(last, "after the remount")
	line.jump(last / 2)
	line.jump(last)
	fork.Sh("cd repo; git fsck --strict --no-dangling; git status --porcelain >/dev/null").OK()
	w.Same("at the end", before)
	w.TTFS("discard", "c").OK()
	w.Same("after the fork was discarded", before)
}

// TestPosixInAFork is TestPosix in a fork.
func TestPosixInAFork(t *testing.T) {
	t.Parallel()
	w := rig.NewMounted(t)
	w.Must("fork c")
	fork := w.Fork("c")
	bare := rig.Disk(t)
	for _, name := range slices.Sorted(maps.Keys(posixtest.All)) {
		if verdict, _ := posixVerdict(t, w, name, filepath.Join(bare, name)); verdict != "PASS" {
			continue
		}
		if verdict, output := posixVerdict(t, w, name, fork.Path(name)); verdict != "PASS" {
			t.Errorf("%s passes on the bare disk, in a fork: %s\n%s", name, verdict, output)
		}
	}
}

// TestTwoForksAtOnce: git, go build and npm in two forks of one repository at the same time, each at the workspace's path. Each
// has a package of its own content installed from the repository, without a network.
func TestTwoForksAtOnce(t *testing.T) {
	t.Parallel()
	w := rig.NewMounted(t)
	w.Sh(`printf 'module example.org/app\n\ngo 1.21\n' >go.mod; mkdir part
printf 'package part\n\nconst Name = "main"\n' >part/part.go
printf 'package main\n\nimport "example.org/app/part"\n\nfunc main() { println(part.Name) }\n' >main.go
mkdir lib web; echo 'module.exports = "main"' >lib/index.js; echo '{"name":"lib","version":"1.0.0","main":"index.js"}' >lib/package.json
echo '{"name":"web","version":"1.0.0","dependencies":{"lib":"file:../lib","packed":"file:../packed-1.0.0.tgz"}}' >web/package.json
sed s/lib/packed/ lib/package.json >packed.json; mkdir packed; mv packed.json packed/package.json; echo 'module.exports = "packed"' >packed/index.js
npm pack --silent --offline ./packed >/dev/null; (cd web; npm install --silent --offline --no-audit --no-fund)
printf 'bin/\nnode_modules/\n' >.gitignore; git init -q; git add -A; git commit -qm start; go build -o bin/app .; echo note >note`).OK()
	before := w.Snapshot()
	const script = `git checkout -q -b "$1"; test -x bin/app; test "$(cat note)" = note
for i in 1 2 3; do
  sed -i "s/Name = .*/Name = \"$1-$i\"/" part/part.go; go build -o bin/app .; ./bin/app 2>&1 | grep -q "^$1-$i\$"
  echo "module.exports = \"$1-$i\"" >lib/index.js; rm -rf web/node_modules; (cd web; npm ci --silent --offline --no-audit --no-fund
    test "$(node -p 'require("lib") + " " + require("packed")')" = "$1-$i packed")
  git add -A; git commit -qm "$1 $i"; git gc -q
done
git fsck --strict --no-dangling; test -z "$(git status --porcelain)"; pwd`
	results := make([]*rig.Result, 2)
	var all sync.WaitGroup
	for i, name := range []string{"one", "two"} {
		all.Go(func() {
			results[i] = w.TTFS("run", "--isolation", "fork", "--agent", name, "--", "sh", "-e", "-c", script, "sh", name)
		})
	}
	all.Wait()
	for i, name := range []string{"one", "two"} {
		if r := results[i].OK(); r.Stdout != w.Dir+"\n" {
			t.Errorf("%s: %s", name, r)
		}
		tree := w.Fork(name)
		got := tree.Sh("git log --format=%s -1; ./bin/app 2>&1; git branch --show-current; cd web; node -p 'require(\"lib\")'").OK().Stdout
		if got != name+" 3\n"+name+"-3\n"+name+"\n"+name+"-3\n" {
			t.Errorf("%s: %q", name, got)
		}
	}
	w.Same("after two forks", before)
	if got := w.Sh("./bin/app 2>&1; git log --oneline --all | wc -l; cd web; node -p 'require(\"lib\")'").OK().Stdout; got != "main\n1\nmain\n" {
		t.Errorf("the workspace: %q", got)
	}
}

// TestForkUnprivileged: another user than root, who may mount nothing, runs commands in forks all the same, whether root has
// mounted the workspace or he himself; they have no more rights in it than outside, and are found in it.
func TestForkUnprivileged(t *testing.T) {
	for _, c := range []struct {
		name    string
		mounted bool
	}{
		{"mounted by root", true}, {"mounted by himself", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := rig.New(t)
			w.Sh("echo theirs >f; mkdir d; chown -R 65534:65534 .").OK()
			for dir := filepath.Dir(w.Dir); dir != "/"; dir = filepath.Dir(dir) {
				if err := os.Chmod(dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			binary := filepath.Join(filepath.Dir(w.Dir), "ttfs")
			w.Sh(`cp "$1" "$2"; chmod 755 "$2"`, os.Getenv(rig.EnvBinary), binary).OK()
			as := func(args ...string) *rig.Result {
				return w.Run("/", "setpriv", append([]string{"--reuid", "65534", "--regid", "65534", "--clear-groups", "--"}, args...)...)
			}
			if c.mounted {
				w.Mount()
			} else {
				openDevice(t, w)
				as(binary, "mount", w.Dir).OK()
			}
			in := func(script string) *rig.Result {
				return as("sh", "-ec", `cd "$1"; shift; exec "$@"`, "sh", w.Path("d"), binary, "run", "--isolation", "fork", "--agent", "c", "--", "sh", "-ec", script)
			}
			r := in(`pwd; id -u; cat ../f; echo mine >../f; echo new >new; stat -c %u new; grep CapEff /proc/self/status; grep CapAmb /proc/self/status
! umount ` + w.Dir + ` 2>/dev/null; cat ../f; cat ../.tt/status`).OK()
			want := w.Path("d") + "\n65534\ntheirs\n65534\nCapEff:\t0000000000000000\nCapAmb:\t0000000000000000\nmine\n"
			if !strings.HasPrefix(r.Stdout, want) || !strings.Contains(r.Stdout, "agent=c\n") {
				t.Errorf("want %q: %s", want, r)
			}
			if got := as("cat", w.Path("f"), w.Path(".tt/forks/c/tree/f")).OK().Stdout; got != "theirs\nmine\n" {
				t.Errorf("the files: %q", got)
			}
			in("sleep 600 >/dev/null 2>&1 & echo $! >pid").OK()
			pid := strings.TrimSpace(as("cat", w.Path(".tt/forks/c/tree/d/pid")).OK().Stdout)
			if r := as(binary, "-w", w.Dir, "discard", "c").Exit(3); !strings.Contains(r.Stderr, pid) {
				t.Errorf("it does not name process %s: %s", pid, r)
			}
			as("kill", pid).OK()
			rig.Eventually(t, "the fork to be free", func() bool { return as(binary, "-w", w.Dir, "discard", "c").Code == 0 })
			if !c.mounted {
				as(binary, "unmount", w.Dir).OK()
			}
		})
	}
}

// openDevice lets everybody open /dev/fuse, as most machines do, in the test's own mounts.
func openDevice(t *testing.T, w *rig.Workspace) {
	t.Helper()
	device := filepath.Join(filepath.Dir(w.Dir), "fuse")
	if err := unix.Mknod(device, unix.S_IFCHR|0o666, int(unix.Mkdev(10, 229))); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(device, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(device, "/dev/fuse", "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount("/dev/fuse", unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}
