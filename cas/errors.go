package cas

import "strings"

// Kind is the class of an [Error], and an error itself: errors.Is(err,
// cas.ErrNotFound) works through any wrap.
type Kind string

// Error returns the kind in words.
func (k Kind) Error() string { return string(k) }

// The kinds.
const (
	// ErrNotFound: the store does not hold the ref, or there is no store.
	ErrNotFound Kind = "not found"
	// ErrCorrupt: what is kept is not what was put. The ref is named. Putting
	// the same content again mends it.
	ErrCorrupt Kind = "corrupt"
	// ErrNoSpace: the disk is nearly full. Nothing was written.
	ErrNoSpace Kind = "not enough free space: free some, or prune the store"
	// ErrIO: the disk, or the reader that was passed in, failed.
	ErrIO Kind = "input/output error"
	// ErrFormat: written by an unknown version, or not a ref, or not a store.
	ErrFormat Kind = "unknown format"
	// ErrLocked: another process, or this one, has the store open.
	ErrLocked Kind = "store is in use"
	// ErrReadOnly: the store was opened for reading only.
	ErrReadOnly Kind = "store is open read-only"
	// ErrClosed: the store, or the blob, has been closed.
	ErrClosed Kind = "closed"
	// ErrStopped: the context ended; its error is in the chain.
	ErrStopped Kind = "stopped"
	// ErrInvalid: an argument that no call can mean.
	ErrInvalid Kind = "invalid argument"
)

// Error is the one error type of the package.
type Error struct {
	Op   string // what was asked: "put", "get", "open" …
	Ref  Ref    // the content concerned; zero when none is
	What string // directory or detail; may be empty
	Kind Kind   // never empty
	Err  error  // the cause; may be nil
}

// Error says what happened, to what, and why.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("cas: ")
	b.WriteString(e.Op)
	if !e.Ref.IsZero() {
		b.WriteString(" " + e.Ref.String())
	}
	if e.What != "" {
		b.WriteString(": " + e.What)
	}
	b.WriteString(": " + e.Kind.Error())
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Unwrap returns the kind, then the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}
