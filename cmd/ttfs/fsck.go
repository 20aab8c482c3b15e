package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/ttfs/ttfs/fs/overlay"
)

// checked is what fsck found.
type checked struct {
	Tasks    int      `json:"tasks"`
	Images   int      `json:"images"`
	Pieces   int      `json:"pieces"`
	Records  int      `json:"records"`
	Blobs    int      `json:"blobs"`
	Problems []string `json:"problems"`
}

func newFsck(g *global, s streams) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:     "fsck [--json]",
		Short:   "read all of the history and say what is damaged",
		Long:    "fsck reads every record, every before-image and every blob of the store and verifies it. It changes nothing.",
		Example: "  ttfs fsck",
		Args:    positional(cobra.NoArgs),
		RunE:    func(c *cobra.Command, _ []string) error { return runFsck(c.Context(), g, asJSON, s) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func runFsck(ctx context.Context, g *global, asJSON bool, s streams) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return g.withHistory(false, s, func(h history, w workspace) error {
		d, ok := h.(*detached)
		if !ok {
			return &failure{code: exitFailed, text: w.dir + " is mounted, and its daemon has the store", next: "`ttfs unmount` it, then check it"}
		}
		res := checked{Problems: []string{}}
		p := startProgress(s.err, "fsck of "+w.dir)
		d.store.Engine.SetProgress(p.set)
		n, err := d.store.Engine.Verify(ctx, func(problem string) {
			res.Problems = append(res.Problems, problem)
			if !asJSON {
				fmt.Fprintln(s.out, problem)
			}
		})
		p.end()
		if errors.Is(err, context.Canceled) {
			return &failure{code: exitInterrupted, text: "fsck of " + w.dir, err: err}
		}
		if err != nil {
			return failed("fsck of "+w.dir, err, "")
		}
		res.set(n)
		if asJSON {
			err = printJSON(s.out, res)
		} else {
			_, err = fmt.Fprintf(s.out, "%s, %s, %s, %s, %s: %s\n", count(n.Tasks, "task"), count(n.Images, "image"), count(n.Pieces, "piece"),
				count(n.Records, "record"), count(n.Blobs, "blob"), count(len(res.Problems), "problem"))
		}
		if err == nil && len(res.Problems) > 0 {
			return &failure{code: exitFailed, text: "the history of " + w.dir + " is damaged", next: "the workspace itself is not: its files are as they were written"}
		}
		return err
	})
}

func (c *checked) set(n overlay.VerifyCounts) {
	c.Tasks, c.Images, c.Pieces, c.Records, c.Blobs = n.Tasks, n.Images, n.Pieces, n.Records, n.Blobs
}
