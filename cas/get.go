package cas

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Get returns the content that ref names, verified, in memory of the caller's
// own. Large content is better read through [Store.Open].
//
// Errors: ErrNotFound, ErrCorrupt, ErrIO, ErrClosed; each names ref.
func (s *Store) Get(ref Ref) ([]byte, error) {
	const op = "get"
	content, l, err := s.lookup(op, ref)
	if err != nil || l == nil {
		return content, err
	}
	content = make([]byte, 0, l.sizeBytes)
	for i := range l.chunks {
		b, err := s.listChunk(op, ref, l, i)
		if err != nil {
			return nil, err
		}
		content = append(content, b...)
	}
	if got := SumBytes(content); got != ref {
		return nil, &Error{Op: op, Ref: ref, What: "content hashes to " + got.String(), Kind: ErrCorrupt}
	}
	return content, nil
}

// lookup returns the verified content of a small blob, or the list of a large
// one.
func (s *Store) lookup(op string, ref Ref) ([]byte, *chunkList, error) {
	content, err := s.chunk(s.db, op, ref)
	if !errors.Is(err, ErrNotFound) {
		return content, nil, err
	}
	l, err := s.list(s.db, op, ref)
	return nil, l, err
}

// chunk returns the verified content of one chunk.
func (s *Store) chunk(from pebble.Reader, op string, ref Ref) (content []byte, err error) {
	err = s.view(from, op, prefixChunk, ref, func(rec []byte) (err error) {
		content, err = s.codec.open(ref, rec)
		return err
	})
	return content, err
}

// list returns the list of a large blob.
func (s *Store) list(from pebble.Reader, op string, ref Ref) (*chunkList, error) {
	var l chunkList
	err := s.view(from, op, prefixList, ref, func(rec []byte) (err error) {
		l, err = decodeList(ref, rec)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &l, nil
}

// view calls use with a record, which is valid only during the call. What use
// returns means that the record is corrupt.
func (s *Store) view(from pebble.Reader, op string, prefix byte, ref Ref, use func(rec []byte) error) error {
	if err := s.enter(op, ref); err != nil {
		return err
	}
	defer s.leave()
	rec, closer, err := from.Get(key(prefix, ref))
	if err != nil {
		if errors.Is(err, pebble.ErrNotFound) {
			return &Error{Op: op, Ref: ref, Kind: ErrNotFound}
		}
		return wrap(op, ref, err)
	}
	bad := use(rec)
	if err := closer.Close(); err != nil {
		return wrap(op, ref, err)
	}
	if bad != nil {
		return &Error{Op: op, Ref: ref, Kind: ErrCorrupt, Err: bad}
	}
	return nil
}

// listChunk returns the verified i'th chunk of the blob ref. A chunk that is
// missing or damaged makes the blob corrupt, unless Collect has removed it all.
func (s *Store) listChunk(op string, ref Ref, l *chunkList, i int) ([]byte, error) {
	b, err := s.chunk(s.db, op, l.chunks[i])
	if errors.Is(err, ErrNotFound) {
		b, err = s.chunkNow(op, ref, l.chunks[i])
	}
	switch {
	case errors.Is(err, ErrCorrupt):
	case errors.Is(err, errChunkMissing):
	case err != nil:
		return nil, err
	case len(b) != l.chunkLen(i):
		err = fmt.Errorf("%d bytes instead of %d", len(b), l.chunkLen(i))
	default:
		return b, nil
	}
	return nil, &Error{Op: op, Ref: ref, What: fmt.Sprintf("chunk %d of %d", i, len(l.chunks)), Kind: ErrCorrupt, Err: err}
}

// errChunkMissing: a list is there, and a chunk of it is not.
var errChunkMissing = errors.New("it is not there")

// chunkNow is chunk at one moment with the list: Collect removes a list before its chunks, and either may have been put
// again since somebody looked. Errors: ErrNotFound when there is no list, errChunkMissing.
func (s *Store) chunkNow(op string, ref, chunk Ref) ([]byte, error) {
	if err := s.enter(op, ref); err != nil {
		return nil, err
	}
	defer s.leave()
	now := s.db.NewSnapshot()
	defer func() { _ = now.Close() }() // it holds nothing that could fail
	if _, err := s.list(now, op, ref); err != nil {
		return nil, err
	}
	b, err := s.chunk(now, op, chunk)
	if errors.Is(err, ErrNotFound) {
		err = errChunkMissing
	}
	return b, err
}
