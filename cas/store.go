package cas

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// DefaultFloorBytes is the free space that Put leaves when
// [Options.FloorBytes] is zero.
const DefaultFloorBytes = 32 << 20

// Options of [Open]. The zero value is a good one.
type Options struct {
	// Logger gets what went wrong and was survived. Default: nobody.
	Logger *slog.Logger
	// ReadOnly refuses every change with ErrReadOnly, and creates nothing. It
	// does not let two processes in: the lock is taken as well.
	ReadOnly bool
	// FloorBytes is the free space on the disk below which Put refuses with
	// ErrNoSpace; pebble does not survive a full disk. Sync may use half of it
	// and Collect three quarters, so that what was accepted gets down and a
	// full store can be emptied. Zero: DefaultFloorBytes; negative: no floor.
	FloorBytes int64

	// Tests replace the disk and its free space.
	fs        vfs.FS
	freeBytes func(dir string) (int64, error)
}

// Store is an open store. All its methods may be called at once from many
// goroutines.
type Store struct {
	dir       string
	db        *pebble.DB
	lock      *pebble.Lock
	log       *pebbleLog
	codec     *codec
	readOnly  bool
	floor     int64
	freeBytes func(dir string) (int64, error)
	bufs      sync.Pool // *[ChunkBytes]byte
	gate      gate
	pins      pins
	counters  counters
	collectMu sync.Mutex
}

// Keys on disk: a letter and a ref.
const (
	prefixChunk = 'c'
	prefixList  = 'l'
)

func key(prefix byte, ref Ref) []byte {
	return append(append(make([]byte, 0, 1+len(ref)), prefix), ref[:]...)
}

// prefixBounds are the bounds of an iterator over all keys with the prefix.
func prefixBounds(prefix byte) *pebble.IterOptions {
	return &pebble.IterOptions{LowerBound: []byte{prefix}, UpperBound: []byte{prefix + 1}}
}

// enter begins a call; leave must follow unless it fails.
func (s *Store) enter(op string, ref Ref) error {
	if !s.gate.enter() {
		return &Error{Op: op, Ref: ref, Kind: ErrClosed}
	}
	if err := s.log.err(); err != nil {
		s.gate.leave()
		return &Error{Op: op, Ref: ref, Kind: ErrIO, Err: err}
	}
	return nil
}

func (s *Store) leave() { s.gate.leave() }

// checkGoing is for the steps of a long call: it fails once the caller or
// Close wants it to end, or pebble has failed.
func (s *Store) checkGoing(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return &Error{Op: op, Kind: ErrStopped, Err: err}
	}
	if s.gate.closing() {
		return &Error{Op: op, Kind: ErrClosed}
	}
	if err := s.log.err(); err != nil {
		return &Error{Op: op, Kind: ErrIO, Err: err}
	}
	return nil
}

func (s *Store) checkWritable(op string) error {
	if s.readOnly {
		return &Error{Op: op, Kind: ErrReadOnly}
	}
	return nil
}

// wrap gives an error of pebble its kind. An *Error passes unchanged.
func wrap(op string, ref Ref, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	kind := ErrIO
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return &Error{Op: op, Ref: ref, Kind: ErrNotFound}
	case pebble.IsCorruptionError(err):
		kind = ErrCorrupt
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		kind = ErrNoSpace
	}
	return &Error{Op: op, Ref: ref, Kind: kind, Err: err}
}

// Has says whether the store holds ref, without reading the content. It does
// not keep a Collect from removing it; a Put of the content does.
//
// Errors: ErrIO, ErrCorrupt, ErrClosed.
func (s *Store) Has(ref Ref) (bool, error) {
	const op = "has"
	if err := s.enter(op, ref); err != nil {
		return false, err
	}
	defer s.leave()
	for _, prefix := range []byte{prefixChunk, prefixList} {
		_, closer, err := s.db.Get(key(prefix, ref))
		if err == nil {
			return true, wrap(op, ref, closer.Close())
		}
		if !errors.Is(err, pebble.ErrNotFound) {
			return false, wrap(op, ref, err)
		}
	}
	return false, nil
}

// Sync makes every Put that returned before it durable, against the death of
// the process and against power loss.
//
// Errors: ErrNoSpace below half the floor (nothing was done: the Puts are
// readable, not yet durable), ErrIO, ErrReadOnly, ErrClosed.
func (s *Store) Sync() error {
	const op = "sync"
	if err := s.checkWritable(op); err != nil {
		return err
	}
	if err := s.enter(op, Ref{}); err != nil {
		return err
	}
	defer s.leave()
	if err := s.room(op, 0, s.floor/2); err != nil {
		return err
	}
	return s.committed(op, Ref{}, s.db.LogData(nil, pebble.Sync))
}

// committed is the result of a commit that returned err: pebble returns nil
// for a write that failed fatally.
func (s *Store) committed(op string, ref Ref, err error) error {
	if fatal := s.log.err(); fatal != nil {
		err = fatal
	}
	return wrap(op, ref, err)
}
