package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// mergeOptions are the flags of merge.
type mergeOptions struct {
	strict, dryRun, json bool
	force                string
}

func newMerge(g *global, s streams) *cobra.Command {
	o := mergeOptions{}
	c := &cobra.Command{
		Use:   "merge NAME [--strict] [--force mine|theirs] [--dry-run]",
		Short: "bring what a fork changed into this tree, as one task that can be undone",
		Long: `merge brings content, modes, deletions, renames and untracked files of a fork here. Where both sides have changed a file since the
fork, its lines are merged; where that cannot be done cleanly, nothing is changed, exit status 3, and .tt/conflicts lists the paths.
--force decides those: mine keeps what is here, theirs takes the fork's. A second merge brings only what is new.`,
		Example: "  ttfs merge try-it --dry-run\n  ttfs merge try-it",
		Args:    positional(cobra.ExactArgs(1)),
		RunE:    func(_ *cobra.Command, args []string) error { return runMerge(g, args[0], o, s) },
	}
	f := c.Flags()
	f.BoolVar(&o.strict, "strict", false, "refuse also when the fork has read a file that has changed here since")
	f.StringVar(&o.force, "force", "", "what both sides changed: `mine|theirs`")
	f.BoolVarP(&o.dryRun, "dry-run", "n", false, "say what would change, and change nothing")
	f.BoolVar(&o.json, "json", false, "print JSON")
	return c
}

func runMerge(g *global, name string, o mergeOptions, s streams) error {
	if o.force != "" && o.force != "mine" && o.force != "theirs" {
		return usage("merge: --force is mine or theirs, not %q", o.force)
	}
	m, err := g.live()
	if err != nil {
		return err
	}
	command := "merge " + name
	if o.strict {
		command += " strict"
	}
	if o.force != "" {
		command += " force=" + o.force
	}
	if o.dryRun {
		command += " dry-run"
	}
	reply, err := m.ctl(command)
	if err != nil {
		return err
	}
	res, err := parseReply(reply)
	if err != nil {
		return err
	}
	res.DryRun = o.dryRun
	if o.json {
		return printJSON(s.out, res)
	}
	if o.dryRun {
		fmt.Fprintf(s.out, "%s would change\n", count(len(res.Paths), "path"))
		printChanges(s.out, res.Paths, len(res.Paths))
		return nil
	}
	if len(res.Paths) == 0 {
		fmt.Fprintf(s.out, "nothing to merge from %s\n", name)
		return nil
	}
	fmt.Fprintf(s.out, "task %d, %s changed\n", res.To, count(len(res.Paths), "path"))
	printChanges(s.out, res.Paths, maxMoved)
	return nil
}
