package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newFork(g *global, s streams) *cobra.Command {
	at := ""
	c := &cobra.Command{
		Use:   "fork NAME [--at N]",
		Short: "a copy-on-write view of this tree, uncommitted and ignored files included, for agent NAME",
		Long: `fork makes a view of this tree as it is now, or as it was at the end of a task, in no time at any size. What is done in it is
agent NAME's, and changes nothing here until it is merged. ` + "`ttfs run --isolation fork --agent NAME -- CMD`" + ` runs a command that sees
it at this path; everybody else sees it at .tt/forks/NAME/tree.`,
		Example: "  ttfs fork try-it && ls .tt/forks/try-it/tree\n  ttfs fork as-before --at 3",
		Args:    positional(cobra.ExactArgs(1)),
		RunE:    func(_ *cobra.Command, args []string) error { return runFork(g, args[0], at, s) },
	}
	c.Flags().StringVar(&at, "at", "", "as it was at the end of task `N`; 0: before the first")
	return c
}

func runFork(g *global, name, at string, s streams) error {
	command := "fork " + name
	if at != "" {
		id, err := taskArg("fork --at", at)
		if err != nil {
			return err
		}
		command += " at=" + itoa(id)
	}
	m, err := g.live()
	if err != nil {
		return err
	}
	if _, err := m.ctl(command); err != nil {
		return err
	}
	fmt.Fprintln(s.out, m.inFork(name).dir)
	return nil
}
