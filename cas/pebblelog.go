package cas

import (
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// pebbleLog is what pebble logs to.
//
// The design of failure: when pebble cannot write its WAL or its manifest it
// calls Fatalf and relies on that not to return. If it does return, the write
// that failed is reported as done. Exiting is not this package's to do (the
// daemon must first let go of its mount), a panic in a goroutine of pebble
// cannot be caught, and ending that goroutine leaves its locks held. So Fatalf
// does return, but remembers the failure first; every call looks for it after
// its commit and before anything else, and fails with ErrIO, and the freezer
// lets nothing reach the disk any more. The store stays so until it is opened
// again, which replays what is really on disk.
type pebbleLog struct {
	log   *slog.Logger
	fatal atomic.Pointer[fatalError]
	// opened is set once Open has succeeded: until then pebble returns its
	// errors.
	opened atomic.Bool
}

// fatalError is the first message that pebble gave to Fatalf.
type fatalError struct{ msg string }

// Error returns pebble's words.
func (e *fatalError) Error() string { return "pebble has failed and needs to be reopened: " + e.msg }

var _ pebble.Logger = (*pebbleLog)(nil)

// Infof drops the line: pebble reports each flush and compaction.
func (*pebbleLog) Infof(string, ...any) {}

// Errorf logs what pebble recovers from by itself.
func (p *pebbleLog) Errorf(format string, args ...any) {
	p.log.Warn("cas: pebble", "message", fmt.Sprintf(format, args...))
}

// Fatalf makes the failure stick and returns; see pebbleLog.
func (p *pebbleLog) Fatalf(format string, args ...any) {
	e := &fatalError{msg: fmt.Sprintf(format, args...)}
	if p.fatal.CompareAndSwap(nil, e) {
		p.log.Error("cas: pebble failed; the store refuses every call until it is reopened", "message", e.msg)
	}
}

// err returns the failure that sticks, or nil.
func (p *pebbleLog) err() error {
	if e := p.fatal.Load(); e != nil {
		return e
	}
	return nil
}

// listener keeps pebble from calling Fatalf for a damaged table: the read that
// met the damage fails with ErrCorrupt, the rest of the store is good.
func (p *pebbleLog) listener() *pebble.EventListener {
	return &pebble.EventListener{
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			p.log.Error("cas: damaged file", "message", info.String())
		},
	}
}
