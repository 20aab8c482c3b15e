package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

func newDiff(g *global, s streams) *cobra.Command {
	return &cobra.Command{
		Use:     "diff [N|N..M] [PATH...]",
		Short:   "what a task changed, or what is different between the ends of two; without N the active one",
		Example: "  ttfs diff\n  ttfs diff 3 src/\n  ttfs diff 0..5",
		RunE:    func(_ *cobra.Command, args []string) error { return runDiff(g, args, s) },
	}
}

func runDiff(g *global, args []string, s streams) error {
	var from, to uint64
	var isRange, named bool
	if len(args) > 0 {
		a, b, dots := strings.Cut(args[0], "..")
		var okA, okB bool
		from, okA = parseID(a)
		to, okB = parseID(b)
		isRange, named = dots && okA && okB, !dots && okA
		if isRange || named {
			args = args[1:]
		}
	}
	return g.withHistory(false, s, func(h history, w workspace) error {
		paths, err := inside("diff", w.root(), args)
		if err != nil {
			return err
		}
		if isRange {
			for _, id := range []uint64{from, to} {
				if id != 0 {
					if _, err := h.task(id); err != nil {
						return err
					}
				}
			}
			return h.diffRange(s.out, from, to, paths)
		}
		if !named {
			if from, err = activeTask(h); err != nil {
				return err
			}
		}
		return h.diffTask(s.out, from, paths)
	})
}

// inside makes paths relative to the workspace: they are to the current directory, when that is in it.
func inside(verb, dir string, args []string) ([]string, error) {
	base := dir
	if cwd, err := os.Getwd(); err == nil {
		if real, err := realDir(cwd); err == nil && (real == dir || strings.HasPrefix(real, dir+"/")) {
			base = real
		}
	}
	var paths []string
	for _, arg := range args {
		path := arg
		if !filepath.IsAbs(path) {
			path = filepath.Join(base, path)
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
			return nil, usage("%s: %s is not in the workspace %s", verb, arg, dir)
		}
		paths = append(paths, rel)
	}
	return paths, nil
}
