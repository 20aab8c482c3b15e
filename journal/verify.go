package journal

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// Problem is one piece of damage.
type Problem struct {
	// Path is the file, Offset the byte in it where the damage begins.
	Path   string
	Offset int64
	// What says what is wrong.
	What string
}

// String is one line for a person.
func (p Problem) String() string { return fmt.Sprintf("%s: byte %d: %s", p.Path, p.Offset, p.What) }

// Counts is what Verify has read.
type Counts struct {
	Segments, Records, Keys, BigValues int64
	// Bytes is the sum of the segments' and the big values' bytes that were checked.
	Bytes    int64
	Problems int64
}

// Problems returns the damage that Open met, in order.
func (j *Journal) Problems() []Problem { return slices.Clone(j.problems) }

// Verify reads every record of every segment and every value that memtable and index point to, and reports what does not
// fit. It runs beside commits and sees the journal as it was at its start.
//
// Errors: those of ctx, ErrIO, ErrClosed. Damage is no error: it is reported.
func (j *Journal) Verify(ctx context.Context, report func(Problem)) (Counts, error) {
	var n Counts
	if err := j.enter("verify"); err != nil {
		return n, err
	}
	defer j.leave()
	tell := func(p Problem) {
		n.Problems++
		if report != nil {
			report(p)
		}
	}
	// One checkpoint at a time, and none meanwhile: counts and index belong together, no segment goes.
	j.ckptMu.Lock()
	defer j.ckptMu.Unlock()
	j.appendMu.Lock()
	ends := map[uint32]int64{}
	j.mu.RLock()
	for num, s := range j.segs {
		ends[num] = s.end.Load()
	}
	j.mu.RUnlock()
	v, err := j.newView([]byte{keyPrefix}, []byte{keyPrefix + 1})
	j.appendMu.Unlock()
	if err != nil {
		return n, err
	}
	defer v.close()
	for _, num := range slices.Sorted(maps.Keys(v.segs)) {
		if err := j.verifySegment(ctx, v.segs[num], ends[num], &n, tell); err != nil {
			return n, err
		}
	}
	if err := j.verifyIndex(ctx, v, &n, tell); err != nil {
		return n, err
	}
	var big []byte
	err = v.walk(nil, func(key, stored []byte) error {
		n.Keys++
		p, ok := decodePointer(stored)
		if !ok {
			return ctx.Err()
		}
		n.BigValues++
		n.Bytes += int64(p.length)
		big = j.verifyPointer(v, p, key, big, tell)
		return ctx.Err()
	})
	if err != nil {
		return n, fail("verify", j.dir, ErrIO, err)
	}
	return n, nil
}

func (j *Journal) verifyPointer(v *view, p pointer, key, buf []byte, tell func(Problem)) []byte {
	s := v.segs[p.seg]
	err := errNoSegment
	if s != nil {
		var b []byte
		if b, err = p.fetch(s, buf); err == nil {
			return b
		}
	}
	tell(Problem{Path: segPath(j.dir, p.seg), Offset: p.offset, What: fmt.Sprintf("value of key %q: %v", key, err)})
	return buf
}

// verifySegment checks every record of s up to end.
func (j *Journal) verifySegment(ctx context.Context, s *segment, end int64, n *Counts, tell func(Problem)) error {
	n.Segments++
	n.Bytes += end
	if s.damaged {
		tell(Problem{Path: s.path, What: "the segment was found damaged and is kept; what of it can be read is in use"})
	}
	b := make([]byte, headerBytes)
	if end >= headerBytes {
		if _, err := s.file.ReadAt(b, 0); err != nil {
			return fail("verify", s.path, ErrIO, err)
		}
	}
	h, ok := decodeHeader(b)
	if !ok || h.num != s.num {
		tell(Problem{Path: s.path, What: errHeader.Error()})
		h.firstLSN = 1
	}
	sc := scanner{r: s.file, size: end, seed: j.seed, off: min(headerBytes, end), last: max(h.firstLSN, 1) - 1}
	for ctx.Err() == nil {
		at, before := sc.off, sc.last
		rec, skipped, more, err := sc.next()
		if err != nil {
			return fail("verify", s.path, ErrIO, err)
		}
		if skipped > 0 {
			tell(Problem{Path: s.path, Offset: at, What: fmt.Sprintf("%d damaged bytes behind record %d", skipped, before)})
		} else if more && ok && rec.lsn != before+1 {
			tell(Problem{Path: s.path, Offset: at, What: fmt.Sprintf("records %d to %d are missing", before+1, rec.lsn-1)})
		}
		if !more {
			return nil
		}
		n.Records++
	}
	return ctx.Err()
}

// verifyIndex counts the live bytes of every segment anew and compares them with what the index says.
func (j *Journal) verifyIndex(ctx context.Context, v *view, n *Counts, tell func(Problem)) error {
	if v.it == nil {
		return nil
	}
	live := map[uint32]int64{}
	for ok := v.it.First(); ok && ctx.Err() == nil; ok = v.it.Next() {
		if p, big := decodePointer(v.it.Value()); big {
			live[p.seg] += int64(p.length)
		}
	}
	if err := v.it.Error(); err != nil {
		if pebble.IsCorruptionError(err) {
			tell(Problem{Path: j.idx.dir, What: err.Error()})
			return nil
		}
		return fail("verify", j.idx.dir, ErrIO, err)
	}
	if ctx.Err() != nil {
		return ctx.Err() // what was counted is not all
	}
	m, _, err := j.idx.readMeta()
	if err != nil {
		tell(Problem{Path: j.idx.dir, What: err.Error()})
		return ctx.Err()
	}
	if !maps.Equal(live, m.live) {
		tell(Problem{Path: j.idx.dir, What: fmt.Sprintf("live bytes per segment are %v and should be %v", m.live, live)})
	}
	return ctx.Err()
}
