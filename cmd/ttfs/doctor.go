package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

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
	Forks       bool              `json:"forks"`
	Isolation   []string          `json:"isolation"` // what `run --isolation` can be here
	Why         map[string]string `json:"why"`
}

func runDoctor(a fs.Abilities, asJSON bool, s streams) error {
	d := diagnosis{Kernel: a.Kernel, FUSE: a.FUSE, Fusermount: a.Fusermount, Root: a.Root, Passthrough: a.Passthrough, Uring: a.Uring, Forks: a.Forks, Isolation: isolations(a.Forks), Why: a.Why}
	if asJSON {
		return printJSON(s.out, d)
	}
	yes := map[bool]string{true: "yes", false: "no"}
	fmt.Fprintf(s.out, "kernel       %s\nfuse         %s\nfusermount   %s\nroot         %s\npassthrough  %s\nuring        %s\nforks        %s\nisolation    %s\n",
		d.Kernel, yes[d.FUSE], yes[d.Fusermount], yes[d.Root], yes[d.Passthrough], d.Uring, yes[d.Forks], strings.Join(d.Isolation, " "))
	for _, what := range slices.Sorted(maps.Keys(d.Why)) {
		fmt.Fprintf(s.out, "%s: %s\n", what, d.Why[what])
	}
	return nil
}

// isolations are the modes that can be had on a machine.
func isolations(forks bool) []string {
	if forks {
		return []string{"none", "fork", "ro"}
	}
	return []string{"none", "ro"}
}
