package integration

import (
	"os"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
)

// changedOf are the paths that a merge says it changed.
func changedOf(r *rig.Result) string {
	var all []string
	for line := range strings.Lines(r.Stdout) {
		if strings.HasPrefix(line, "  ") {
			all = append(all, strings.Join(strings.Fields(line), " "))
		}
	}
	return strings.Join(all, "\n")
}

// TestMerge: all that a fork changed comes, content, modes, deletions, renames, links, binaries, untracked and ignored files,
// merged by line with what changed in the workspace; as one task, which undo takes back exactly. A second merge brings only
// what is new.
func TestMerge(t *testing.T) {
	w := project(t)
	w.Sh(`for i in $(seq 20); do echo line $i; done >both; mkdir dir; echo 1 >dir/1; echo 2 >dir/2; head -c 300000 /dev/urandom >big; git add -A; git commit -qm two`).OK()
	inFork(t, w, "c", `sed -i 's/^line 2$/of the fork/' both; echo fork >>src/f; rm new; chmod 755 .gitignore; mv dir/1 dir/moved; mv dir renamed
ln -sfn both link; printf '\000\001\377' >binary; echo untracked >fresh; echo fork >src/x.o; mkfifo fifo; mkdir -p deep/er; echo x >deep/er/x
printf tail >>big; ln both hard; setfattr -n user.color -v red big; rmdir empty; touch -d @1000000000 src/f`).OK()
	w.Task("main's own")
	w.Sh("sed -i 's/^line 19$/of main/' both; echo main >mine; echo 3 >dir/3").OK()
	before := w.Snapshot()
	dry := w.TTFS("merge", "c", "--dry-run").OK()
	w.Same("after the dry run", before)
	r := w.TTFS("merge", "c").OK()
	if !strings.HasPrefix(r.Stdout, "task ") || changedOf(dry) == "" {
		t.Errorf("merge: %s\ndry run: %s", r, dry)
	}
	w.Sh(`test "$(sed -n 2p both)" = 'of the fork'; test "$(sed -n 19p both)" = 'of main'; test "$(wc -l <both)" = 20
test "$(cat src/f)" = "$(printf '1\n2\n3\ndirty\nfork')"; test ! -e new; test "$(stat -c %a .gitignore)" = 755
test ! -e dir; test "$(cat renamed/moved renamed/2 renamed/3)" = "$(printf '1\n2\n3')"; test "$(readlink link)" = both
test "$(od -An -tx1 binary | tr -d ' ')" = 0001ff; test "$(cat fresh src/x.o mine deep/er/x)" = "$(printf 'untracked\nfork\nmain\nx')"
test -p fifo; test "$(tail -c 4 big)" = tail; test "$(stat -c %s big)" = 300004; test both -ef hard; test ! -e empty
test "$(getfattr --only-values -n user.color big)" = red`).OK()
	merged := w.Snapshot()
	if r := w.TTFS("merge", "c").OK(); !strings.Contains(r.Stdout, "nothing to merge") {
		t.Errorf("again: %s", r)
	}
	w.Same("after nothing was merged", merged)
	w.TTFS("undo").OK()
	w.Same("after the undo", before)
	w.TTFS("redo").OK()
	w.Same("after the redo", merged)
	inFork(t, w, "c", "echo second >>fresh; echo 4 >renamed/4").OK()
	if r := w.TTFS("merge", "c").OK(); changedOf(r) != "modify fresh\ncreate renamed/4" && changedOf(r) != "modified fresh\ncreated renamed/4" {
		t.Errorf("the second merge: %s", r)
	}
	w.Sh(`test "$(cat fresh renamed/4)" = "$(printf 'untracked\nsecond\n4')"; test "$(sed -n 19p both)" = 'of main'; git fsck --strict --no-dangling 2>&1`).OK()
	tree := w.Snapshot()
	w.TTFS("discard", "c").OK()
	w.Same("after the fork was discarded", tree)
}

// TestMergeConflict: where both sides changed the same and it cannot be merged, nothing is, and the paths are listed; mine and
// theirs decide.
func TestMergeConflict(t *testing.T) {
	w := project(t)
	inFork(t, w, "c", "sed -i s/2/fork/ src/f; echo fork >new; echo only >only").OK()
	parent := agent(t, w, "other")
	parent.Say("echo 'task mine' >.tt/ctl; cat src/f >/dev/null; sed -i s/2/main/ src/f")
	w.Sh("rm new").OK()
	before := w.Snapshot()
	r := w.TTFS("merge", "c").Exit(3)
	w.Same("after the refusal", before)
	for _, name := range []string{".tt/conflicts", ".tt/forks/c/conflicts"} {
		if got := w.Read(name); !strings.Contains(got, "src/f\tother\t") || !strings.Contains(got, "new\t") || strings.Contains(got, "only") {
			t.Errorf("%s: %q", name, got)
		}
	}
	if !strings.Contains(r.Stderr, "src/f") || !strings.Contains(r.Stderr, "force=mine") {
		t.Errorf("the refusal: %s", r)
	}
	w.TTFS("merge", "c", "--dry-run").Exit(3)
	w.Same("after the dry run", before)
	w.TTFS("merge", "c", "--force", "mine").OK()
	w.Sh(`test "$(sed -n 2p src/f)" = main; test ! -e new; test "$(cat only)" = only; test ! -s .tt/forks/c/conflicts`).OK()
	w.TTFS("undo").OK()
	w.Same("after the undo", before)
	w.Must("fork d")
	w.Sh("cd .tt/forks/d/tree; sed -i s/main/d/ src/f").OK()
	w.Sh("sed -i s/main/again/ src/f").OK()
	w.TTFS("merge", "d", "--force", "theirs").OK()
	w.Sh(`test "$(sed -n 2p src/f)" = d`).OK()
	w.TTFS("merge", "d", "--force", "both").Exit(64)
	w.TTFS("merge", "none").Exit(5)
}

// TestMergeStrict: what the fork has read and others have changed since refuses a strict merge.
func TestMergeStrict(t *testing.T) {
	w := project(t)
	inFork(t, w, "c", "cat src/f >/dev/null; echo from what it read >result").OK()
	w.Sh("echo changed >>src/f").OK()
	before := w.Snapshot()
	if r := w.TTFS("merge", "c", "--strict").Exit(3); !strings.Contains(r.Stderr, "src/f") {
		t.Error(r)
	}
	w.Same("after the refusal", before)
	w.TTFS("merge", "c").OK()
	w.Sh("cat result").OK()
}

// TestMergeIsForWhom: who made the fork and those above; not the fork's agent, nor a stranger, nor who may change nothing.
// A fork of a fork is merged into that, and then into the workspace.
func TestMergeIsForWhom(t *testing.T) {
	w := project(t)
	r := w.TTFS("run", "--isolation", "fork", "--agent", "c", "--", "sh", "-ec", `"$0" run --isolation fork --agent d -- sh -c 'echo d >by-d'
test ! -e by-d; "$0" merge d; cat by-d; cat .tt/tasks/list; echo c >by-c
if "$0" -w .tt/forks/d/tree merge d; then exit 7; fi`, os.Getenv(rig.EnvBinary)).OK()
	if !strings.Contains(r.Stdout, "merge d") {
		t.Errorf("no task of it: %s", r)
	}
	stranger := agent(t, w, "stranger")
	if out := stranger.Say("echo 'merge c' >.tt/ctl; echo exit=$?; cat .tt/why"); strings.Contains(out, "exit=0") || !strings.Contains(out, "Not yours") {
		t.Errorf("a stranger merged: %s", out)
	}
	w.TTFS("run", "--isolation", "ro", "--agent", "r", "--", "sh", "-c", "! echo 'merge c' >.tt/ctl").OK()
	w.Sh("test ! -e by-d; test ! -e by-c").OK()
	w.TTFS("merge", "c").OK()
	w.Sh("cat by-d by-c").OK()
	w.Kill()
	w.Bury()
	w.Mount()
	if r := w.TTFS("merge", "c").OK(); !strings.Contains(r.Stdout, "nothing to merge") {
		t.Errorf("after a death: %s", r)
	}
	w.TTFS("undo").OK()
	w.Sh("test ! -e by-d; test ! -e by-c; test -e .tt/forks/c/tree/by-c").OK()
}

// TestMergeIntoAFork: a merge into a fork of what that has never touched is undone and done again there, and comes from there
// into the workspace.
func TestMergeIntoAFork(t *testing.T) {
	w := project(t)
	w.Sh("mkdir -p dir/sub; echo 1 >dir/1; echo 2 >dir/sub/2; echo gone >gone; for i in $(seq 20); do echo line $i; done >both").OK()
	w.Must("fork c")
	c := w.Fork("c")
	c.Must("fork d")
	before := c.Snapshot()
	d := c.Fork("d")
	d.Sh("rm gone; echo more >>src/f; mv dir moved; chmod 600 .gitignore; echo fresh >fresh; sed -i 's/^line 2$/of d/' both; rm moved/1").OK()
	want := d.Snapshot()
	c.Must("merge d")
	same := func(when string) {
		t.Helper()
		for line := range strings.Lines(c.Differs(want)) {
			// Directories in which something came or went have got the time of that.
			if strings.Contains(line, "want") && !strings.Contains(line, `".": mtime`) && !strings.Contains(line, `"moved": mtime`) || strings.Contains(line, "missing") || strings.Contains(line, "should not") {
				t.Errorf("%s c is not what d is: %s", when, line)
			}
		}
	}
	same("after the merge")
	c.Must("undo")
	c.Same("after the undo in c", before)
	c.Must("redo")
	same("after the redo")
	merged := c.Snapshot()
	w.Unmount()
	w.Mount()
	c.Same("after a remount", merged)
	start := w.Snapshot()
	w.Must("merge c")
	w.Sh("test ! -e gone; test ! -e dir; test \"$(cat moved/sub/2 fresh)\" = \"$(printf '2\\nfresh')\"; test ! -e moved/1; tail -1 src/f | grep -q more; grep -q 'of d' both").OK()
	w.Must("undo")
	w.Same("after the undo", start)
}
