package main

import "github.com/spf13/cobra"

func newRevert(g *global, s streams) *cobra.Command {
	o := moveOptions{request: moveRequest{verb: "revert"}}
	c := &cobra.Command{
		Use:     "revert N [--agent A] [--force|--skip]",
		Short:   "take one task back, alone, as a new task",
		Long:    "revert takes back what task N did, and nothing else, as a new task. It is refused when anybody has touched the same paths since.",
		Example: "  ttfs revert 3\n  ttfs revert 3 --skip",
		Args:    positional(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			id, err := taskArg("revert", args[0])
			if err != nil {
				return err
			}
			o.request.to = id
			return runRevert(g, o, s)
		},
	}
	o.flags(c)
	return c
}

func runRevert(g *global, o moveOptions, s streams) error {
	if o.dryRun {
		return usage("revert: there is no --dry-run of it; `ttfs show %d` says what the task changed", o.request.to)
	}
	return runMove(g, o, s)
}
