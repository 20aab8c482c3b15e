package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newDiscard(g *global, s streams) *cobra.Command {
	force := false
	c := &cobra.Command{
		Use:   "discard NAME [--force]",
		Short: "take a fork away, with all that was done in it",
		Long: `discard takes a fork away, with all that was done in it; this tree does not change. It is refused while a process is in it, or while it
has forks of its own, unless it is forced: its processes then see nothing any more.`,
		Example: "  ttfs discard try-it",
		Args:    positional(cobra.ExactArgs(1)),
		RunE:    func(_ *cobra.Command, args []string) error { return runDiscard(g, args[0], force, s) },
	}
	c.Flags().BoolVar(&force, "force", false, "although processes are in it, or forks of it are there")
	return c
}

func runDiscard(g *global, name string, force bool, s streams) error {
	m, err := g.live()
	if err != nil {
		return err
	}
	command := "discard " + name
	if force {
		command += " force"
	}
	if _, err := m.ctl(command); err != nil {
		return err
	}
	fmt.Fprintf(s.err, "ttfs: the fork %s is gone\n", name)
	return nil
}
