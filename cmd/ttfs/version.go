package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

func newVersion(s streams) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:     "version [--json]",
		Short:   "the version of this program",
		Example: "  ttfs version",
		Args:    positional(cobra.NoArgs),
		RunE:    func(*cobra.Command, []string) error { return runVersion(asJSON, s) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func runVersion(asJSON bool, s streams) error {
	if asJSON {
		return printJSON(s.out, map[string]string{"version": version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH})
	}
	_, err := fmt.Fprintf(s.out, "ttfs %s (%s, %s/%s)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
