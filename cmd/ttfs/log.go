package main

import (
	"bytes"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// logOptions are the flags of log.
type logOptions struct {
	agent            string
	graph, all, json bool
	last             int
}

func newLog(g *global, s streams) *cobra.Command {
	o := logOptions{}
	c := &cobra.Command{
		Use:     "log [--graph] [--all] [-n N] [--json]",
		Short:   "the timeline: → current, ↯ undone, ⎇ has branches",
		Example: "  ttfs log\n  ttfs log --all --graph",
		Args:    positional(cobra.NoArgs),
		RunE:    func(*cobra.Command, []string) error { return runLog(g, o, s) },
	}
	f := c.Flags()
	f.BoolVar(&o.graph, "graph", false, "draw the tree")
	f.BoolVar(&o.all, "all", false, "every agent's")
	f.StringVar(&o.agent, "agent", "", "the agent `A`'s instead of your own")
	f.IntVarP(&o.last, "number", "n", 0, "only the newest `N` tasks")
	f.BoolVar(&o.json, "json", false, "print JSON")
	return c
}

func runLog(g *global, o logOptions, s streams) error {
	if o.last < 0 {
		return usage("log: -n is a number of tasks, not %d", o.last)
	}
	return g.withHistory(false, s, func(h history, _ workspace) error {
		agent := o.agent
		if agent == "" && !o.all {
			var err error
			if agent, err = h.caller(); err != nil {
				return err
			}
		}
		tasks, err := h.tasks(agent)
		if err != nil {
			return err
		}
		if o.last > 0 && len(tasks) > o.last {
			tasks = tasks[len(tasks)-o.last:]
		}
		var b bytes.Buffer
		switch {
		case o.json:
			err = printJSON(&b, tasks)
		case o.graph:
			drawGraph(&b, tasks, o.all)
		default:
			printTasks(&b, tasks, o.all)
		}
		if err == nil {
			_, err = s.out.Write(b.Bytes())
		}
		return err
	})
}

// printTasks writes a timeline, oldest first, as `.tt/tasks/list` does, with what people ask next.
func printTasks(w io.Writer, tasks []taskInfo, agents bool) {
	for _, t := range tasks {
		fmt.Fprintf(w, "%s %d%s%s\n", mark(t), t.ID, branches(t), about(t, agents))
	}
}

func mark(t taskInfo) string {
	switch t.Status {
	case "current":
		return "→"
	case "undone":
		return "↯"
	}
	return " "
}

func branches(t taskInfo) string {
	if t.HasBranches {
		return " ⎇"
	}
	return ""
}

func about(t taskInfo, agents bool) string {
	s := ""
	if t.Title != "" {
		s += " " + t.Title
	}
	if t.Pruned {
		s += " (pruned)"
	} else if t.Incomplete {
		s += " (incomplete)"
	}
	if agents {
		s += "  [" + t.Agent + "]"
	}
	if t.Started != nil {
		s += "  " + t.Started.Local().Format("2006-01-02 15:04:05")
	}
	return s
}
