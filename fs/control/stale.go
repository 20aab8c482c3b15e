package control

import (
	"fmt"
	"strings"

	"github.com/ttfs/ttfs/tasktree"
)

// StaleEntry is a path that an agent has read and others have changed since.
type StaleEntry struct {
	Path string `json:"path"`
	// Writers are the others, sorted.
	Writers []string `json:"writers"`
}

// Reminder tells what others changed of what an agent has read, sorted by path. Without it there is no `.tt/stale`.
type Reminder interface {
	Stale(a tasktree.Agent) []StaleEntry
}

// stale adds the reminder of an agent ("" for the caller's own) to a directory.
func stale(d builder, b Backend, name tasktree.Agent) {
	r, ok := b.(Reminder)
	if !ok {
		return
	}
	whose := func(c Caller) []StaleEntry {
		if name != "" {
			return r.Stale(name)
		}
		return r.Stale(c.Agent)
	}
	d.file("stale", func(c Caller) ([]byte, error) {
		var s strings.Builder
		for _, ent := range whose(c) {
			fmt.Fprintf(&s, "%s\t%s\n", Quote(ent.Path), strings.Join(ent.Writers, ","))
		}
		return []byte(s.String()), nil
	})
	d.file("stale.json", func(c Caller) ([]byte, error) {
		all := whose(c)
		if all == nil {
			all = []StaleEntry{}
		}
		return encode(all)
	})
}
