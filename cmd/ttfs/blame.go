package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/ttfs/ttfs/fs/overlay"
)

// pathVersion is what one task did to a path, as `.tt/blame.json` and --json have it. Fields are added, never renamed.
type pathVersion struct {
	Task    uint64     `json:"task"`
	Agent   string     `json:"agent"`
	Title   string     `json:"title"`
	Started *time.Time `json:"started"`
	Status  string     `json:"status"`
	What    []string   `json:"what"`
	From    string     `json:"from,omitempty"`
	To      string     `json:"to,omitempty"`
}

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
			fmt.Fprintf(s.err, "ttfs: no task changed %s\n", line(arg))
		}
		for _, v := range all {
			t := taskInfo{Title: v.Title, Agent: v.Agent, Status: v.Status, Started: v.Started}
			fmt.Fprintf(s.out, "%s %d %s %s\n", mark(t), v.Task, v.did(), about(t, true))
		}
		return nil
	})
}

// did is what a task did, for a person.
func (v *pathVersion) did() string {
	var out []string
	for _, what := range v.What {
		if what == "renamed" {
			if v.From != "" {
				what += " from " + line(v.From)
			}
			if v.To != "" {
				what += " to " + line(v.To)
			}
		}
		out = append(out, what)
	}
	return strings.Join(out, ", ")
}

func noPath(name string) error {
	return &failure{code: exitFailed, text: "blame: " + line(name) + " is not there, and no task changed it", next: "name a path that is or was in the workspace"}
}

// blame reads the file that stands for the path; that of a directory is a name in it.
func (m *mounted) blame(name string) ([]pathVersion, error) {
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
	all := []pathVersion{}
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, failed(m.path(file), err, "the daemon is of another version: unmount and mount again")
	}
	return all, nil
}

func (d *detached) blame(name string) ([]pathVersion, error) {
	line, err := d.store.Engine.Blame(name)
	if errors.Is(err, overlay.NoPath) {
		return nil, noPath(name)
	}
	if err != nil {
		return nil, failed("", err, "run `ttfs fsck`")
	}
	all := []pathVersion{}
	for _, v := range line {
		p := pathVersion{Task: uint64(v.Task), Agent: string(v.Agent), Title: v.Title, Started: moment(v.Started), Status: string(v.Status), From: v.From, To: v.To}
		for _, what := range v.What {
			p.What = append(p.What, string(what))
		}
		all = append(all, p)
	}
	return all, nil
}
