package main

import "github.com/spf13/cobra"

func newStatus(g *global, s streams) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:     "status [--json]",
		Short:   "the mount, its daemon, and who you are in it",
		Example: "  ttfs status",
		Args:    positional(cobra.NoArgs),
		RunE:    func(*cobra.Command, []string) error { return runStatus(g, asJSON, s) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func runStatus(g *global, asJSON bool, s streams) error {
	m, err := g.live()
	if err != nil {
		return err
	}
	name := "status"
	if asJSON {
		name = "status.json"
	}
	b, err := m.read(name)
	if err == nil {
		_, err = s.out.Write(b)
	}
	return err
}
