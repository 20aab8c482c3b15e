package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/tasktree"
)

// forking is a backend with a fork c, which only main and the user may enter, and an older one, d.
type forking struct{ whole }

func (forking) Forks() []ForkInfo {
	at := tasktree.TaskID(3)
	return []ForkInfo{
		{Name: "c", Agent: "c", Parent: "main", Under: 5, Created: day, Changed: 2, PIDs: []int{12, 34}},
		{Name: "d", Agent: "d", Parent: "user", At: &at, Created: day},
	}
}

func (f forking) HasFork(name string) bool {
	return slices.ContainsFunc(f.Forks(), func(i ForkInfo) bool { return i.Name == name })
}

func (forking) EnterFork(by Caller, name string) error {
	if by.Agent == "kid" {
		return &Error{Op: "fork", What: name, Kind: NotYours}
	}
	return nil
}

func (forking) ForkTree(_ Caller, name string) (any, error) { return "tree of " + name, nil }
func (forking) ForkFiles(name string) ([]Change, error) {
	return []Change{{Op: "created", Path: "of " + name}}, nil
}

func (forking) DiffFork(w io.Writer, name string) error {
	_, err := fmt.Fprintf(w, "diff of %s\n", name)
	return err
}
func (forking) ForkParent(string) (tasktree.Agent, error) { return "main", nil }
func (forking) ForkPIDs(string) []int                     { return []int{12, 34} }
func (forking) ForkConflicts(string) []ConflictEntry {
	return []ConflictEntry{{Path: "a\nb", Agent: "x", Task: 7, Title: "t", Started: day}}
}

// TestForkFiles: what is below `.tt/forks`, for whom.
func TestForkFiles(t *testing.T) {
	b := forking{whole{newFake()}}
	walk := func(path string) (Node, error) {
		n := Tree(b)
		var err error
		for part := range strings.SplitSeq(path, "/") {
			if n, err = n.Lookup(part); err != nil {
				return nil, err
			}
		}
		return n, nil
	}
	for path, want := range map[string]string{
		"forks/c/diff": "diff of c\n", "forks/c/files": "created of c\n", "forks/c/parent": "main\n", "forks/c/pids": "12\n34\n",
		"forks/d/conflicts": "\"a\\nb\"\tx\t7\t2026-01-02T02:04:05.678Z\tt\t\t\n",
	} {
		n, err := walk(path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if got, err := n.Content(Caller{Agent: "user"}); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", path, got, err, want)
		}
	}
	tree, err := walk("forks/c/tree")
	if err != nil || tree.Kind() != Foreign {
		t.Fatalf("tree: %v, %v", tree, err)
	}
	if got, err := tree.Open(Caller{}); err != nil || got != "tree of c" {
		t.Errorf("tree: %v, %v", got, err)
	}
	for _, path := range []string{"forks/e", "forks/..", "forks/c/none"} {
		if _, err := walk(path); !errors.Is(err, NoFile) {
			t.Errorf("%s: %v", path, err)
		}
	}
	fork, err := walk("forks/c")
	if err != nil {
		t.Fatal(err)
	}
	gate, ok := fork.(Gate)
	if !ok || gate.Enter(Caller{Agent: "main"}) != nil || !errors.Is(gate.Enter(Caller{Agent: "kid"}), NotYours) {
		t.Errorf("the gate of a fork: %v", ok)
	}
	all, err := walk("forks")
	if err != nil {
		t.Fatal(err)
	}
	list, err := all.List()
	if err != nil || len(list) != 2 || list[0].Path() != "forks/c" || list[1].Path() != "forks/d" {
		t.Errorf("the list: %v, %v", list, err)
	}
	n, err := walk("forks.json")
	if err != nil {
		t.Fatal(err)
	}
	text, err := n.Content(Caller{Agent: "user"})
	if err != nil {
		t.Fatal(err)
	}
	var got []map[string]any
	if err := json.Unmarshal(text, &got); err != nil || len(got) != 2 {
		t.Fatalf("%s: %v", text, err)
	}
	if got[0]["at"] != nil || got[0]["changed"] != 2.0 || got[1]["at"] != 3.0 || fmt.Sprint(got[1]["pids"]) != "[]" || got[0]["created"] != "2026-01-02T02:04:05.678Z" {
		t.Errorf("forks.json: %s", text)
	}
	if _, err := Tree(newFake()).Lookup("forks"); !errors.Is(err, NoFile) {
		t.Errorf("without forks: %v", err)
	}
}

// TestStatusOfAFork names it, and that of the workspace does not.
func TestStatusOfAFork(t *testing.T) {
	f := newFake()
	if text := statusText(f, Caller{Agent: "user"}); strings.Contains(string(text), "fork=") {
		t.Errorf("the workspace: %s", text)
	}
	if text := statusText(inAFork{f}, Caller{Agent: "user"}); !strings.HasSuffix(string(text), "\nfork=c/d\n") {
		t.Errorf("a fork: %s", text)
	}
	if text, err := statusJSON(inAFork{f}, Caller{Agent: "user"}); err != nil || !strings.Contains(string(text), `"fork": "c/d"`) {
		t.Errorf("a fork: %s, %v", text, err)
	}
}

type inAFork struct{ *fake }

func (f inAFork) Info() Info {
	i := f.fake.Info()
	i.Fork = "c/d"
	return i
}
