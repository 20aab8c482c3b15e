package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
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
	// Left is what a death left over: no damage. Only of a store that is not mounted.
	Left []string `json:"left_over,omitempty"`
}

func newFsck(g *global, s streams) *cobra.Command {
	asJSON, repair := false, false
	c := &cobra.Command{
		Use:   "fsck [--json|--repair]",
		Short: "read all of the history and say what is damaged",
		Long: "fsck reads every record, every before-image and every blob of the store and verifies it. It changes nothing. Of a mounted\n" +
			"workspace the daemon does it (.tt/fsck), beside its work; one check at a time.\n\n" +
			"--repair keeps all that is sound and drops what cannot be had: a task of which anything is dropped is marked incomplete.\n" +
			"It says each thing that it does. It ends a move that was interrupted, and needs the workspace unmounted.",
		Example: "  ttfs fsck\n  ttfs fsck --repair",
		Args:    positional(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			if repair {
				return runRepair(c.Context(), g, asJSON, s)
			}
			return runFsck(c.Context(), g, asJSON, s)
		},
	}
	c.Flags().BoolVar(&repair, "repair", false, "make the store sound; see above")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func runFsck(ctx context.Context, g *global, asJSON bool, s streams) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return g.withHistory(false, s, func(h history, w workspace) error {
		check := fsckDetached
		if m, ok := h.(*mounted); ok {
			check = m.fsck
		}
		damaged, err := check(ctx, h, w, asJSON, s)
		if errors.Is(err, context.Canceled) {
			return &failure{code: exitInterrupted, text: "fsck of " + w.dir, err: err}
		}
		if err != nil {
			return failed("fsck of "+w.dir, err, "")
		}
		if damaged {
			return &failure{code: exitFailed, text: "the history of " + w.dir + " is damaged", next: "the workspace itself is not: its files are as they were written"}
		}
		return nil
	})
}

// fsckDetached checks the store itself.
func fsckDetached(ctx context.Context, h history, w workspace, asJSON bool, s streams) (damaged bool, err error) {
	e := h.(*detached).store.Engine
	res := checked{Problems: []string{}}
	p := startProgress(s.err, "fsck of "+w.dir)
	e.SetProgress(p.set)
	n, err := e.Verify(ctx, func(problem string) {
		res.Problems = append(res.Problems, problem)
		if !asJSON {
			fmt.Fprintln(s.out, problem)
		}
	})
	p.end()
	if err != nil {
		return false, err
	}
	res.set(n)
	res.Left = []string{}
	if err := e.Leftovers(func(what string) { res.Left = append(res.Left, what) }); err != nil {
		return false, err
	}
	if asJSON {
		err = printJSON(s.out, res)
	} else {
		for _, what := range res.Left {
			fmt.Fprintln(s.out, "left over: "+what)
		}
		_, err = fmt.Fprintln(s.out, n)
	}
	return len(res.Problems) > 0, err
}

func (c *checked) set(n overlay.VerifyCounts) {
	c.Tasks, c.Images, c.Pieces, c.Records, c.Blobs = n.Tasks, n.Images, n.Pieces, n.Records, n.Blobs
}

// fsck has the daemon check: reading the file is what runs it, and closing it ends it.
func (m *mounted) fsck(ctx context.Context, _ history, _ workspace, asJSON bool, s streams) (damaged bool, err error) {
	name := "fsck"
	if asJSON {
		name = "fsck.json"
	}
	type answer struct {
		last string
		err  error
	}
	told := make(chan answer, 1)
	f, err := os.Open(m.path(name))
	if errors.Is(err, syscall.EBUSY) {
		return false, &failure{code: exitFailed, text: "another fsck runs", next: "wait until it has ended"}
	}
	if err != nil {
		return false, err
	}
	go func() { // a read waits in the daemon: an interrupt must not wait for it
		defer f.Close()
		var a answer
		var all strings.Builder
		lines := bufio.NewReader(f)
		for a.err == nil {
			var l string
			if l, a.err = lines.ReadString('\n'); l != "" {
				a.last = l
				all.WriteString(l)
				if !asJSON {
					if _, err := io.WriteString(s.out, l); err != nil {
						a.err = err
					}
				}
			}
		}
		if a.err == io.EOF {
			a.err = nil
		}
		if asJSON {
			a.last = all.String()
		}
		told <- a
	}()
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case a := <-told:
		if a.err != nil {
			return false, a.err
		}
		if !asJSON {
			return !strings.HasSuffix(a.last, ": 0 problems\n"), nil
		}
		var res checked
		if err := json.Unmarshal([]byte(a.last), &res); err != nil {
			return false, err
		}
		return len(res.Problems) > 0, printJSON(s.out, res)
	}
}
