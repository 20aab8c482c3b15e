package main

import (
	"fmt"
	"io"
	"slices"
)

// drawGraph writes tasks as trees, one an agent. A task's first child stands below it, straight on; where more than one
// task follows, each of them begins a branch of its own.
func drawGraph(w io.Writer, tasks []taskInfo, agents bool) {
	known := map[uint64]bool{}
	for _, t := range tasks {
		known[t.ID] = true
	}
	children := map[uint64][]taskInfo{}
	roots := map[string][]taskInfo{}
	var names []string
	for _, t := range tasks {
		if known[t.Parent] {
			children[t.Parent] = append(children[t.Parent], t)
			continue
		}
		if len(roots[t.Agent]) == 0 {
			names = append(names, t.Agent)
		}
		roots[t.Agent] = append(roots[t.Agent], t)
	}
	slices.Sort(names)
	for _, name := range names {
		if agents {
			fmt.Fprintln(w, name)
		}
		drawBelow(w, "", roots[name], children)
	}
}

// drawBelow draws what follows a task. It goes on straight without calling itself: a timeline is long, its branches few.
func drawBelow(w io.Writer, indent string, next []taskInfo, children map[uint64][]taskInfo) {
	for len(next) == 1 {
		drawOne(w, indent, next[0])
		next = children[next[0].ID]
	}
	for i, t := range next {
		head, rest := "├─", "│ "
		if i == len(next)-1 {
			head, rest = "└─", "  "
		}
		drawOne(w, indent+head, t)
		drawBelow(w, indent+rest, children[t.ID], children)
	}
}

func drawOne(w io.Writer, indent string, t taskInfo) {
	fmt.Fprintf(w, "%s%s %d%s\n", indent, mark(t), t.ID, about(t, false))
}
