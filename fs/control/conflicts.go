package control

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/ttfs/ttfs/tasktree"
)

// ConflictEntry is a path that a refused move would have taken from somebody else.
type ConflictEntry struct {
	Path  string `json:"path"`
	Agent string `json:"agent"`
	Task  uint64 `json:"task"`
	Title string `json:"title"`
	// Started is when that task began.
	Started time.Time `json:"started"`
}

// Refuser tells why an agent's last move was refused. Without it there is no `.tt/conflicts`.
type Refuser interface {
	Conflicts(a tasktree.Agent) []ConflictEntry
}

// conflicts adds the report of the caller's last refused move: a line a path, with who, the task and its title.
func conflicts(d builder, b Backend) {
	r, ok := b.(Refuser)
	if !ok {
		return
	}
	d.file("conflicts", func(c Caller) ([]byte, error) {
		return conflictLines(r.Conflicts(c.Agent)), nil
	})
	d.file("conflicts.json", func(c Caller) ([]byte, error) {
		all := r.Conflicts(c.Agent)
		if all == nil {
			all = []ConflictEntry{}
		}
		j, err := json.MarshalIndent(all, "", "  ")
		return append(j, '\n'), err
	})
}

// conflictLines is a line a path.
func conflictLines(all []ConflictEntry) []byte {
	var s strings.Builder
	for _, ent := range all {
		fmt.Fprintf(&s, "%s\t%s\t%d\t%s\t%s\n", quote(ent.Path), ent.Agent, ent.Task, stamp(ent.Started), ent.Title)
	}
	return []byte(s.String())
}
