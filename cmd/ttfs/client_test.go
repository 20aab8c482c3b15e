package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pretend makes a directory that looks like a mounted workspace, as far as reading goes, with the tasks of tree().
func pretend(t *testing.T) *mounted {
	t.Helper()
	m := &mounted{dir: t.TempDir()}
	put := func(name, content string) {
		t.Helper()
		path := m.path(name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, err := json.Marshal(tree())
	if err != nil {
		t.Fatal(err)
	}
	put("ctl", "")
	put("status", "pid=7\nmount=\"/a\\nb\"\nagent=user\ntask=5\n")
	put("agents/user/list.json", string(list))
	put("agents/user/active", "5\n")
	put("agents/user/undo", "ok 4\nfrom 5\nchanged 1\ndelete preview4\n")
	put("agents/user/redo", "")
	put("agents/bot/undo", "ok 0\nfrom 6\nchanged 1\ncreate precious\n")
	put("agents/bot/list.json", `[{"id": 6, "agent": "bot", "status": "current", "started": "2026-01-02T03:04:05Z", "ended": null}]`)
	put("agents/bot/active", "6\n")
	for _, k := range tree() {
		put("tasks/"+itoa(k.ID)+"/agent", "user\n")
		put("tasks/"+itoa(k.ID)+"/files", "modified common\ncreated only"+itoa(k.ID)+"\n")
		put("tasks/"+itoa(k.ID)+"/preview", "delete preview"+itoa(k.ID)+"\n")
		put("tasks/"+itoa(k.ID)+"/diff", "--- a/common\n+++ b/common\n@@ -1 +1 @@\n-a\n+b\n--- /dev/null\n+++ b/only\n@@ -0,0 +1 @@\n+c\n")
	}
	put("tasks/6/agent", "bot\n")
	put("tasks/6/files", "deleted precious\n")
	put("at/0/common", "zero\n")
	put("at/5/common", "five\n")
	put("at/5/only5", "five\n")
	return m
}

func TestClientReads(t *testing.T) {
	m := pretend(t)
	s, err := m.status()
	if err != nil || s["mount"] != "/a\nb" || s["agent"] != "user" {
		t.Errorf("status %q, %v", s, err)
	}
	if pid, err := m.pid(); pid != 7 || err != nil {
		t.Errorf("pid %d, %v", pid, err)
	}
	all, err := m.tasks("")
	if err != nil || len(all) != 6 || all[0].ID != 1 || all[5].Agent != "bot" || all[5].Started == nil || all[5].Ended != nil {
		t.Errorf("all tasks: %v, %v", all, err)
	}
	if one, err := m.task(6); err != nil || one.Agent != "bot" {
		t.Errorf("task 6: %v, %v", one, err)
	}
	if _, err := m.task(99); codeOf(err) != int(exitNoTask) {
		t.Errorf("task 99: %v", err)
	}
	if _, err := m.tasks("nobody"); codeOf(err) != int(exitNoTask) {
		t.Errorf("tasks of nobody: %v", err)
	}
	if _, err := m.active("nobody"); codeOf(err) != int(exitNoTask) {
		t.Errorf("active of nobody: %v", err)
	}
}

func TestClientPreview(t *testing.T) {
	m := pretend(t)
	text := func(r moveRequest) string {
		t.Helper()
		res, err := m.preview(r)
		if err != nil {
			t.Fatal(err)
		}
		var s []string
		for _, c := range res.Paths {
			s = append(s, c.Op+" "+c.Path)
		}
		return strings.Join(s, ", ")
	}
	for _, c := range []struct {
		r    moveRequest
		want string
	}{
		{moveRequest{verb: "undo"}, "delete preview4"},
		{moveRequest{verb: "switch", to: 3}, "delete preview3"},
		{moveRequest{verb: "switch", to: 0}, "modify common, delete only1, delete only2, delete only4, delete only5"},
		{moveRequest{verb: "undo", agent: "bot"}, "create precious"},
	} {
		if got := text(c.r); got != c.want {
			t.Errorf("%v: %q, want %q", c.r, got, c.want)
		}
	}
}

func TestClientPreviewRefuses(t *testing.T) {
	m := pretend(t)
	for _, r := range []moveRequest{{verb: "redo"}, {verb: "undo", agent: "nobody"}, {verb: "switch", to: 9}, {verb: "switch", agent: "nobody"}} {
		if res, err := m.preview(r); codeOf(err) != int(exitNoTask) {
			t.Errorf("%v: %v, %v", r, res, err)
		}
	}
}

func TestClientDiff(t *testing.T) {
	m := pretend(t)
	var b strings.Builder
	if err := m.diffTask(&b, 3, []string{"common"}); err != nil || b.String() != "--- a/common\n+++ b/common\n@@ -1 +1 @@\n-a\n+b\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
	if err := m.diffTask(&b, 99, nil); codeOf(err) != int(exitNoTask) {
		t.Errorf("diff of no task: %v", err)
	}
	b.Reset()
	const want = "--- a/common\n+++ b/common\n@@ -1 +1 @@\n-zero\n+five\n--- /dev/null\n+++ b/only5\n@@ -0,0 +1 @@\n+five\n"
	if err := m.diffRange(&b, 0, 5, nil); err != nil || b.String() != want {
		t.Errorf("\n%swant\n%s%v", b.String(), want, err)
	}
}

func TestTell(t *testing.T) {
	m := pretend(t)
	var b strings.Builder
	if err := m.tell("user", agentMark{active: 4}, &b); err != nil {
		t.Fatal(err)
	}
	const one = "ttfs: user changed 2 paths:\n  modified common\n  created  only5\nundo with: ttfs undo --agent user\n"
	if b.String() != one {
		t.Errorf("\n%swant\n%s", b.String(), one)
	}
	b.Reset()
	if err := m.tell("user", agentMark{active: 2}, &b); err != nil || !strings.Contains(b.String(), "ttfs switch 2 --agent user") {
		t.Errorf("two tasks: %s%v", b.String(), err)
	}
	b.Reset()
	if err := m.tell("user", agentMark{active: 5}, &b); err != nil || b.String() != "ttfs: user changed nothing\n" {
		t.Errorf("%s%v", b.String(), err)
	}
	b.Reset()
	printChanges(&b, make([]change, 12), maxTold)
	if got := strings.Count(b.String(), "\n"); got != 11 || !strings.HasSuffix(b.String(), "  ... and 2 more\n") {
		t.Errorf("%s", b.String())
	}
}

func TestTreeOf(t *testing.T) {
	for path, want := range map[string]string{
		"/ws": "", "/ws/a/b": "", "/ws/.tt": "", "/ws/.tt/forks": "", "/ws/.tt/forks/c": "", "/ws/.tt/tasks/1/tree": "", "/ws/a/.tt/forks/c/tree": "",
		"/ws/.tt/forks/c/tree":                         "/ws/.tt/forks/c/tree",
		"/ws/.tt/forks/c/tree/src/deep":                "/ws/.tt/forks/c/tree",
		"/ws/.tt/forks/c/tree/.tt/forks/d/tree/src":    "/ws/.tt/forks/c/tree/.tt/forks/d/tree",
		"/ws/.tt/forks/c/tree/src/.tt/forks/d/tree":    "/ws/.tt/forks/c/tree",
		"/ws/.tt/as/a":                                 "/ws/.tt/as/a",
		"/ws/.tt/as/a/src":                             "/ws/.tt/as/a",
		"/ws/.tt/forks/c/tree/.tt/as/below/.tt/status": "/ws/.tt/forks/c/tree/.tt/as/below",
	} {
		if got := treeOf("/ws", path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
