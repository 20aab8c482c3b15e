package main

import (
	"strconv"

	"github.com/spf13/cobra"
)

func newSwitch(g *global, s streams) *cobra.Command {
	o := moveOptions{request: moveRequest{verb: "switch"}}
	c := &cobra.Command{
		Use:     "switch N [--agent A] [--force|--skip] [--dry-run]",
		Short:   "go to the end of any task; 0: before the first",
		Example: "  ttfs switch 3\n  ttfs switch 0 --dry-run",
		Args:    positional(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			id, err := taskArg("switch", args[0])
			if err != nil {
				return err
			}
			o.request.to = id
			return runSwitch(g, o, s)
		},
	}
	o.flags(c)
	return c
}

func runSwitch(g *global, o moveOptions, s streams) error { return runMove(g, o, s) }

// taskArg reads the number of a task.
func taskArg(verb, word string) (uint64, error) {
	id, ok := parseID(word)
	if !ok {
		return 0, usage("%s: %q is not the number of a task; `ttfs log --all` lists them", verb, word)
	}
	return id, nil
}

// parseID reads the one spelling of a task's number.
func parseID(word string) (uint64, bool) {
	id, err := strconv.ParseUint(word, 10, 64)
	return id, err == nil && itoa(id) == word
}
