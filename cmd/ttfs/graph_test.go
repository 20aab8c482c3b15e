package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares what was printed with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("\n%swant\n%s", got, want)
	}
}

// crowd is the user's line with a branch, an agent with sub-agents two deep, and one that goes on under another task.
func crowd() []taskInfo {
	return []taskInfo{
		{ID: 1, Agent: "user", Title: "one", Status: "past", HasBranches: true},
		{ID: 2, Parent: 1, Agent: "user", Title: "two", Status: "undone", HasBranches: true},
		{ID: 3, Parent: 2, Agent: "user", Title: "three", Status: "undone"},
		{ID: 4, Parent: 2, Agent: "user", Title: "four", Status: "undone"},
		{ID: 5, Parent: 1, Agent: "user", Title: "five", Status: "current"},
		{ID: 6, Agent: "main", Title: "fix the parser", Status: "past"},
		{ID: 7, Agent: "kid", Under: 6, Title: "look", Status: "past"},
		{ID: 8, Parent: 7, Agent: "kid", Under: 6, Title: "look on", Status: "undone"},
		{ID: 9, Parent: 7, Agent: "kid", Under: 6, Title: "look elsewhere", Status: "past"},
		{ID: 10, Agent: "grandkid", Under: 9, Title: "count", Status: "current"},
		{ID: 11, Agent: "other", Under: 6, Title: "test", Status: "current"},
		{ID: 12, Parent: 6, Agent: "main", Title: "write it", Status: "current"},
		{ID: 13, Parent: 9, Agent: "kid", Under: 12, Title: "under another", Status: "past"},
		{ID: 14, Parent: 13, Agent: "kid", Under: 12, Title: "and on", Status: "current"},
		{ID: 15, Agent: "lost", Under: 99, Title: "under what is not there", Status: "current"},
	}
}

func TestGraphGolden(t *testing.T) {
	all := crowd()
	all[1].HasBranches, all[6].HasBranches = true, true
	for name, c := range map[string]struct {
		tasks []taskInfo
		all   bool
	}{
		"graph-all": {all, true}, "graph-newest": {all[8:], true}, "graph-user": {all[:5], false}, "graph-kid": {all[6:9], false}, "graph-none": {nil, true},
	} {
		var b bytes.Buffer
		drawGraph(&b, c.tasks, c.all)
		t.Run(name, func(t *testing.T) { golden(t, name, b.String()) })
		if lines := bytes.Count(b.Bytes(), []byte(" look\n")); name == "graph-all" && lines != 1 {
			t.Errorf("a task stands there %d times", lines)
		}
	}
	b := bytes.Buffer{}
	printTasks(&b, all, true)
	golden(t, "log-all", b.String())
}
