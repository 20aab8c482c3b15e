package overlay

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/ttfs/ttfs/cas"
	"github.com/ttfs/ttfs/journal"
	"github.com/ttfs/ttfs/tasktree"
)

// Kind is a reason why the engine refuses; it is an error itself.
type Kind string

func (k Kind) Error() string { return string(k) }

// The kinds.
const (
	Invalid     Kind = "not understood"
	NoTask      Kind = "no such task"
	NoAgent     Kind = "no such agent"
	NoFork      Kind = "no such fork"
	AtRoot      Kind = "Already at root task"
	NothingToDo Kind = "Nothing to redo"
	Conflict    Kind = "conflict"
	NotYours    Kind = "not yours"
	ReadOnly    Kind = "read-only"
	NoSpace     Kind = "no space left for the before-image"
	NoFiles     Kind = "the daemon can open no more files for now"
	IO          Kind = "input/output error"
	Exists      Kind = "exists already"
	Fenced      Kind = "the task in which this process began has been undone"
	Gone        Kind = "moved or replaced around the mount"
	Damaged     Kind = "the stored bytes are damaged"
	Foreign     Kind = "not a ttfs store"
	Locked      Kind = "in use"
	Closed      Kind = "closed"
	NoPath      Kind = "no such path"
	Stale       Kind = "changed since it was read"
	Partial     Kind = "read only in part"
	Busy        Kind = "being rewritten"
	Pruned      Kind = "pruned: what it was before is not kept any more"
	Protected   Kind = "protected"
)

// Error is a refusal or failure of the engine. Errors: Kind and the cause, by errors.Is.
type Error struct {
	Op, Path string
	Kind     Kind
	Err      error
}

func (e *Error) Error() string {
	s := e.Op
	if e.Path != "" {
		s += " " + e.Path
	}
	s += ": " + string(e.Kind)
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

func fail(op, path string, kind Kind, err error) error {
	if (kind == IO || kind == Damaged) && noFiles(err) {
		kind = NoFiles
	}
	return &Error{Op: op, Path: path, Kind: kind, Err: err}
}

// noFiles says whether an error is that nothing more can be opened.
func noFiles(err error) bool { return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) }

// storeError gives an error of the store its kind: the change that needed the store is refused with it.
func storeError(op string, err error) error {
	if err == nil {
		return nil
	}
	var own *Error
	if errors.As(err, &own) {
		return err
	}
	kind := IO
	switch {
	case errors.Is(err, journal.ErrNoSpace), errors.Is(err, cas.ErrNoSpace), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		kind = NoSpace
	case noFiles(err):
		kind = NoFiles
	case errors.Is(err, cas.ErrCorrupt), errors.Is(err, journal.ErrCorrupt), errors.Is(err, cas.ErrNotFound), errors.Is(err, errShort):
		kind = Damaged
	case errors.Is(err, journal.ErrReadOnly), errors.Is(err, syscall.EROFS):
		kind = ReadOnly
	}
	return fail(op, "", kind, err)
}

// treeError gives a refusal of the tree the engine's kind.
func treeError(op string, err error) error {
	if err == nil {
		return nil
	}
	kind := Invalid
	var why error
	switch {
	case errors.Is(err, tasktree.UnderUndone):
		why = tasktree.UnderUndone
	case errors.Is(err, tasktree.NoTask):
		kind = NoTask
	case errors.Is(err, tasktree.AtRoot):
		kind = AtRoot
	case errors.Is(err, tasktree.NothingToDo):
		kind = NothingToDo
	case errors.Is(err, tasktree.OtherAgent):
		kind = NotYours
	case errors.Is(err, tasktree.Pruned):
		kind = Pruned
	}
	var at *tasktree.Error
	path := ""
	if errors.As(err, &at) && at.Task != 0 {
		path = fmt.Sprintf("task %d", at.Task)
	}
	if kind == Pruned {
		why = errors.New("a later task can still be reached; `ttfs log` shows which are pruned")
	}
	return fail(op, path, kind, why)
}
