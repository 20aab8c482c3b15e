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
)

// TestToolsInAFork is TestTools in a fork of a workspace that has a repository already: every stop of the whole timeline is
// what it was, also after a remount, and the workspace stays as it is.
func TestToolsInAFork(t *testing.T) {
	t.Parallel()
	w := rig.New(t)
	realRepository(t, w)
	w.Mount("--guard", "off") // the tools are an agent's here, and are to be judged by what comes back
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
	w.Mount("--guard", "off")
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

// TestTwoForksAtOnce: git and go build in two forks of one repository at the same time, each at the workspace's path.
func TestTwoForksAtOnce(t *testing.T) {
	t.Parallel()
	w := rig.NewMounted(t)
	w.Sh(`printf 'module example.org/app\n\ngo 1.21\n' >go.mod; mkdir part
printf 'package part\n\nconst Name = "main"\n' >part/part.go
printf 'package main\n\nimport "example.org/app/part"\n\nfunc main() { println(part.Name) }\n' >main.go
echo bin/ >.gitignore; git init -q; git add -A; git commit -qm start; go build -o bin/app .; echo note >note`).OK()
	before := w.Snapshot()
	const script = `git checkout -q -b "$1"; test -x bin/app; test "$(cat note)" = note
for i in 1 2 3; do
  sed -i "s/Name = .*/Name = \"$1-$i\"/" part/part.go; go build -o bin/app .; ./bin/app 2>&1 | grep -q "^$1-$i\$"
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
		if got := tree.Sh("git log --format=%s -1; ./bin/app 2>&1; git branch --show-current").OK().Stdout; got != name+" 3\n"+name+"-3\n"+name+"\n" {
			t.Errorf("%s: %q", name, got)
		}
	}
	w.Same("after two forks", before)
	if got := w.Sh("./bin/app 2>&1; git log --oneline --all | wc -l").OK().Stdout; got != "main\n1\n" {
		t.Errorf("the workspace: %q", got)
	}
}

// TestForkUnprivileged: another user than root, who may mount nothing, runs commands in forks all the same; they have no
// more rights in it than outside.
func TestForkUnprivileged(t *testing.T) {
	t.Parallel()
	w := rig.New(t)
	w.Sh("echo theirs >f; mkdir d; chown -R 1234:1234 .").OK()
	for dir := filepath.Dir(w.Dir); dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	binary := filepath.Join(filepath.Dir(w.Dir), "ttfs")
	w.Sh(`cp "$1" "$2"; chmod 755 "$2"`, os.Getenv(rig.EnvBinary), binary).OK()
	w.Mount()
	as := func(args ...string) *rig.Result {
		return w.Run(w.Path("d"), "setpriv", append([]string{"--reuid", "1234", "--regid", "1234", "--clear-groups", "--"}, args...)...)
	}
	r := as(binary, "run", "--isolation", "fork", "--agent", "c", "--", "sh", "-e", "-c",
		`pwd; id -u; cat ../f; echo mine >../f; echo new >new; stat -c %u new; grep CapEff /proc/self/status; grep CapAmb /proc/self/status; ! umount `+w.Dir+` 2>/dev/null; cat ../f; cat ../.tt/status`).OK()
	want := w.Path("d") + "\n1234\ntheirs\n1234\nCapEff:\t0000000000000000\nCapAmb:\t0000000000000000\nmine\n"
	if !strings.HasPrefix(r.Stdout, want) || !strings.Contains(r.Stdout, "agent=c\n") {
		t.Errorf("want %q: %s", want, r)
	}
	if got := w.Read("f") + w.Read(".tt/forks/c/tree/f"); got != "theirs\nmine\n" {
		t.Errorf("the files: %q", got)
	}
	as(binary, "discard", "c").OK()
}
