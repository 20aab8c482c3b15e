package integration

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ttfs/ttfs/integration/rig"
	"github.com/ttfs/ttfs/integration/treecmp"
)

// TestWhatCheckpointsLose does with one script all that a checkpoint in a shadow
// repository does not bring back, and takes it back with one undo: exactly, and
// without touching what the user did elsewhere meanwhile.
func TestWhatCheckpointsLose(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		burst func(w *rig.Workspace)
		undo  string
	}{
		{"by the user", func(w *rig.Workspace) {
			w.Sh(`echo "task burst" > .tt/ctl; ` + lostBurst).OK()
		}, "undo"},
		{"by an agent", func(w *rig.Workspace) {
			w.Sh("echo 'task mine' > .tt/ctl; echo before >>mine/changed; echo new >mine/early").OK()
			w.TTFS("run", "--agent", "a1", "--task", "burst", "--", "sh", "-e", "-c", lostBurst).OK()
			w.Sh("echo after >>mine/changed; echo new >mine/late; rm mine/gone; mkdir mine/dir").OK()
		}, "undo agent=a1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := rig.New(t)
			w.Sh(lostTree).OK()
			w.Mount("--guard", "off") // this is about undo; the agent's script overwrites what it has not read
			before := w.Snapshot()
			c.burst(w)
			after := w.Snapshot()
			if n := len(treecmp.Diff(before, after)); n < 60 {
				t.Errorf("the burst makes only %d differences: it does not test what it should", n)
			}
			want := graft(before, after, "mine")

			takeBack(t, w, c.undo, after)
			w.Same("after undo", want)
			takeBack(t, w, strings.Replace(c.undo, "undo", "redo", 1), want)
			w.Same("after redo", after)
			takeBack(t, w, c.undo, after)
			w.Unmount()
			w.Same("the plain directory after undo", want)
		})
	}
}

// TestMountChangesNothing: mounting, looking and unmounting leave every property
// of every path as it was, and the mount shows them all; also the times of the
// top directory, in which the first mount makes .tt.
func TestMountChangesNothing(t *testing.T) {
	t.Parallel()
	w := rig.New(t)
	w.Sh(lostTree).OK()
	before := w.Snapshot()
	w.Mount()
	shown := w.Snapshot()
	w.Unmount()
	after := w.Snapshot()
	for moment, got := range map[string]treecmp.Tree{"the mount shows": shown, "after unmount": after} {
		if report := treecmp.Report(before, got); report != "" {
			t.Errorf("%s:\n%s", moment, report)
		}
	}
}

// takeBack moves. A protected path (`.env`, DESIGN 5.3) refuses the move before
// anything changes, and force moves it.
func takeBack(t *testing.T, w *rig.Workspace, command string, now treecmp.Tree) {
	t.Helper()
	_, err := w.Ctl(command)
	if err == nil {
		return
	}
	if !errors.Is(err, unix.EPERM) {
		t.Fatalf("%s: %v; why: %s", command, err, w.Why())
	}
	if conflicts := w.Read(".tt/conflicts"); !strings.Contains(conflicts, ".env") {
		t.Errorf("%s is refused as protected, but .tt/conflicts does not name .env: %q", command, conflicts)
	}
	w.Same("after a refused "+command, now)
	w.Must(command + " force")
}

// graft is base with everything at and under top as in other.
func graft(base, other treecmp.Tree, top string) treecmp.Tree {
	tree := treecmp.Tree{}
	under := func(path string) bool { return path == top || strings.HasPrefix(path, top+"/") }
	for path, entry := range base {
		if !under(path) {
			tree[path] = entry
		}
	}
	for path, entry := range other {
		if under(path) {
			tree[path] = entry
		}
	}
	return tree
}

// lostTree is the workspace before: everything dated, so that times count.
const lostTree = `
git init -q .
printf 'build/\nnode_modules/\n*.secret\n' >.gitignore
printf '* text=auto\n' >.gitattributes
mkdir -p src mine build/deep node_modules/.bin node_modules/pkg/lib empty/inside keep nested
printf 'one\r\ntwo\r\nthree\r\n' >src/crlf.txt
printf 'package src\n' >src/a.go; printf 'package src // b\n' >src/b.go
printf '#!/bin/sh\necho run\n' >src/run.sh; chmod 755 src/run.sh
printf 'key' >src/private; chmod 600 src/private
printf 'ignored' >token.secret; printf 'TOKEN=1\n' >.env; chmod 600 .env
for i in 1 2 3 4 5 6 7 8 9; do echo "obj $i" >build/deep/$i.o; echo "lib $i" >node_modules/pkg/lib/$i.js; done
ln -s ../pkg/lib/1.js node_modules/.bin/pkg
yes 0123456789abcde | head -c 12000000 >binary
git -C nested init -q; echo n >nested/file; git -C nested add .; git -C nested commit -qm nested; git -C nested gc -q
echo pair >src/pair1; ln src/pair1 keep/pair2
echo attrs >src/attrs; setfattr -n user.note -v kept src/attrs; setfacl -m u:12:r src/attrs; setfacl -d -m u:12:rx keep
mkfifo -m 640 src/fifo
printf head >src/sparse; truncate -s 5M src/sparse; printf tail | dd of=src/sparse bs=1 seek=4000000 conv=notrunc status=none
echo nl >'name
newline'; echo raw >"$(printf 'raw\377\376')"; echo dash >./-dash; echo space >' lead and trail '
ln -s src/a.go link; ln -s /no/where dangling
echo c >mine/changed; echo g >mine/gone
git add -A .gitignore .gitattributes src/a.go src/crlf.txt src/run.sh; git commit -qm start
echo staged >>src/a.go; git add src/a.go; echo unstaged >>src/a.go
find . -path ./.git -prune -o -exec touch -h -d '2001-02-03 04:05:06.123456789' {} +
git update-index -q --refresh || true
`

// lostBurst leaves nothing of it as it was, but for mine/.
const lostBurst = `
echo TOKEN=2 >.env; chmod 644 .env; rm token.secret; echo other >new.secret
rm -rf node_modules build; mkdir -p node_modules/other build; echo o >node_modules/other/i.js; echo out >build/out
printf X | dd of=binary bs=1 seek=6000000 conv=notrunc status=none; truncate -s 11M binary; echo end >>binary
echo m >>nested/file; git -C nested commit -qam more; rm -rf nested/.git/hooks; rm nested/file
sed -i 's/\r$//' src/crlf.txt; git add --renormalize . 2>/dev/null || true; git commit -qam burst
git rm -q --cached src/run.sh; chmod -x src/run.sh; chmod 644 src/private; touch src/b.go
rm src/pair1; echo broken >src/pair1; ln src/b.go src/b2.go
setfattr -n user.note -v lost src/attrs; setfattr -n user.more -v x src/attrs; setfacl -b src/attrs; setfacl -k keep
rm src/fifo; mkdir src/fifo; cp --sparse=never src/sparse s2; mv s2 src/sparse
rm -rf empty; mkdir made; mkdir made/dir; mkfifo made/fifo
rm 'name
newline'; mv "$(printf 'raw\377\376')" "$(printf 'moved\200')"; rm ./-dash; mv ' lead and trail ' plain
ln -sfn src/b.go link; rm dangling; mkdir dangling; echo in >dangling/file
rm -rf .git/refs/tags .git/description; chmod 700 src; touch -d '1999-01-01' keep .
`
