package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/ttfs/ttfs/integration/rig"
)

// example unpacks a stored workspace. Holes stay holes.
func example(t *testing.T, name string) string {
	t.Helper()
	packed, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	dec, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dec.Close()
	b, err := dec.DecodeAll(packed, nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(rig.Disk(t), "image")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const block = 64 << 10
	zero := string(make([]byte, block))
	for at := 0; at < len(b); at += block {
		part := b[at:min(at+block, len(b))]
		if string(part) == zero[:len(part)] {
			continue
		}
		if _, err := f.WriteAt(part, int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Truncate(int64(len(b))); err != nil {
		t.Fatal(err)
	}
	return path
}

// wanted are the pictures beside an example, by their names.
func wanted(t *testing.T, name string) map[string]string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for part := range strings.SplitSeq(string(b), "\n\n") {
		if title, body, found := strings.Cut(part, "\n"); found {
			all[title] = body
		}
	}
	return all
}

// TestUpgrade: a workspace that was stored in an earlier version of the format, or in this one some time ago, by a daemon that was
// killed in the midst of a move, holds all that was in it: the move is completed, every task is as it was by .tt/at and by moves, forks too, and
// one goes on working in it.
func TestUpgrade(t *testing.T) {
	for n := range formatNow(t) {
		name := fmt.Sprintf("format%d", n+1)
		t.Run(name, func(t *testing.T) { upgrade(t, name) })
	}
}

// formatNow is the number of the format that this ttfs writes. Each lower one has an example, made by TestMakeExample with
// the last ttfs that wrote it, and so has this one: what is written today must not change without a number of its own.
func formatNow(t *testing.T) int {
	t.Helper()
	w := rig.New(t)
	w.Mount()
	w.Unmount()
	var n int
	if _, err := fmt.Sscanf(w.Read(".tt/format"), "ttfs %d\n", &n); err != nil || n < 2 {
		t.Fatalf(".tt/format: %d, %v", n, err)
	}
	return n
}

func upgrade(t *testing.T, name string) {
	want := wanted(t, name+".want")
	w := rig.Image(t, example(t, name+".img.zst"))
	same := func(moment, name, dir string) {
		t.Helper()
		if got := strings.TrimSuffix(picture(t, dir), "\n"); want[name] == "" || got != want[name] {
			t.Errorf("%s: %s is not %q:\n%s", moment, dir, name, unlike(want[name], got))
		}
	}
	w.Mount()
	same("after the mount", "live many", w.Path("many"))
	w.Must("redo")
	for _, dir := range []string{"many", "shared", "user", "bot", "sub"} {
		same("redone", "redone "+dir, w.Path(dir))
	}
	if got := strings.TrimSuffix(listed(t, w), "\n"); got != want["log"] {
		t.Errorf("the log:\n%s", unlike(want["log"], got))
	}
	for title := range want {
		var id int
		var agent string
		if n, _ := fmt.Sscanf(title, "at %d %s", &id, &agent); n == 2 {
			got := shown(picture(t, w.Path(fmt.Sprintf(".tt/at/%d/%s", id, agent))))
			if want := shown(want[title] + "\n"); got != want {
				t.Errorf("%s by .tt/at:\n%s", title, unlike(want, got))
			}
		}
	}
	forks := func(moment string) {
		t.Helper()
		for _, f := range exampleForks {
			for _, dir := range []string{"shared", "user"} {
				same(moment, "fork "+f+" "+dir, w.Path(".tt/forks/"+f+"/tree/"+dir))
			}
		}
	}
	forks("after the mount")
	if got := w.Read(".tt/as/bot/.tt/stale"); !strings.Contains(got, "shared/known\tuser\n") {
		t.Errorf("what bot has read and the user changed: %q", got)
	}
	if got := w.TTFS("blame", "shared/fork").OK().Stdout; !strings.Contains(got, "merge") {
		t.Errorf("blame: %s", got)
	}
	for _, agent := range []string{"bot", "user"} {
		start := strings.TrimSpace(w.Read(".tt/agents/" + agent + "/active"))
		for title := range want {
			var id int
			if n, _ := fmt.Sscanf(title, "at %d "+agent, &id); n == 1 && strings.HasSuffix(title, " "+agent) {
				w.Must(fmt.Sprintf("switch %d agent=%s skip", id, agent))
				same("after a switch", title, w.Path(agent))
			}
		}
		w.Must("switch " + start + " agent=" + agent + " skip")
		same("back", "redone "+agent, w.Path(agent))
	}
	forks("after moves")
	goOn(t, w)
	w.Unmount()
	w.TTFS("fsck").OK()
}

// goOn works in an upgraded workspace: a task, its undo, a merge and a new fork, each taken back exactly.
func goOn(t *testing.T, w *rig.Workspace) {
	t.Helper()
	before := w.Snapshot()
	w.Task("of today")
	w.Sh("echo today >user/small; rm -rf user/made bot; mkdir bot; seq 70000 >user/big; mv many renamed").OK()
	after := w.Snapshot()
	w.Must("undo")
	w.Same("a new task, undone", before)
	w.Must("redo")
	w.Same("and redone", after)
	w.Must("undo")
	w.TTFS("merge", "merged", "--force", "theirs").OK()
	w.Sh("grep -q later shared/fork; test -d user/forked; test ! -e user/dir").OK()
	w.Must("undo")
	w.Same("a merge, undone", before)
	inFork(t, w, "fresh", "rm -r many; echo x >user/small").OK()
	w.TTFS("discard", "fresh").OK()
	w.TTFS("discard", "past").OK()
	w.Same("with forks discarded", before)
}

// shown is a picture without what .tt/at does not show: attributes, and which names are links of one another.
func shown(picture string) string {
	return regexp.MustCompile(`(?m)( links \[.*\])?( (user|system)\..*)?$`).ReplaceAllString(picture, "")
}

// unlike are the lines that two texts do not share.
func unlike(want, got string) string {
	var b strings.Builder
	for _, side := range []struct{ mark, of, other string }{{"-", want, got}, {"+", got, want}} {
		for line := range strings.Lines(side.of) {
			if !strings.Contains(side.other, strings.TrimSuffix(line, "\n")) && b.Len() < 4000 {
				b.WriteString(side.mark + strings.TrimSuffix(line, "\n") + "\n")
			}
		}
	}
	return b.String()
}
