package identity

import (
	"fmt"

	"github.com/ttfs/ttfs/tasktree"
)

// Kind is a reason why a registration is refused; it is an error itself.
type Kind string

// Error is the kind's own sentence.
func (k Kind) Error() string { return string(k) }

// The kinds.
const (
	// Invalid: a name that cannot be an agent's, or a parent that descends from its child.
	Invalid Kind = "not a valid agent"
	// NotYours: the process belongs to another agent's line.
	NotYours Kind = "not yours"
	// NoProcess: no process of that number.
	NoProcess Kind = "no such process"
)

// Error is what a registration returns when it is refused. Nothing was changed.
type Error struct {
	Op    string
	Agent tasktree.Agent
	PID   int
	// Kind is the reason; errors.Is finds it.
	Kind Kind
	// Detail says what to do.
	Detail string
	// Err is the cause below, when there is one.
	Err error
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s %q (process %d): %v", e.Op, e.Agent, e.PID, e.Kind)
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap gives the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}
