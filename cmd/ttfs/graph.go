package main

import (
	"fmt"
	"io"
	"slices"
)

// graph is tasks as trees: those that begin a line of an agent's, what follows each task, and what hangs under it.
type graph struct {
	roots    map[string][]taskInfo
	children map[uint64][]taskInfo
	// under are, by the task of the parent agent and then by sub-agent, the tasks with which a sub-agent's work under it
	// begins. What follows those under the same task is among the children.
	under map[uint64]map[string][]taskInfo
}

func newGraph(tasks []taskInfo) *graph {
	g := &graph{roots: map[string][]taskInfo{}, children: map[uint64][]taskInfo{}, under: map[uint64]map[string][]taskInfo{}}
	known := map[uint64]taskInfo{}
	for _, t := range tasks {
		known[t.ID] = t
	}
	for _, t := range tasks {
		parent, follows := known[t.Parent]
		_, hangs := known[t.Under]
		switch {
		case hangs && t.Under < t.ID && !(follows && parent.Under == t.Under):
			if g.under[t.Under] == nil {
				g.under[t.Under] = map[string][]taskInfo{}
			}
			g.under[t.Under][t.Agent] = append(g.under[t.Under][t.Agent], t)
		case follows:
			g.children[t.Parent] = append(g.children[t.Parent], t)
		default:
			g.roots[t.Agent] = append(g.roots[t.Agent], t)
		}
	}
	return g
}

// drawGraph writes tasks as trees, one an agent. A task's first child stands below it, straight on; where more than one
// task follows, each of them begins a branch of its own. What sub-agents did under a task stands below it, before what
// follows, under their names.
func drawGraph(w io.Writer, tasks []taskInfo, agents bool) {
	g := newGraph(tasks)
	for _, name := range sortedNames(g.roots) {
		if agents {
			fmt.Fprintln(w, name)
		}
		g.drawBelow(w, "", g.roots[name])
	}
}

func sortedNames(m map[string][]taskInfo) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// drawBelow draws what follows a task. It goes on straight without calling itself: a timeline is long, its branches few.
func (g *graph) drawBelow(w io.Writer, indent string, next []taskInfo) {
	for len(next) == 1 {
		t := next[0]
		drawOne(w, indent, t)
		next = g.children[t.ID]
		g.drawUnder(w, indent, t.ID, len(next) > 0)
	}
	for i, t := range next {
		head, rest := "├─", "│ "
		if i == len(next)-1 {
			head, rest = "└─", "  "
		}
		drawOne(w, indent+head, t)
		g.drawUnder(w, indent+rest, t.ID, len(g.children[t.ID]) > 0)
		g.drawBelow(w, indent+rest, g.children[t.ID])
	}
}

// drawUnder draws what sub-agents did under a task; more says that something follows the task.
func (g *graph) drawUnder(w io.Writer, indent string, id uint64, more bool) {
	names := sortedNames(g.under[id])
	for i, name := range names {
		head, rest := "├┄", "│  "
		if i == len(names)-1 && !more {
			head, rest = "└┄", "   "
		}
		fmt.Fprintf(w, "%s%s %s\n", indent, head, name)
		g.drawBelow(w, indent+rest, g.under[id][name])
	}
}

func drawOne(w io.Writer, indent string, t taskInfo) {
	fmt.Fprintf(w, "%s%s %d%s%s\n", indent, mark(t), t.ID, branches(t), about(t, false))
}
