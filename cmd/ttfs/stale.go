package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func newStale(g *global, s streams) *cobra.Command {
	asJSON, agent := false, ""
	c := &cobra.Command{
		Use:     "stale [--agent NAME] [--json]",
		Short:   "what you have read and others have changed since, and who",
		Example: "  ttfs stale",
		Args:    positional(cobra.NoArgs),
		RunE:    func(*cobra.Command, []string) error { return runStale(g, agent, asJSON, s) },
	}
	c.Flags().StringVar(&agent, "agent", "", "what that agent `NAME` has read (default: you)")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// runStale prints one path a line, a tab, and those who wrote it since, with commas between.
func runStale(g *global, agent string, asJSON bool, s streams) error {
	m, err := g.live()
	if err != nil {
		return err
	}
	name := "stale"
	if agent != "" {
		name = "agents/" + agent + "/stale"
	}
	if asJSON {
		name += ".json"
	}
	b, err := m.read(name)
	if agent != "" && errors.Is(err, os.ErrNotExist) {
		return noAgent(agent)
	}
	if err != nil {
		return err
	}
	if len(b) == 0 {
		fmt.Fprintln(s.err, "ttfs: nothing that was read has been changed by others since")
	}
	_, err = s.out.Write(b)
	return err
}
