package guard

import (
	"fmt"
	"strings"
)

// Kind is a reason why something is refused; it is an error itself.
type Kind string

// Error is the kind's own words.
func (k Kind) Error() string { return string(k) }

// The kinds. The first four are verdicts, the last two are of Import.
const (
	// Stale: somebody else changed it after the agent knew it.
	Stale Kind = "changed since you read it"
	// Partial: the agent has read only a part of what would be destroyed.
	Partial Kind = "read only in part"
	// Blind: the agent has never read it, and Policy.Blind does not allow that.
	Blind Kind = "never read"
	// Busy: another agent is rewriting it.
	Busy Kind = "being rewritten"
	// Format: the bytes are of a version that this program does not know.
	Format Kind = "unknown version"
	// Corrupt: the bytes are no state.
	Corrupt Kind = "corrupt"
)

// Error is a refusal. Errors: Kind by errors.Is.
type Error struct {
	// Op is the operation that was refused.
	Op string
	// Path is the path that it would have destroyed; of Import, what is wrong.
	Path string
	Kind Kind
	// Writers are the others, oldest first.
	Writers []Writer
}

// Error is a sentence: what happened, to what, and what to do next.
func (e *Error) Error() string {
	head := fmt.Sprintf("%s %s refused: ", e.Op, e.Path)
	switch e.Kind {
	case Stale:
		return head + fmt.Sprintf("%s changed it after you read it. Read it again, then write.", names(e.Writers))
	case Partial:
		return head + "you have read only a part of what this would destroy. Read the rest, then write."
	case Blind:
		return head + fmt.Sprintf("you have never read it, and %s wrote it. Read it, then write.", names(e.Writers))
	case Busy:
		return head + fmt.Sprintf("%s is writing it. Wait until it is done, read it, then write.", names(e.Writers))
	}
	return fmt.Sprintf("%s: %s: %s", e.Op, e.Path, string(e.Kind))
}

// Unwrap gives the kind.
func (e *Error) Unwrap() error { return e.Kind }

func names(ws []Writer) string {
	if len(ws) == 0 {
		return "somebody else"
	}
	var b strings.Builder
	for i, w := range ws {
		if i > 0 && i == len(ws)-1 {
			b.WriteString(" and ")
		} else if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(w.Agent))
		if w.Task != 0 {
			fmt.Fprintf(&b, " (task %d)", w.Task)
		}
	}
	return b.String()
}
