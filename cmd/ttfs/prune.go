package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/ttfs/ttfs/fs/control"
)

// pruneOptions are the flags of prune.
type pruneOptions struct {
	keep, max    string
	dryRun, json bool
}

// pruneResult is what went, or would go.
type pruneResult struct {
	DryRun bool     `json:"dry_run"`
	Tasks  []uint64 `json:"tasks"`
	// Before and After are the size of the store in bytes.
	Before int64 `json:"before"`
	After  int64 `json:"after"`
}

func newPrune(g *global, s streams) *cobra.Command {
	o := pruneOptions{}
	c := &cobra.Command{
		Use:   "prune [--keep 30d] [--max-size 10G] [--dry-run]",
		Short: "give up the oldest history, and give its space back",
		Long: "prune gives up what the oldest tasks changed: those in which nothing happened for longer than --keep, and more of the\n" +
			"oldest until the store takes no more than --max-size. Each agent's timeline then begins later: one cannot go back beyond\n" +
			"that point, and everything after it stays exact. No file of the workspace is touched. Without flags, what [limits] in\n" +
			".ttfs.toml says is kept, and what nobody needs any more is given back in any case.",
		Example: "  ttfs prune --keep 30d\n  ttfs prune --max-size 10G --dry-run",
		Args:    positional(cobra.NoArgs),
		RunE:    func(*cobra.Command, []string) error { return runPrune(g, o, s) },
	}
	f := c.Flags()
	f.StringVar(&o.keep, "keep", "", "keep what happened in this `TIME`: a number and s, m, h, d or w")
	f.StringVar(&o.max, "max-size", "", "the `SIZE` that the store may take: a number and K, M, G or T")
	f.BoolVar(&o.dryRun, "dry-run", false, "change nothing, say what would go")
	f.BoolVar(&o.json, "json", false, "print JSON")
	return c
}

func (o pruneOptions) request() (r control.PruneRequest, err error) {
	if o.keep != "" {
		if r.Keep, err = control.ParseKeep(o.keep); err != nil {
			return r, usage("prune: --keep: %v", err)
		}
	}
	if o.max != "" {
		if r.MaxBytes, err = control.ParseBytes(o.max); err != nil {
			return r, usage("prune: --max-size: %v", err)
		}
	}
	r.Dry = o.dryRun
	return r, nil
}

func runPrune(g *global, o pruneOptions, s streams) error {
	r, err := o.request()
	if err != nil {
		return err
	}
	return g.withHistory(true, s, func(h history, _ workspace) error {
		var res pruneResult
		var err error
		p := startProgress(s.err, "prune")
		switch h := h.(type) {
		case *detached:
			h.store.Engine.SetProgress(p.set)
			res, err = h.prune(r)
		case *mounted:
			res, err = h.prune(o)
		}
		p.end()
		if err != nil {
			return err
		}
		if o.json {
			return printJSON(s.out, res)
		}
		went := "pruned"
		if o.dryRun {
			went = "would be pruned"
		}
		fmt.Fprintf(s.out, "%s %s, the store: %s -> %s\n", count(len(res.Tasks), "task"), went, sizeText(res.Before), sizeText(res.After))
		return nil
	})
}

// prune asks the daemon.
func (m *mounted) prune(o pruneOptions) (pruneResult, error) {
	command := "prune"
	if o.keep != "" {
		command += " keep=" + o.keep
	}
	if o.max != "" {
		command += " max=" + o.max
	}
	if o.dryRun {
		command += " dry"
	}
	reply, err := m.ctl(command)
	if err != nil {
		return pruneResult{}, err
	}
	res := pruneResult{DryRun: o.dryRun, Tasks: []uint64{}}
	var n int
	if got, err := fmt.Sscanf(reply, "ok %d\nbefore %d\nafter %d\n", &n, &res.Before, &res.After); got != 3 {
		return res, &failure{code: exitFailed, text: "the daemon's reply is not understood", err: err, next: "it was done; see `ttfs log`"}
	}
	for _, word := range strings.Fields(strings.SplitAfterN(reply, "\n", 4)[3]) {
		if id, err := strconv.ParseUint(word, 10, 64); err == nil {
			res.Tasks = append(res.Tasks, id)
		}
	}
	return res, nil
}

func (d *detached) prune(r control.PruneRequest) (pruneResult, error) {
	got, err := d.store.Prune(r)
	if err != nil {
		return pruneResult{}, failed("prune", err, "what was pruned before stays so; run `ttfs fsck`, then try again")
	}
	res := pruneResult{DryRun: r.Dry, Tasks: []uint64{}, Before: got.Before, After: got.After}
	for _, id := range got.Tasks {
		res.Tasks = append(res.Tasks, uint64(id))
	}
	return res, nil
}

// sizeText is a number of bytes for a person.
func sizeText(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, at := float64(n), 0
	for f >= 1024 && at < len(units)-1 {
		f, at = f/1024, at+1
	}
	if at == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, units[at])
}

// gone says of a task whose files are not there whether it was pruned or never was.
func (m *mounted) gone(id uint64) error {
	if t, err := m.task(id); err == nil && t.Pruned {
		return pruned(id)
	}
	return noTask(id)
}

func pruned(id uint64) error {
	return &failure{code: exitNoTask, text: "task " + itoa(id) + " was pruned: what it changed is not kept any more", next: "`ttfs log` shows which tasks are"}
}
