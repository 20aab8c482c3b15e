package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// agentInfo is one agent. Fields are added, never renamed.
type agentInfo struct {
	Name      string `json:"name"`
	Parent    string `json:"parent"`
	Active    uint64 `json:"active"`
	PIDs      []int  `json:"pids"`
	Isolation string `json:"isolation"`
}

func newAgents(g *global, s streams) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:     "agents [--json]",
		Short:   "who works in the workspace, where, and with which processes",
		Example: "  ttfs agents",
		Args:    positional(cobra.NoArgs),
		RunE:    func(*cobra.Command, []string) error { return runAgents(g, asJSON, s) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func runAgents(g *global, asJSON bool, s streams) error {
	m, err := g.live()
	if err != nil {
		return err
	}
	names, err := m.agents()
	if err != nil {
		return err
	}
	all := []agentInfo{}
	for _, name := range names {
		a := agentInfo{Name: name, PIDs: []int{}}
		if a.Parent, err = m.word("agents/" + name + "/parent"); err != nil {
			return err
		}
		if a.Isolation, err = m.word("agents/" + name + "/isolation"); err != nil {
			return err
		}
		if a.Active, err = m.active(name); err != nil {
			return err
		}
		pids, err := m.word("agents/" + name + "/pids")
		if err != nil {
			return err
		}
		for _, word := range strings.Fields(pids) {
			if pid, err := strconv.Atoi(word); err == nil {
				a.PIDs = append(a.PIDs, pid)
			}
		}
		all = append(all, a)
	}
	if asJSON {
		return printJSON(s.out, all)
	}
	for _, a := range all {
		text := fmt.Sprintf("%s  task %d", a.Name, a.Active)
		if a.Parent != "" {
			text += "  under " + a.Parent
		}
		if a.Isolation != "none" {
			text += "  isolation " + a.Isolation
		}
		if len(a.PIDs) > 0 {
			text += "  pids " + strings.Trim(fmt.Sprint(a.PIDs), "[]")
		}
		fmt.Fprintln(s.out, text)
	}
	return nil
}
