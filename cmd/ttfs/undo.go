package main

import "github.com/spf13/cobra"

func newUndo(g *global, s streams) *cobra.Command {
	o := moveOptions{request: moveRequest{verb: "undo"}}
	c := &cobra.Command{
		Use:     "undo [--agent A] [--force|--skip] [--dry-run]",
		Short:   "take the active task back",
		Long:    "undo takes the active task back: your own, the agent's that --agent names, or, when you are the user and name none, the one\nthat began last, whosever it is; it says which.",
		Example: "  ttfs undo --dry-run\n  ttfs undo --agent claude",
		Args:    positional(cobra.NoArgs),
		RunE:    func(*cobra.Command, []string) error { return runUndo(g, o, s) },
	}
	o.flags(c)
	return c
}

func runUndo(g *global, o moveOptions, s streams) error { return runMove(g, o, s) }
