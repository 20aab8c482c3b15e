package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newWhy(g *global, s streams) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:     "why [--json]",
		Short:   "why your last call was refused, and what to do",
		Example: "  ttfs why",
		Args:    positional(cobra.NoArgs),
		RunE:    func(*cobra.Command, []string) error { return runWhy(g, asJSON, s) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func runWhy(g *global, asJSON bool, s streams) error {
	m, err := g.live()
	if err != nil {
		return err
	}
	name := "why"
	if asJSON {
		name = "why.json"
	}
	b, err := m.read(name)
	if err != nil {
		return err
	}
	if len(b) == 0 {
		fmt.Fprintln(s.err, "ttfs: nothing of yours was refused")
	}
	_, err = s.out.Write(b)
	return err
}
