package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/spf13/cobra"
	"github.com/ttfs/ttfs/fs/control"
	"github.com/ttfs/ttfs/fs/overlay"
)

func newBlame(g *global, s streams) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "blame PATH",
		Short: "which agents and tasks changed a path, newest first",
		Long: "blame tells every task that changed a path, and what was at it, also before it was renamed: who, in which task, what and when\n" +
			"that task began. The first line that is not marked ↯ is who changed it last. The path may be deleted.",
		Example: "  ttfs blame src/main.go",
		Args:    positional(cobra.ExactArgs(1)),
		RunE:    func(_ *cobra.Command, args []string) error { return runBlame(g, args[0], asJSON, s) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func runBlame(g *global, arg string, asJSON bool, s streams) error {
	return g.withHistory(false, s, func(h history, w workspace) error {
		paths, err := inside("blame", w.root(), []string{arg})
		if err != nil {
			return err
		}
		name := paths[0]
		if name == ".tt" || strings.HasPrefix(name, ".tt/") || path.Base(name) == ".tt" {
			return usage("blame: %s is a store, which has no history of its own", arg)
		}
		if name == "." {
			name = ""
		}
		all, err := h.blame(name)
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(s.out, all)
		}
		if len(all) == 0 {
			fmt.Fprintf(s.err, "ttfs: no task changed %s\n", control.Quote(arg))
		}
		for _, v := range all {
			t := taskInfo{Title: v.Title, Agent: v.Agent, Status: v.Status, Started: v.Started}
			fmt.Fprintf(s.out, "%s %d %s %s\n", mark(t), v.Task, v.Did(), about(t, true))
		}
		return nil
	})
}

func noPath(name string) error {
	return &failure{code: exitFailed, text: "blame: " + control.Quote(name) + " is not there, and no task changed it", next: "name a path that is or was in the workspace"}
}

// blame reads the file that stands for the path; that of a directory is a name in it.
func (m *mounted) blame(name string) ([]control.Version, error) {
	file := path.Join("blame.json", name)
	st, err := os.Lstat(m.path(file))
	if err == nil && st.IsDir() {
		file += "/.tt"
	}
	var b []byte
	if err == nil {
		b, err = m.read(file)
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil, noPath(name)
	}
	if err != nil {
		return nil, failed("blame", err, "")
	}
	all := []control.Version{}
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, failed(m.path(file), err, "the daemon is of another version: unmount and mount again")
	}
	return all, nil
}

func (d *detached) blame(name string) ([]control.Version, error) {
	all, err := d.store.Blame(name)
	if errors.Is(err, overlay.NoPath) {
		return nil, noPath(name)
	}
	if err != nil {
		return nil, failed("", err, "run `ttfs fsck`")
	}
	return all, nil
}
