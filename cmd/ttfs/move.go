package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// maxMoved bounds the paths that a move names on a terminal or elsewhere; --json names them all.
const maxMoved = 20

// moveOptions are the flags of undo, redo and switch.
type moveOptions struct {
	request      moveRequest
	dryRun, json bool
}

// flags declares them on a verb.
func (o *moveOptions) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.request.agent, "agent", "", "move the agent `A` instead of yourself")
	f.BoolVar(&o.request.force, "force", false, "move also what conflicts; that can be undone")
	f.BoolVar(&o.request.skip, "skip", false, "move all but what conflicts")
	f.BoolVarP(&o.dryRun, "dry-run", "n", false, "say what would change, and change nothing")
	f.BoolVar(&o.json, "json", false, "print JSON")
}

// runMove makes a move, or says what it would do.
func runMove(g *global, o moveOptions, s streams) error {
	if o.request.force && o.request.skip {
		return usage("%s: --force and --skip exclude each other", o.request.verb)
	}
	return g.withHistory(!o.dryRun, s, func(h history, _ workspace) error {
		act := h.move
		if o.dryRun {
			act = h.preview
		}
		if o.request.verb == "undo" && o.request.agent == "" {
			last, err := lastWriter(h)
			if err != nil {
				return err
			}
			if last.ID != 0 {
				o.request.agent = last.Agent
				fmt.Fprintf(s.err, "undo: task %d of %s: %s\n", last.ID, last.Agent, last.Title)
			}
		}
		p := startProgress(s.err, o.request.verb)
		if d, ok := h.(*detached); ok {
			d.store.Engine.SetProgress(p.set)
		}
		res, err := act(o.request)
		p.end()
		if err != nil {
			return err
		}
		if o.json {
			return printJSON(s.out, res)
		}
		what := "changed"
		if o.dryRun {
			what = "would change"
		}
		fmt.Fprintf(s.out, "task %d -> %d, %s %s\n", res.From, res.To, count(len(res.Paths), "path"), what)
		most := maxMoved
		if o.dryRun {
			most = len(res.Paths)
		}
		printChanges(s.out, res.Paths, most)
		return nil
	})
}

// lastWriter is the task that a person who names no agent means: of the active tasks of all agents the one that was written to last
// or, where that is not known, that began last.
// It has no number when the caller is an agent, which means its own, or when the last is the user's anyway.
func lastWriter(h history) (taskInfo, error) {
	caller, err := h.caller()
	if err != nil || caller != "user" {
		return taskInfo{}, err
	}
	all, err := h.tasks("")
	if err != nil {
		return taskInfo{}, err
	}
	var last taskInfo
	for _, t := range all {
		if at, then := t.wrote(), last.wrote(); t.Status == "current" && (last.ID == 0 || at.After(then) || at.Equal(then) && t.ID > last.ID) {
			last = t
		}
	}
	if last.Agent == "user" {
		return taskInfo{}, nil
	}
	return last, nil
}
