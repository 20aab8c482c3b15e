package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/signal"
	"syscall"

	"github.com/ttfs/ttfs/fs"
)

// mended is what fsck --repair did, and what a check found after it.
type mended struct {
	Done []string `json:"done"`
	checked
}

// runRepair makes the store of a workspace sound and checks it then.
func runRepair(ctx context.Context, g *global, asJSON bool, s streams) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	w, err := g.find()
	if err != nil {
		return err
	}
	if w.mounted {
		return &failure{code: exitFailed, text: w.dir + " is mounted, and its daemon has the store", next: "`ttfs unmount` it, then repair it"}
	}
	if !hasStore(w.dir) {
		return notMounted(w)
	}
	res := mended{Done: []string{}}
	res.Problems = []string{}
	d, err := fs.RepairDetached(w.dir, slog.New(slog.DiscardHandler), func(what string) {
		res.Done = append(res.Done, what)
		if !asJSON {
			fmt.Fprintln(s.out, "repaired: "+what)
		}
	})
	if err != nil {
		return failed("repair the store of "+w.dir, err,
			"the workspace itself is sound; to begin a new history move "+w.dir+"/.tt away: what was removed is in its hold directory")
	}
	n, err := d.Engine.Verify(ctx, func(problem string) {
		res.Problems = append(res.Problems, problem)
		if !asJSON {
			fmt.Fprintln(s.out, problem)
		}
	})
	if err = errors.Join(err, d.Close()); err != nil {
		return failed("check the repaired store of "+w.dir, err, "")
	}
	res.set(n)
	if asJSON {
		err = printJSON(s.out, res)
	} else {
		_, err = fmt.Fprintf(s.out, "%s; %v\n", count(len(res.Done), "repair"), n)
	}
	if err == nil && len(res.Problems) > 0 {
		return &failure{code: exitFailed, text: "something could not be repaired", next: "the workspace itself is sound: its files are as they were written"}
	}
	return err
}
