package control

import (
	"fmt"
	"strings"
	"time"

	"github.com/ttfs/ttfs/tasktree"
)

// ConflictEntry is a path that a refused move would have taken from somebody else, or that is protected.
type ConflictEntry struct {
	Path  string `json:"path"`
	Agent string `json:"agent"`
	Task  uint64 `json:"task"`
	Title string `json:"title"`
	// Started is when that task began.
	Started time.Time `json:"started"`
	// Class is SYSTEM, PLATFORM or USER; where the agent is the moved one itself, the path is here for its class alone.
	Class string `json:"class"`
	// Lost says what the move would have taken away.
	Lost string `json:"lost"`
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
		return encode(all)
	})
}

// conflictLines is a line a path: path, agent, task, when it began, its title, class, and what would be lost.
func conflictLines(all []ConflictEntry) []byte {
	var s strings.Builder
	for _, ent := range all {
		fmt.Fprintf(&s, "%s\t%s\t%d\t%s\t%s\t%s\t%s\n", Quote(ent.Path), ent.Agent, ent.Task, stamp(ent.Started), ent.Title, ent.Class, ent.Lost)
	}
	return []byte(s.String())
}
