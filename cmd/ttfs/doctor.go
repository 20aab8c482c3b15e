package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"github.com/ttfs/ttfs/fs"
)

func newDoctor(s streams) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:     "doctor [--json]",
		Short:   "what this machine allows, and how to get the rest",
		Example: "  ttfs doctor",
		Args:    positional(cobra.NoArgs),
		RunE:    func(*cobra.Command, []string) error { return runDoctor(fs.Probe(), asJSON, s) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// diagnosis is what doctor prints. Fields are added, never renamed.
type diagnosis struct {
	Kernel      string            `json:"kernel"`
	FUSE        bool              `json:"fuse"`
	Fusermount  bool              `json:"fusermount"`
	Root        bool              `json:"root"`
	Passthrough bool              `json:"passthrough"`
	Uring       string            `json:"uring"`
	Why         map[string]string `json:"why"`
}

func runDoctor(a fs.Abilities, asJSON bool, s streams) error {
	d := diagnosis{Kernel: a.Kernel, FUSE: a.FUSE, Fusermount: a.Fusermount, Root: a.Root, Passthrough: a.Passthrough, Uring: a.Uring, Why: a.Why}
	if asJSON {
		return printJSON(s.out, d)
	}
	yes := map[bool]string{true: "yes", false: "no"}
	fmt.Fprintf(s.out, "kernel       %s\nfuse         %s\nfusermount   %s\nroot         %s\npassthrough  %s\nuring        %s\n",
		d.Kernel, yes[d.FUSE], yes[d.Fusermount], yes[d.Root], yes[d.Passthrough], d.Uring)
	for _, what := range slices.Sorted(maps.Keys(d.Why)) {
		fmt.Fprintf(s.out, "%s: %s\n", what, d.Why[what])
	}
	return nil
}
