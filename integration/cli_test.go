package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
)

// history is a workspace with two tasks of the user on one line.
func history(t *testing.T) (w *rig.Workspace, one, two string) {
	t.Helper()
	w = rig.New(t)
	w.Sh("mkdir src; printf 'a\nb\nc\n' >src/f; echo old >gone").OK()
	w.Mount()
	one = number(t, w.TTFS("task", "first prompt").OK())
	w.Sh("printf 'a\nB\nc\n' >src/f; rm gone; echo new >made").OK()
	two = number(t, w.TTFS("task", "second prompt").OK())
	w.Sh("echo more >>made").OK()
	return w, one, two
}

// number is the one task number that a command printed.
func number(t *testing.T, result *rig.Result) string {
	t.Helper()
	out := strings.TrimSpace(result.Stdout)
	var id int
	if _, err := fmt.Sscanf(out, "%d", &id); err != nil || itoa(id) != out {
		t.Fatalf("want a task number: %s", result)
	}
	return out
}

// says fails the test when the output lacks one of the words.
func says(t *testing.T, result *rig.Result, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(result.Stdout, word) {
			t.Errorf("stdout lacks %q: %s", word, result)
		}
	}
}

// TestTranscript is a session of a person, from task to redo.
func TestTranscript(t *testing.T) {
	t.Parallel()
	w, one, two := history(t)

	says(t, w.TTFS("log").OK(), "first prompt", "second prompt", one, two)
	says(t, w.TTFS("log", "--graph").OK(), "first prompt", "second prompt")
	if got := w.TTFS("log", "-n", "1").OK().Stdout; strings.Contains(got, "first prompt") || !strings.Contains(got, "second prompt") {
		t.Errorf("log -n 1 is not the last task: %q", got)
	}
	says(t, w.TTFS("show", one).OK(), "first prompt", "modified src/f", "deleted gone", "created made")
	diff := w.TTFS("diff", one).OK()
	says(t, diff, "-b\n", "+B\n", "-old\n", "+new\n", "@@ -1,3 +1,3 @@")
	says(t, w.TTFS("diff", two).OK(), "+more\n", " new\n")
	if got := w.TTFS("diff", one, "src/f").OK().Stdout; strings.Contains(got, "old") || !strings.Contains(got, "+B") {
		t.Errorf("diff of one path: %q", got)
	}
	says(t, w.TTFS("diff", "0.."+two).OK(), "+B\n", "+more\n")
	says(t, w.TTFS("status").OK(), two, "user", w.Dir)
	says(t, w.TTFS("stats").OK(), "task")
	says(t, w.TTFS("version").OK(), "ttfs")
	says(t, w.TTFSIn("/", "--workspace", w.Dir, "status").OK(), two)
	w.TTFS("doctor").OK()
	w.TTFS("why").OK()

	says(t, w.TTFS("undo", "--dry-run").OK(), "made")
	if got := w.Read("made"); got != "new\nmore\n" {
		t.Errorf("after undo --dry-run made is %q", got)
	}
	w.TTFS("undo").OK()
	if got := w.Read("made"); got != "new\n" {
		t.Errorf("after undo made is %q", got)
	}
	w.TTFS("undo").OK()
	if got := w.Read("src/f") + w.Read("gone"); got != "a\nb\nc\nold\n" {
		t.Errorf("after the second undo: %q", got)
	}
	w.TTFS("switch", two).OK()
	if got := w.Read("made"); got != "new\nmore\n" {
		t.Errorf("after switch made is %q", got)
	}
	w.TTFS("switch", "0").OK()
	w.TTFS("redo").OK()
	if got := w.Read("src/f"); got != "a\nB\nc\n" {
		t.Errorf("after redo src/f is %q", got)
	}
	// A new task after an undo is a branch: both are in the log, none is lost.
	three := number(t, w.TTFS("task", "another way").OK())
	w.Sh("echo other >made").OK()
	w.TTFS("switch", two).OK()
	w.TTFS("switch", three).OK()
	if got := w.Read("made"); got != "other\n" {
		t.Errorf("on the branch made is %q", got)
	}
	says(t, w.TTFS("log", "--all").OK(), "second prompt", "another way")
}

// TestJSON parses what every listing verb prints with --json, and the JSON
// files, and looks for the fields that are an interface.
func TestJSON(t *testing.T) {
	t.Parallel()
	w, one, two := history(t)
	var tasks []map[string]any
	for _, source := range []string{w.TTFS("log", "--json").OK().Stdout, w.Read(".tt/tasks/list.json")} {
		if err := json.Unmarshal([]byte(source), &tasks); err != nil {
			t.Fatalf("%v: %s", err, source)
		}
		found := 0
		for _, task := range tasks {
			for _, field := range []string{"id", "parent", "agent", "under", "title", "status", "has_branches", "started", "ended", "files"} {
				if _, there := task[field]; !there {
					t.Errorf("a task without %q: %v", field, task)
				}
			}
			switch id := fmt.Sprint(task["id"]); {
			case id == one && task["status"] == "past" && task["title"] == "first prompt":
				found++
			case id == two && task["status"] == "current" && fmt.Sprint(task["parent"]) == one:
				found++
			}
		}
		if found != 2 {
			t.Errorf("the two tasks are not as they should be: %s", source)
		}
	}
	w.TTFS("undo").OK()
	for _, source := range []string{w.TTFS("log", "--json").OK().Stdout, w.Read(".tt/tasks/list.json")} {
		if !strings.Contains(source, `"undone"`) {
			t.Errorf("after undo no task is undone: %s", source)
		}
	}
	for _, args := range [][]string{{"status"}, {"why"}, {"stale"}, {"stats"}, {"show", one}, {"agents"}, {"version"}, {"doctor"}, {"undo", "--dry-run"}} {
		result := w.TTFS(append(args, "--json")...).OK()
		if !json.Valid([]byte(result.Stdout)) {
			t.Errorf("not JSON: %s", result)
		}
	}
	for _, name := range []string{"status.json", "why.json", "stale.json"} {
		if content := w.Read(".tt/" + name); !json.Valid([]byte(content)) {
			t.Errorf(".tt/%s is not JSON: %q", name, content)
		}
	}
}

// TestDetached: after unmount the same verbs answer from the store, and a
// remount goes on where they left it.
func TestDetached(t *testing.T) {
	t.Parallel()
	w, one, two := history(t)
	end := w.Snapshot()
	w.Must("switch 0")
	start := w.Snapshot()
	w.Must("switch " + two)
	w.Unmount()

	says(t, w.TTFS("log").OK(), "first prompt", "second prompt")
	says(t, w.TTFS("show", one).OK(), "modified src/f")
	says(t, w.TTFS("diff", one).OK(), "+B\n")
	w.TTFS("fsck").OK()
	w.TTFS("undo").OK()
	w.TTFS("undo").OK()
	w.Same("undone while detached", start)
	w.TTFS("undo").Exit(5)
	w.TTFS("redo").OK()
	w.TTFS("switch", two).OK()
	w.Same("switched while detached", end)
	w.TTFS("undo").OK()
	w.Mount()
	if got := itoa(w.Active()); got != one {
		t.Errorf("after the remount task %s is active, want %s", got, one)
	}
	w.TTFS("redo").OK()
	w.Same("redone after the remount", end)
}

// TestRun: what runs under `ttfs run --agent` is that agent's, children and
// detached children included; the summary goes to stderr, the status through.
func TestRun(t *testing.T) {
	t.Parallel()
	w := rig.New(t)
	w.Sh("echo start >f").OK()
	w.Mount()
	start := w.Snapshot()
	w.TTFS("task", "mine").OK()
	w.Sh("echo user >u").OK()
	result := w.TTFS("run", "--agent", "a1", "--task", "its prompt", "--", "sh", "-c",
		`cat .tt/status; echo a1 >f; (setsid sh -c 'echo detached >g') ; sh -c 'mkdir d; echo x >d/h'; exit 3`).Exit(3)
	says(t, result, "agent=a1")
	for _, word := range []string{"undo", "a1"} {
		if !strings.Contains(result.Stderr, word) {
			t.Errorf("the summary does not say %q: %s", word, result)
		}
	}
	agent := w.Read(".tt/agents/a1/list")
	if !strings.Contains(agent, "its prompt") || strings.Contains(agent, "mine") {
		t.Errorf("a1's tasks: %q", agent)
	}
	says(t, w.TTFS("log", "--all").OK(), "its prompt", "mine")
	w.TTFS("undo", "--agent", "a1").OK()
	w.Sh("test ! -e d; test ! -e g; test -e u").OK()
	if got := w.Read("f"); got != "start\n" {
		t.Errorf("after undo of a1 f is %q", got)
	}
	w.TTFS("undo").OK()
	w.Same("both undone", start)
}

// TestRunMounts: without a mount, run makes one for as long as the command runs.
func TestRunMounts(t *testing.T) {
	t.Parallel()
	w := rig.New(t)
	w.Sh("echo start >f").OK()
	w.Mount() // once before, so that .tt is there
	w.Unmount()
	start := w.Snapshot()
	says(t, w.TTFS("run", "--agent", "a1", "--", "sh", "-c", "echo changed >f; cat .tt/status").OK(), "agent=a1")
	if w.Mounted() {
		t.Error("run left its mount behind")
	}
	if got := w.Read("f"); got != "changed\n" {
		t.Errorf("f is %q", got)
	}
	w.TTFS("undo", "--agent", "a1").OK()
	w.Same("undone while detached", start)
}
