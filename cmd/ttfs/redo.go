package main

import "github.com/spf13/cobra"

func newRedo(g *global, s streams) *cobra.Command {
	o := moveOptions{request: moveRequest{verb: "redo"}}
	c := &cobra.Command{
		Use:     "redo [--agent A] [--force|--skip] [--dry-run]",
		Short:   "bring back what was undone last",
		Example: "  ttfs redo --dry-run\n  ttfs redo --agent claude",
		Args:    positional(cobra.NoArgs),
		RunE:    func(*cobra.Command, []string) error { return runRedo(g, o, s) },
	}
	o.flags(c)
	return c
}

func runRedo(g *global, o moveOptions, s streams) error { return runMove(g, o, s) }
