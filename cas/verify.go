package cas

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/zeebo/blake3"
)

// Problem is one thing that Verify found.
type Problem struct {
	// Ref is the blob or chunk that cannot be read. When a part of the store
	// is so damaged that even the refs in it are unknown, Ref is the lowest
	// ref that may be in that part, and Err says how far it goes.
	Ref Ref
	Err error // an *Error with the kind ErrCorrupt
}

// Counts is what Verify has gone through.
type Counts struct {
	Chunks       int   // content of up to 1 MiB each
	Lists        int   // content above 1 MiB
	ContentBytes int64 // in chunks, each counted once
	StoredBytes  int64 // what the records take
	Problems     int   // as reported
}

// Verify reads all of the store and calls report, from this goroutine and with
// no lock held, for everything that is not as it was put. A damaged chunk is
// reported, and so is every large blob that needs it. It goes on after damage.
//
// Errors: ErrStopped, ErrIO, ErrClosed. Damage is not an error.
func (s *Store) Verify(ctx context.Context, report func(Problem)) (Counts, error) {
	const op = "verify"
	v := &verification{ctx: ctx, op: op, store: s, report: report}
	if err := s.enter(op, Ref{}); err != nil {
		return v.counts, err
	}
	defer s.leave()
	if err := v.scan(prefixChunk, v.chunk); err != nil {
		return v.counts, err
	}
	return v.counts, v.scan(prefixList, v.list)
}

type verification struct {
	ctx    context.Context
	op     string
	store  *Store
	report func(Problem)
	counts Counts
}

func (v *verification) found(ref Ref, what string, err error) {
	v.counts.Problems++
	v.report(Problem{Ref: ref, Err: &Error{Op: v.op, Ref: ref, What: what, Kind: ErrCorrupt, Err: err}})
}

// scan calls check for each record. Where pebble cannot read a part of the
// keys, it reports that part and goes on behind it: it skips to the next
// 16-bit prefix, and four times as many prefixes each time in a row.
func (v *verification) scan(prefix byte, check func(Ref, []byte) error) error {
	at := []byte{prefix}
	skip := uint32(1)
	for {
		before := at
		next, err := v.scanFrom(prefix, at, check)
		if err == nil {
			return nil
		}
		if !pebble.IsCorruptionError(err) {
			return wrap(v.op, Ref{}, err)
		}
		if !bytes.Equal(next, before) {
			skip = 1
		}
		var low Ref
		copy(low[:], next[1:])
		to := uint32(binary.BigEndian.Uint16(low[:])) + skip
		skip *= 4 // each try costs much: pebble looks for the bit that was flipped
		if to > 0xffff {
			v.found(low, "all refs from here on", err)
			return nil
		}
		var high Ref
		binary.BigEndian.PutUint16(high[:], uint16(to))
		v.found(low, fmt.Sprintf("refs from here to %.4s", high.String()), err)
		at = append([]byte{prefix}, high[:]...)
	}
}

// scanFrom checks the records from the key at on. When the iterator fails it
// returns the first key that it has not seen, and the iterator's error.
func (v *verification) scanFrom(prefix byte, at []byte, check func(Ref, []byte) error) (next []byte, err error) {
	bounds := prefixBounds(prefix)
	bounds.LowerBound = at
	it, err := v.store.db.NewIter(bounds)
	if err != nil {
		return at, err
	}
	// The error of Close is the one that it.Error has returned.
	defer func() { _ = it.Close() }()
	next = at
	for ok := it.First(); ok; ok = it.Next() {
		if err := v.store.checkGoing(v.ctx, v.op); err != nil {
			return next, err
		}
		k := bytes.Clone(it.Key())
		rec, err := it.ValueAndErr()
		if err != nil {
			return next, err
		}
		next = append(k, 0)
		ref, err := refOf(v.op, k)
		if err != nil {
			var low Ref
			copy(low[:], k[1:])
			v.found(low, "", err)
			continue
		}
		v.counts.StoredBytes += int64(len(k) + len(rec))
		if err := check(ref, rec); err != nil {
			return next, err
		}
	}
	return next, it.Error()
}

func (v *verification) chunk(ref Ref, rec []byte) error {
	v.counts.Chunks++
	content, err := v.store.codec.open(ref, rec)
	if err != nil {
		v.found(ref, "", err)
	}
	v.counts.ContentBytes += int64(len(content))
	return nil
}

func (v *verification) list(ref Ref, rec []byte) error {
	v.counts.Lists++
	l, err := decodeList(ref, rec)
	if err != nil {
		v.found(ref, "its list", err)
		return nil
	}
	whole := blake3.New()
	for i := range l.chunks {
		if err := v.store.checkGoing(v.ctx, v.op); err != nil {
			return err
		}
		b, err := v.store.listChunk(v.op, ref, &l, i)
		if errors.Is(err, ErrCorrupt) {
			v.counts.Problems++
			v.report(Problem{Ref: ref, Err: err})
			return nil
		}
		if errors.Is(err, ErrNotFound) {
			return nil // a Collect has removed the blob meanwhile
		}
		if err != nil {
			return err
		}
		_, _ = whole.Write(b) // a hash never fails to write
	}
	var got Ref
	whole.Sum(got[:0])
	if got != ref {
		v.found(ref, "content hashes to "+got.String(), nil)
	}
	return nil
}
