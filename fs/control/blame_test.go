package control

import (
	"errors"
	"testing"

	"github.com/ttfs/ttfs/tasktree"
)

// lined is a fake whose paths have lines.
type lined struct {
	*fake
	lines map[string][]Version
	dirs  map[string]bool
}

func (l lined) Blame(path string) ([]Version, error) { return l.lines[path], nil }

func (l lined) WasDir(path string) (dir, known bool, err error) {
	_, known = l.lines[path]
	return l.dirs[path], known || l.dirs[path], nil
}

func TestBlame(t *testing.T) {
	at := day
	b := lined{newFake(), map[string][]Version{
		"d/f": {
			{Task: 9, Agent: "kid", Started: &at, Status: "undone", What: []string{"deleted"}, Title: "away"},
			{Task: 4, Agent: "user", Started: &at, Status: "current", What: []string{"renamed", "modified"}, From: "x\ny", Title: "t"},
			{Task: 3, Agent: "user", Status: "past", What: []string{"renamed"}, From: "a", To: "b"},
		},
		"d": {{Task: 1, Agent: "user", Status: "past", What: []string{"created"}}},
		"":  nil, "quiet": nil,
	}, map[string]bool{"": true, "d": true}}
	for p, want := range map[string]string{
		"blame/d/f": "↯ 9\tkid\t2026-01-02T02:04:05.678Z\tdeleted\taway\n→ 4\tuser\t2026-01-02T02:04:05.678Z\trenamed from \"x\\ny\", modified\tt\n" +
			"  3\tuser\t\trenamed from a to b\t\n",
		"blame/d/.tt":        "  1\tuser\t\tcreated\t\n",
		"blame/quiet":        "",
		"blame.json/quiet":   "[]\n",
		"blame.json/.tt":     "[]\n",
		"agents/user/active": "4\n",
		"blame.json/d/.tt":   "[\n  {\n    \"task\": 1,\n    \"agent\": \"user\",\n    \"title\": \"\",\n    \"started\": null,\n    \"status\": \"past\",\n    \"what\": [\n      \"created\"\n    ]\n  }\n]\n",
	} {
		if got := cat(t, b, "main", p); got != want {
			t.Errorf("%s: %q, want %q", p, got, want)
		}
	}
	for p, want := range map[string]NodeKind{"blame": Dir, "blame/d": Dir, "blame/d/f": File, "blame/quiet": File, "blame.json": Dir} {
		n, err := walk(b, p)
		if err != nil || n.Kind() != want {
			t.Errorf("%s: %v, %v", p, n, err)
			continue
		}
		if all, err := n.List(); want == Dir && (err != nil || len(all) != 0) {
			t.Errorf("%s lists %v, %v", p, all, err)
		}
	}
	for _, p := range []string{"blame/none", "blame/d/none", "blame.json/quiet/x"} {
		if _, err := walk(b, p); !errors.Is(err, NoFile) {
			t.Errorf("%s: %v", p, err)
		}
	}
	if _, err := Tree(newFake()).Lookup("blame"); !errors.Is(err, NoFile) {
		t.Errorf("without a Blamer: %v", err)
	}
	if mark(tasktree.Past) != " " {
		t.Error("a mark for what is past")
	}
}

// stepping is a fake that tells what its moves would do.
type stepping struct{ *fake }

func (s stepping) PreviewUndo(a tasktree.Agent) (Moved, error) {
	if a == "idle" {
		return Moved{}, &Error{Kind: AtRoot}
	}
	return Moved{From: 4, To: 2, Paths: []Change{{"delete", "a\nb"}}}, nil
}

func (s stepping) PreviewRedo(a tasktree.Agent) (Moved, error) {
	switch a {
	case "idle":
		return Moved{}, &Error{Kind: NoTask, Detail: "Nothing to redo"}
	case "kid":
		return Moved{}, &Error{Kind: Failed}
	}
	return Moved{From: 4, To: 7}, nil
}

func TestPreviews(t *testing.T) {
	b := stepping{newFake()}
	for p, want := range map[string]string{
		"agents/user/undo": "ok 2\nfrom 4\nchanged 1\ndelete \"a\\nb\"\n",
		"agents/user/redo": "ok 7\nfrom 4\nchanged 0\n",
		"agents/idle/undo": "", "agents/idle/redo": "",
	} {
		if got := cat(t, b, "main", p); got != want {
			t.Errorf("%s: %q, want %q", p, got, want)
		}
	}
	n, err := walk(b, "agents/kid/redo")
	if err == nil {
		_, err = n.Content(Caller{})
	}
	if !errors.Is(err, Failed) {
		t.Errorf("an error is told as %v", err)
	}
}
