package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

func newStats(g *global, s streams) *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:     "stats [--json]",
		Short:   "how much history is kept, and what the daemon has done",
		Example: "  ttfs stats",
		Args:    positional(cobra.NoArgs),
		RunE:    func(*cobra.Command, []string) error { return runStats(g, asJSON, s) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func runStats(g *global, asJSON bool, s streams) error {
	return g.withHistory(false, s, func(h history, _ workspace) error {
		var b bytes.Buffer
		if err := h.metrics(&b); err != nil {
			return err
		}
		all := parseMetrics(b.String())
		if asJSON {
			values := map[string]json.Number{}
			for _, m := range all {
				values[m.name] = json.Number(m.value)
			}
			return printJSON(s.out, values)
		}
		printMetrics(s.out, all)
		return nil
	})
}

// metric is one line of the metrics, with the help of its name.
type metric struct{ name, value, help string }

// parseMetrics reads Prometheus' text format as far as the daemon writes it. What is not a number is left out.
func parseMetrics(text string) []metric {
	help := map[string]string{}
	var all []metric
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "# HELP "); ok {
			name, about, _ := strings.Cut(rest, " ")
			help[name] = about
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		if i < 0 || line[0] == '#' || !json.Valid([]byte(line[i+1:])) {
			continue
		}
		name := strings.TrimSpace(line[:i])
		base, _, _ := strings.Cut(name, "{")
		all = append(all, metric{name, line[i+1:], help[base]})
	}
	return all
}

func printMetrics(w io.Writer, all []metric) {
	wide := 0
	for _, m := range all {
		wide = max(wide, len(m.name))
	}
	for _, m := range all {
		fmt.Fprintf(w, "%-*s  %12s  %s\n", wide, m.name, m.value, m.help)
	}
}
