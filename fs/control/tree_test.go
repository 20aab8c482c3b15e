package control

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/tasktree"
)

var update = flag.Bool("update", false, "write the golden files")

// walk finds a node by its path.
func walk(b Backend, p string) (Node, error) {
	n := Tree(b)
	for name := range strings.SplitSeq(p, "/") {
		var err error
		if n, err = n.Lookup(name); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// cat is what an open for that agent reads.
func cat(t *testing.T, b Backend, a tasktree.Agent, p string) string {
	t.Helper()
	n, err := walk(b, p)
	if err != nil {
		t.Fatal(err)
	}
	content, err := n.Content(Caller{Agent: a, PID: 99})
	if err != nil {
		t.Fatalf("%s: %v", p, err)
	}
	return string(content)
}

func TestGolden(t *testing.T) {
	f := newFake()
	f.Refused("user", `undo: a sentence <with> "signs"`)
	for _, p := range []string{"README", "status", "status.json", "why", "why.json", "tasks/list", "tasks/list.json"} {
		for _, a := range []tasktree.Agent{"user", "main", "idle"} {
			if p == "README" && a != "user" {
				continue
			}
			golden := filepath.Join("testdata", strings.ReplaceAll(p, "/", "-")+"."+string(a)+".golden")
			got := cat(t, f, a, p)
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s for %s:\n%s\nwant\n%s", p, a, got, want)
			}
			if strings.HasSuffix(p, ".json") && !json.Valid([]byte(got)) {
				t.Errorf("%s is not JSON", p)
			}
		}
	}
}

func TestContents(t *testing.T) {
	f := newFake()
	for p, want := range map[string]string{
		"metrics":           "ttfs_tasks 6\n",
		"tasks/1/title":     "first\n",
		"tasks/4/title":     "",
		"tasks/1/agent":     "user\n",
		"tasks/1/parent":    "0\n",
		"tasks/3/parent":    "2\n",
		"tasks/2/children":  "3\n4\n",
		"tasks/4/children":  "",
		"tasks/4/status":    "current\n",
		"tasks/2/status":    "past\n",
		"tasks/3/status":    "undone\n",
		"tasks/1/started":   "2026-01-02T02:05:05.678Z\n",
		"tasks/1/ended":     "2026-01-02T02:06:05.678Z\n",
		"tasks/4/ended":     "",
		"tasks/1/files":     "created a b\ndeleted \"new\\nline\"\nmodified x/\xffy\n",
		"tasks/6/diff":      "--- a\n+++ b 6\n",
		"tasks/1/preview":   "create main/1\n",
		"agents/kid/list":   "→ 6 kid's\n",
		"agents/idle/list":  "",
		"agents/kid/active": "6\n", "agents/idle/active": "0\n",
		"agents/kid/parent": "main\n", "agents/main/parent": "",
		"agents/kid/pids": "12\n300\n", "agents/idle/pids": "",
		"agents/idle/list.json": "[]\n",
	} {
		if got := cat(t, f, "main", p); got != want {
			t.Errorf("%s: %q, want %q", p, got, want)
		}
	}
	for p, want := range map[string]string{"log": "log", "tasks/1/before": "before 1", "at/0": "at 0 of main", "at/6": "at 6 of main"} {
		n, err := walk(f, p)
		if err != nil {
			t.Fatal(err)
		}
		got, err := n.Open(Caller{Agent: "main"})
		if n.Kind() != Foreign || got != want || err != nil {
			t.Errorf("%s: %v, %v", p, got, err)
		}
	}
}

// The fields are a contract: added, never renamed.
func TestListFields(t *testing.T) {
	var all []map[string]any
	if err := json.Unmarshal([]byte(cat(t, newFake(), "user", "tasks/list.json")), &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != 4 {
		t.Fatalf("%d tasks", len(all))
	}
	for _, field := range []string{"id", "parent", "agent", "under", "title", "status", "has_branches", "started", "ended", "files"} {
		if _, ok := all[0][field]; !ok {
			t.Errorf("%s is missing", field)
		}
	}
}

// All that is listed is found, is what it says and can be read; twice the same.
func TestWalk(t *testing.T) {
	f := newFake()
	var paths []string
	var visit func(n Node)
	visit = func(n Node) {
		paths = append(paths, n.Path())
		if n.Path() != "" {
			again, err := walk(f, n.Path())
			if err != nil || again.Path() != n.Path() || again.Kind() != n.Kind() || again.Mode() != n.Mode() {
				t.Fatalf("%s: %v, %v", n.Path(), again, err)
			}
		}
		if n.Mode()&0o222 != 0 && n.Kind() != Ctl && n.Path() != "" || n.Mode()&0o400 == 0 {
			t.Errorf("%s has mode %o", n.Path(), n.Mode())
		}
		_, contentErr := n.Content(Caller{Agent: "user"})
		_, openErr := n.Open(Caller{Agent: "user"})
		children, listErr := n.List()
		if (contentErr == nil) != (n.Kind() == File) || (openErr == nil) != (n.Kind() == Foreign) || (listErr == nil) != (n.Kind() == Dir) {
			t.Errorf("%s of kind %d: %v, %v, %v", n.Path(), n.Kind(), contentErr, openErr, listErr)
		}
		for _, c := range children {
			if path.Dir("/"+c.Path()) != path.Clean("/"+n.Path()) {
				t.Errorf("%s is listed in %s", c.Path(), n.Path())
			}
			visit(c)
		}
	}
	visit(Tree(f))
	sorted := slices.Clone(paths)
	slices.Sort(sorted)
	if len(slices.Compact(sorted)) != len(paths) {
		t.Error("a name is listed twice")
	}
	for _, want := range []string{"ctl", "log", "tasks/6/before", "at/0", "at/6", "agents/kid/pids"} {
		if !slices.Contains(paths, want) {
			t.Errorf("%s is not listed", want)
		}
	}
}

func TestMissing(t *testing.T) {
	f := newFake()
	for _, p := range []string{
		"..", ".", "", "x", "CTL", "tasks/0", "tasks/7", "tasks/01", "tasks/+1", "tasks/-1", "tasks/ 1", "tasks/1 ", "tasks/1.0", "tasks/0x1", "tasks/..",
		"tasks/.", "tasks/", "tasks/١", "tasks/18446744073709551617", "tasks/4294967297", "tasks/1/x", "tasks/1/..", "tasks/1/title/x", "tasks/x\ny",
		"at/7", "at/00", "at/-0", "at/+0", "at/..", "at/list", "agents/nobody", "agents/..", "agents/", "agents/kid/x", "agents/KID", "agents/a/b",
		"ctl/x", "log/x", "status/json", "tasks/list/x", "stale", "forks",
	} {
		if n, err := walk(f, p); !errors.Is(err, NoFile) {
			t.Errorf("%q: %v, %v", p, n, err)
		} else if strings.ContainsAny(err.Error(), "\n\x00") {
			t.Errorf("%q: %q", p, err.Error())
		}
	}
}

// A file that was looked up and whose task or agent is gone since is gone too; an error of the backend comes through.
func TestGoneAndFailed(t *testing.T) {
	f := newFake()
	title, err1 := walk(f, "tasks/6/title")
	pids, err2 := walk(f, "agents/kid/pids")
	files, err3 := walk(f, "tasks/6/files")
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	f.tasks, f.agents = nil, nil
	for _, n := range []Node{title, pids} {
		if _, err := n.Content(Caller{Agent: "user"}); !errors.Is(err, NoFile) {
			t.Errorf("%s: %v", n.Path(), err)
		}
	}
	f.fail = &Error{Kind: ReadOnly}
	if _, err := files.Content(Caller{Agent: "user"}); !errors.Is(err, ReadOnly) {
		t.Error(err)
	}
}

// The page is one page, and all it advises is understood.
func TestReadme(t *testing.T) {
	text := cat(t, newFake(), "user", "README")
	if n := strings.Count(text, "\n"); n > 60 {
		t.Errorf("%d lines are not one page", n)
	}
	for l := range strings.Lines(text) {
		if len([]rune(l)) > 121 {
			t.Errorf("a long line: %s", l)
		}
		command, found := strings.CutPrefix(strings.TrimSpace(l), "echo ")
		if !found {
			continue
		}
		command, _, _ = strings.Cut(command, ">")
		command = strings.NewReplacer("switch N", "switch 1", `"`, "").Replace(strings.TrimSpace(command))
		if _, err := Parse([]byte(command)); err != nil {
			t.Errorf("%q: %v", command, err)
		}
	}
	for _, u := range usages {
		if !strings.Contains(text, string(u.verb)) {
			t.Errorf("%s is not mentioned", u.verb)
		}
	}
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"a b": "a b", `a"b\c`: `a"b\c`, "\xff": "\xff", "ä": "ä", "a\nb": `"a\nb"`, "\t\r\\\"\x01\x7f\n": `"\t\r\\\"\001\177\n"`, `"x`: `"\"x"`, "ä\n\xff": "\"ä\\n\xff\"",
	} {
		if got := Quote(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}
