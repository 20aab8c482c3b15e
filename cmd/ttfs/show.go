package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/ttfs/ttfs/fs/control"
)

func newShow(g *global, s streams) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:     "show [N]",
		Short:   "what a task is and which paths it changed; without N the active one",
		Example: "  ttfs show 3",
		Args:    positional(cobra.MaximumNArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			var id uint64
			var err error
			if len(args) > 0 {
				id, err = taskArg("show", args[0])
			}
			if err != nil {
				return err
			}
			return runShow(g, id, len(args) > 0, asJSON, s)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// shown is a task with all that is told of it.
type shown struct {
	taskInfo
	Children []uint64 `json:"children"`
	Changes  []change `json:"changes"`
}

func runShow(g *global, id uint64, named, asJSON bool, s streams) error {
	return g.withHistory(false, s, func(h history, _ workspace) error {
		var err error
		if !named {
			if id, err = activeTask(h); err != nil {
				return err
			}
		}
		var t shown
		if t.taskInfo, err = h.task(id); err != nil {
			return err
		}
		if t.Children, err = h.children(id); err != nil {
			return err
		}
		if t.Pruned {
			t.Changes = []change{}
		} else if t.Changes, err = h.files(id); err != nil {
			return err
		}
		if asJSON {
			return printJSON(s.out, t)
		}
		fmt.Fprintf(s.out, "task     %d %s\nagent    %s\nparent   %d\n", t.ID, t.Title, t.Agent, t.Parent)
		if t.Under != 0 {
			fmt.Fprintf(s.out, "under    %d\n", t.Under)
		}
		if len(t.Children) > 0 {
			fmt.Fprintf(s.out, "children %s\n", strings.Trim(fmt.Sprint(t.Children), "[]"))
		}
		fmt.Fprintf(s.out, "status   %s\nstarted  %s\nended    %s\n\n", t.Status, moments(t.Started), moments(t.Ended))
		if t.Pruned {
			fmt.Fprintf(s.out, "pruned: what its %s were before is not kept any more\n", count(t.Files, "path"))
		}
		for _, c := range t.Changes {
			fmt.Fprintf(s.out, "%s %s\n", c.Op, control.Quote(c.Path))
		}
		return nil
	})
}

// moments is a time for a person.
func moments(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05 -0700")
}
