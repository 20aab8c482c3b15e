package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func newTask(g *global, s streams) *cobra.Command {
	return &cobra.Command{
		Use:     "task [TITLE]",
		Short:   "begin a task and print its number",
		Example: "  ttfs task fix the parser",
		RunE:    func(_ *cobra.Command, args []string) error { return runTask(g, strings.Join(args, " "), s) },
	}
}

func runTask(g *global, title string, s streams) error {
	m, err := g.live()
	if err != nil {
		return err
	}
	reply, err := m.ctl(strings.TrimSpace("task " + oneLine(title)))
	if err != nil {
		return err
	}
	fmt.Fprintln(s.out, strings.TrimSpace(strings.TrimPrefix(reply, "ok")))
	return nil
}
