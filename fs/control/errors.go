package control

import (
	"errors"
	"syscall"
)

// Kind is a reason why a command or an open is refused; it is an error itself.
type Kind string

// Error is the kind's own sentence.
func (k Kind) Error() string { return string(k) }

// The kinds.
const (
	Invalid     Kind = "Not understood"
	Unsupported Kind = "Not supported yet"
	NoTask      Kind = "No such task"
	NoAgent     Kind = "No such agent"
	NoFork      Kind = "No such fork"
	NoFile      Kind = "No such file"
	AtRoot      Kind = "Already at root task"
	Busy        Kind = "In use"
	Conflict    Kind = "Someone else changed the same paths"
	Protected   Kind = "Protected path"
	NotYours    Kind = "Not yours"
	Exists      Kind = "Already exists"
	ReadOnly    Kind = "Read-only"
	NoSpace     Kind = "No space left in the store"
	NoFiles     Kind = "The daemon can open no more files for now"
	Stale       Kind = "Changed after you read it"
	Partial     Kind = "Read only in part"
	Running     Kind = "Already running"
	Pruned      Kind = "Pruned: what it was before is not kept any more"
	Failed      Kind = "Input/output error"
)

// errnos is the one table of what a kind is to a program. Source: DESIGN section 3.
var errnos = []struct {
	kind  Kind
	errno syscall.Errno
}{
	{Invalid, syscall.EINVAL},
	{Unsupported, syscall.EINVAL},
	{NoTask, syscall.ENOENT},
	{NoAgent, syscall.ENOENT},
	{NoFork, syscall.ENOENT},
	{NoFile, syscall.ENOENT},
	{AtRoot, syscall.ENOENT},
	{Conflict, syscall.EBUSY},
	{Busy, syscall.EBUSY},
	{Protected, syscall.EPERM},
	{NotYours, syscall.EPERM},
	{Exists, syscall.EEXIST},
	{ReadOnly, syscall.EROFS},
	{NoSpace, syscall.ENOSPC},
	{NoFiles, syscall.ENFILE},
	{Stale, syscall.ESTALE},
	{Partial, syscall.ENODATA},
	{Running, syscall.EBUSY},
	{Pruned, syscall.ENOENT},
	{Failed, syscall.EIO},
}

// Errno is what a program is to see of an error: 0 for none, EIO for what has no Kind of this package.
func Errno(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	for _, e := range errnos {
		if errors.Is(err, e.kind) {
			return e.errno
		}
	}
	return syscall.EIO
}

// Error is what this package returns, and what a Backend wraps its own errors in.
type Error struct {
	// Op is the command or the file, What its argument.
	Op, What string
	// Kind is the reason; errors.Is finds it.
	Kind Kind
	// Detail is a sentence that says what to do.
	Detail string
	// Err is the cause below, when there is one.
	Err error
}

// Error is for a person: what was asked, what happened, what to do next.
func (e *Error) Error() string {
	s := e.Op
	if e.What != "" {
		s += " " + e.What
	}
	if s != "" {
		s += ": "
	}
	s += e.Kind.Error()
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
