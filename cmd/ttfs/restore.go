package main

import (
	"github.com/spf13/cobra"
)

func newRestore(g *global, s streams) *cobra.Command {
	o := moveOptions{request: moveRequest{verb: "restore"}}
	c := &cobra.Command{
		Use:   "restore N PATH… [--force|--skip]",
		Short: "make paths as they were at the end of task N, as a new task",
		Long: "restore makes each path as it was at the end of task N, with all that was below it; a path that was not there then goes.\n" +
			"Your own later changes are no hindrance: to take the path back over them is what it does. It is refused when somebody else has\n" +
			"changed the same path after what it takes back; --force takes that along, and its undo brings it back.\n" +
			"Each path is a task of its own. Paths are relative to the current directory, or from outside to the workspace.",
		Example: "  ttfs restore 3 src/main.go\n  ttfs restore 0 config\n  ttfs restore 3 src --skip",
		Args:    positional(cobra.MinimumNArgs(2)),
		RunE: func(_ *cobra.Command, args []string) error {
			id, err := taskArg("restore", args[0])
			if err != nil {
				return err
			}
			o.request.to = id
			return runRestore(g, o, args[1:], s)
		},
	}
	c.Flags().BoolVar(&o.request.force, "force", false, "restore also what conflicts; that can be undone")
	c.Flags().BoolVar(&o.request.skip, "skip", false, "restore all but what conflicts")
	c.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return c
}

func runRestore(g *global, o moveOptions, paths []string, s streams) error {
	w, err := g.find()
	if err != nil {
		return err
	}
	all, err := inside("restore", w.root(), paths)
	if err != nil {
		return err
	}
	for i, path := range all {
		if path == "." {
			return usage("restore: %q is the workspace itself; `ttfs switch` moves all of it", paths[i])
		}
	}
	for _, path := range all {
		r := o
		r.request.path = path
		if err := runMove(g, r, s); err != nil {
			return err
		}
	}
	return nil
}
