package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/ttfs/ttfs/integration/rig"
	"github.com/ttfs/ttfs/integration/treecmp"
)

// envExample names a file that does not exist yet: TestMakeExample then makes an example of a stored workspace there, and
// beside it what it must be found to hold. That is done once for each version of the format, before the version is left.
const envExample = "TTFS_MAKE_EXAMPLE"

// exampleAgents are those with a directory and a timeline of their own in an example.
var exampleAgents = []string{"user", "bot", "sub"}

// exampleForks are its forks, by their names below .tt/forks.
var exampleForks = []string{"merged", "past", "merged/tree/.tt/forks/below"}

// examplePatches are what the example's user does, one task each, in the directory user; by then base has been written.
var examplePatches = []struct{ title, script string }{
	{"bytes", `echo rewritten >small; seq 9 >whole; printf XX | dd of=big bs=1 seek=70000 conv=notrunc; printf YY | dd of=big bs=1 seek=250000 conv=notrunc
echo appended >>log; truncate -s 5000 sparse; printf end | dd of=sparse bs=1 seek=600000 conv=notrunc; : >emptied; fallocate -p -o 65536 -l 65536 other`},
	{"names", `mv dir renamed; rm gone; rm hard2; mkdir -p made/a/b; echo 1 >made/a/b/f; cp -a big made/copy; ln -sfn small link
rm turns; mkdir turns; echo below >turns/below; rmdir empty; mkfifo pipe; mv small medium; rm -r tree; echo again >tree
mv "$(printf 'new\nline')" 'no line'; rm "$(printf 'bad\377')"; ln log log2`},
	{"attributes", `chmod 4755 log; chown 12:34 other; touch -d @1000000000.5 big; setfattr -n user.color -v red medium; setfacl -m u:1:rw medium
chmod 700 made; setfattr -x user.old other; touch -h -d @1100000000 link; ln medium hardest`},
}

// exampleBase is what is there before the mount.
const exampleBase = `echo small >small; echo old log >log; for i in $(seq 30000); do echo line $i; done >big; seq 20000 40000 >other; setfattr -n user.old -v 1 other
truncate -s 1000000 sparse; printf mid | dd of=sparse bs=1 seek=500000 conv=notrunc; echo emptied soon >emptied; mkdir dir dir/below empty tree tree/in
echo d >dir/f; ln log hard2; echo gone >gone; ln -s nothing link; seq 50000 60000 >whole; echo t >turns; echo x >tree/in/x; echo n >"$(printf 'new\nline')"; echo b >"$(printf 'bad\377')"`

// TestMakeExample makes an example when it is asked to.
func TestMakeExample(t *testing.T) {
	path := os.Getenv(envExample)
	if path == "" {
		return // nobody asked
	}
	image := filepath.Join(rig.Disk(t), "image")
	rig.NewImage(t, image, 96<<20, "-O ^has_journal -N 4096")
	var want strings.Builder
	t.Run("fill", func(t *testing.T) { // its mounts are gone when it ends
		w := rig.Image(t, image)
		fillExample(t, w, &want)
	})
	if t.Failed() {
		return
	}
	packed := image + ".small"
	for _, args := range [][]string{{"e2fsck", "-fy", image}, {"e2image", "-ra", image, packed}} { // without what was freed
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	b, err := os.ReadFile(packed)
	if err != nil {
		t.Fatal(err)
	}
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(8<<20))
	if err != nil {
		t.Fatal(err)
	}
	b = enc.EncodeAll(b, nil)
	for name, content := range map[string][]byte{path: b, strings.TrimSuffix(path, ".img.zst") + ".want": []byte(want.String())} {
		if err := os.WriteFile(name, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%s: %d bytes", path, len(b))
}

// fillExample makes the history: three agents, undone tasks, a branch, a pruned task, blobs, what an agent knows, forks,
// one of them merged, and a move that a death cut short. The states as they were made are written to want.
func fillExample(t *testing.T, w *rig.Workspace, want *strings.Builder) {
	for _, a := range exampleAgents {
		w.Run(w.Dir, "sh", "-e", "-c", "mkdir "+a+"; cd "+a+"; "+exampleBase).OK()
	}
	w.Sh("mkdir many shared; for i in $(seq 300); do echo old $i >many/$i; done; echo one >shared/f; echo one >shared/known").OK()
	below, err := os.OpenRoot(w.Dir) // as it is on the disk, whoever is mounted over it
	if err != nil {
		t.Fatal(err)
	}
	defer below.Close()
	w.Mount()
	in := func(agent string) string {
		if agent == "user" {
			return w.Dir
		}
		return w.Path(".tt/as/" + agent)
	}
	task := func(agent, title string) int {
		w.Sh(`exec 3<>"$1"; echo "task $2" >&3; cat <&3`, filepath.Join(in(agent), ".tt/ctl"), title).OK()
		return active(t, in(agent))
	}
	prunedOne := task("user", "to be pruned")
	w.Sh("echo two >shared/f; rm shared/known; echo two >shared/known").OK()
	task("user", "begin")
	w.Sh("echo begin >shared/begun").OK()
	pruneUntil(t, w, prunedOne)
	note := func(name, dir string) { fmt.Fprintf(want, "%s\n%s\n", name, picture(t, dir)) }
	w.TTFS("run", "--agent", "bot", "--", "true").OK()
	w.TTFS("run", "--agent", "sub", "--parent", "bot", "--", "true").OK()
	for _, a := range exampleAgents {
		for _, p := range examplePatches {
			id := task(a, p.title)
			w.Run(filepath.Join(in(a), a), "sh", "-e", "-c", p.script).OK()
			note(fmt.Sprintf("at %d %s", id, a), w.Path(a))
		}
	}
	for _, a := range []string{"user", "bot"} { // a branch, and at the end of it a task that is undone
		w.Sh(`echo undo >"$1"; echo undo >"$1"`, filepath.Join(in(a), ".tt/ctl")).OK()
		for _, title := range []string{"a branch", "undone"} {
			id := task(a, title)
			w.Run(filepath.Join(in(a), a), "sh", "-e", "-c", "echo "+title+" >>small; mkdir -p branch/"+title[:1]+"; rm -f turns").OK()
			note(fmt.Sprintf("at %d %s", id, a), w.Path(a))
		}
		w.Sh(`echo undo >"$1"`, filepath.Join(in(a), ".tt/ctl")).OK()
	}
	// Knowledge: bot has read a file that the user changed since.
	w.Sh("cat .tt/as/bot/shared/known >/dev/null").OK()
	task("user", "after bot read")
	w.Sh("echo three >shared/known").OK()
	// A forced undo, over what the user changed after bot.
	task("bot", "contested")
	w.Sh("echo bot >.tt/as/bot/shared/f; echo user >shared/f; ! echo undo >.tt/as/bot/.tt/ctl; echo 'undo force' >.tt/as/bot/.tt/ctl").OK()
	// Forks: one merged and changed again, one of a past task, one below another.
	task("user", "before the forks")
	inFork(t, w, "merged", "echo fork >>shared/f; mv many/1 many/moved; echo of the fork >shared/fork").OK()
	w.TTFS("merge", "merged").OK()
	inFork(t, w, "merged", "echo later >>shared/fork; mkdir user/forked; printf Z | dd of=user/big bs=1 seek=1000 conv=notrunc; rm -r user/dir").OK()
	w.Sh("echo 'fork past at=2' >.tt/ctl; echo 'fork below' >.tt/forks/merged/tree/.tt/ctl").OK()
	w.Sh("echo main >>shared/f; rm many/2").OK()
	for _, f := range exampleForks {
		for _, dir := range []string{"shared", "user"} {
			note("fork "+f+" "+dir, w.Path(".tt/forks/"+f+"/tree/"+dir))
		}
	}
	kept(t, w)
	task("user", "not archived")
	w.Sh("seq 300000 | head -c 200000 | dd of=user/big bs=200000 conv=notrunc iflag=fullblock").OK()
	cutShort(t, w, below, want, task, note)
}

// kept waits until the archiver has been by: then there are blobs, and what the agents know is stored.
func kept(t *testing.T, w *rig.Workspace) {
	t.Helper()
	rig.Patiently(t, "the archiver", func() bool {
		for line := range strings.Lines(w.Read(".tt/metrics")) {
			if n, found := strings.CutPrefix(strings.TrimSpace(line), "ttfs_archived_total "); found {
				return n != "0"
			}
		}
		return false
	})
}

// cutShort leaves the user's undo of a task of 300 files half done.
func cutShort(t *testing.T, w *rig.Workspace, below *os.Root, want *strings.Builder, task func(agent, title string) int, note func(name, dir string)) {
	t.Helper()
	note("live many", w.Path("many"))
	task("user", "cut short")
	w.Sh("for i in $(seq 3 300); do echo new $i >many/$i; done").OK()
	for _, dir := range []string{"many", "shared", "user", "bot", "sub"} {
		note("redone "+dir, w.Path(dir))
	}
	want.WriteString("log\n" + listed(t, w) + "\n")
	for tries := range 200 {
		done := make(chan error, 1)
		go func() {
			f, err := os.OpenFile(w.Path(".tt/ctl"), os.O_RDWR, 0)
			if err == nil {
				_, err = f.WriteString("undo")
				_ = f.Close()
			}
			done <- err
		}()
		seen := fmt.Sprintf("many/%d", 20+tries%10*20)
		rig.Eventually(t, "the move to come to "+seen, func() bool {
			b, _ := below.ReadFile(seen)
			return strings.HasPrefix(string(b), "old")
		})
		w.Kill()
		err := <-done
		w.Bury()
		old := strings.Count(w.Sh("cat many/[0-9]*").OK().Stdout, "old")
		if t.Logf("try %d: %v, %d of 297 are old", tries, err, old); err != nil && old > 20 && old < 280 {
			return
		}
		w.Mount()
		if old > 0 { // it was begun, and the mount has completed it
			w.Must("redo")
		}
	}
	t.Fatal("no death came in the midst of a move")
}

// active is the active task of the agent that a view is of.
func active(t *testing.T, view string) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(view, ".tt/status"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(b), "\ntask=")
	id := 0
	if _, err := fmt.Sscan(after, &id); err != nil {
		t.Fatalf("no task in the status:\n%s", b)
	}
	return id
}

// listed is the history of all agents, without times.
func listed(t *testing.T, w *rig.Workspace) string {
	t.Helper()
	var all []struct {
		ID, Parent, Under    int
		Agent, Title, Status string
	}
	if err := json.Unmarshal([]byte(w.TTFS("log", "--all", "--json").OK().Stdout), &all); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, k := range all {
		fmt.Fprintf(&b, "%d parent=%d under=%d %s %s %q\n", k.ID, k.Parent, k.Under, k.Agent, k.Status, k.Title)
	}
	return b.String()
}

// picture is all that a directory is, one line a path.
func picture(t *testing.T, dir string) string {
	t.Helper()
	tree, err := treecmp.Take(dir)
	if err != nil {
		t.Fatal(err)
	}
	return tree.Lines()
}
