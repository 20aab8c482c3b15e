package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

func newRestore(g *global, s streams) *cobra.Command {
	o := moveOptions{request: moveRequest{verb: "restore"}}
	c := &cobra.Command{
		Use:   "restore N PATH…",
		Short: "make paths as they were at the end of task N, as a new task",
		Long: "restore makes each path as it was at the end of task N, with all that was below it; a path that was not there then goes.\n" +
			"Each path is a task of its own. Paths are relative to the current directory, or from outside to the workspace.",
		Example: "  ttfs restore 3 src/main.go\n  ttfs restore 0 config",
		Args:    positional(cobra.MinimumNArgs(2)),
		RunE: func(_ *cobra.Command, args []string) error {
			id, err := taskArg("restore", args[0])
			if err != nil {
				return err
			}
			o.request.to = id
			return runRestore(g, o, args[1:], s)
		},
	}
	c.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return c
}

func runRestore(g *global, o moveOptions, paths []string, s streams) error {
	for _, p := range paths {
		r := o
		inside, err := g.inside(p)
		if err != nil {
			return err
		}
		r.request.path = inside
		if err := runMove(g, r, s); err != nil {
			return err
		}
	}
	return nil
}

// inside is a path of the command line as one of the workspace.
func (g *global) inside(p string) (string, error) {
	w, err := g.find()
	if err != nil {
		return "", err
	}
	full := filepath.Join(w.root(), p)
	if cwd, err := os.Getwd(); err == nil {
		if real, err := realDir(cwd); err == nil && (real == w.root() || strings.HasPrefix(real, w.root()+"/")) {
			full = filepath.Join(real, p)
		}
	}
	if filepath.IsAbs(p) {
		full = filepath.Clean(p)
	}
	rel, err := filepath.Rel(w.root(), full)
	if err != nil || rel == "." || rel == ".." || strings.HasPrefix(rel, "../") {
		return "", usage("restore: %q is not below %s", p, w.root())
	}
	return rel, nil
}
