package journal

import "errors"

// Kind says what sort of failure an Error is. A Kind is an error itself: errors.Is(err, journal.ErrNoSpace).
type Kind string

// Error implements error.
func (k Kind) Error() string { return string(k) }

// The kinds of failure.
const (
	// ErrNoSpace: the filesystem has less free space than Options.FloorBytes; nothing was changed.
	ErrNoSpace = Kind("no space left above the floor")
	// ErrCorrupt: bytes on disk are not what was written.
	ErrCorrupt = Kind("corrupt")
	// ErrIO: the disk refused. After a failed Commit nothing was changed, unless the error says that the journal has failed.
	ErrIO = Kind("input/output error")
	// ErrFormat: written by an unknown version.
	ErrFormat = Kind("unknown format version")
	// ErrLocked: another process has the journal open.
	ErrLocked = Kind("in use by another process")
	// ErrClosed: the journal was closed.
	ErrClosed = Kind("closed")
	// ErrReadOnly: opened with Options.ReadOnly.
	ErrReadOnly = Kind("opened read-only")
	// ErrTooBig: a batch above MaxBatchBytes, or a batch never filled by its methods.
	ErrTooBig = Kind("batch too big")
)

// ErrStop ends a Scan without an error when fn returns it.
var ErrStop = errors.New("stop")

// Error is the error type of this package.
type Error struct {
	// Op is the operation: "open", "commit", "get", …
	Op string
	// Path is the file concerned.
	Path string
	// Kind is the sort of failure.
	Kind Kind
	// Err is the cause, or nil.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	s := "journal: " + e.Op
	if e.Path != "" {
		s += " " + e.Path
	}
	s += ": " + string(e.Kind)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap gives errors.Is and errors.As both the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

func fail(op, path string, kind Kind, err error) error {
	var own *Error
	if errors.As(err, &own) {
		return err
	}
	return &Error{Op: op, Path: path, Kind: kind, Err: err}
}
