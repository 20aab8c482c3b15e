package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// forkInfo is one fork, as `.tt/forks.json` has it. Fields are added, never renamed.
type forkInfo struct {
	Name    string    `json:"name"`
	Agent   string    `json:"agent"`
	Parent  string    `json:"parent"`
	Under   uint64    `json:"under"`
	At      *uint64   `json:"at"`
	Created time.Time `json:"created"`
	Changed int       `json:"changed"`
	PIDs    []int     `json:"pids"`
}

func newForks(g *global, s streams) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:     "forks [--json]",
		Short:   "the forks of this tree, whose they are, and what is in them",
		Example: "  ttfs forks",
		Args:    positional(cobra.NoArgs),
		RunE:    func(*cobra.Command, []string) error { return runForks(g, asJSON, s) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func runForks(g *global, asJSON bool, s streams) error {
	m, err := g.live()
	if err != nil {
		return err
	}
	all, err := m.forks()
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(s.out, all)
	}
	for _, f := range all {
		text := fmt.Sprintf("%s  of %s", f.Name, f.Parent)
		if f.At != nil {
			text += fmt.Sprintf("  at task %d", *f.At)
		}
		text += "  " + count(f.Changed, "path") + " changed"
		if len(f.PIDs) > 0 {
			text += "  pids " + strings.Trim(fmt.Sprint(f.PIDs), "[]")
		}
		fmt.Fprintln(s.out, text)
	}
	return nil
}

// forks are those of this tree, sorted by name.
func (m *mounted) forks() ([]forkInfo, error) {
	b, err := m.read("forks.json")
	if err != nil {
		return nil, err
	}
	all := []forkInfo{}
	if err := json.Unmarshal(b, &all); err != nil {
		return nil, failed(m.path("forks.json"), err, "the daemon is of another version: unmount and mount again")
	}
	return all, nil
}

// forkUsers are the processes that are in forks of a mounted workspace, for a message. A daemon that cannot tell has none.
func (m *mounted) forkUsers() []string {
	forks, err := os.ReadDir(m.path("forks"))
	if err != nil {
		return nil
	}
	var names []string
	for _, f := range forks {
		pids, err := m.word("forks/" + f.Name() + "/pids")
		if err != nil {
			continue
		}
		for _, word := range strings.Fields(pids) {
			if pid, err := strconv.Atoi(word); err == nil && pid != os.Getpid() {
				names = append(names, fmt.Sprintf("%s (%d, in the fork %s)", commandOf(pid), pid, f.Name()))
			}
		}
	}
	if len(names) > maxHolders {
		names = append(names[:maxHolders], fmt.Sprintf("%d more", len(names)-maxHolders))
	}
	return names
}
