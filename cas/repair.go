package cas

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// Repair opens a store and, where anything in it cannot be read, writes all that can be into a new one, which takes its
// place. report hears of each blob and chunk that is gone.
//
// A death in between leaves the old store or the new one. Errors: ErrStopped; those of Open but ErrCorrupt.
func Repair(ctx context.Context, dir string, o Options, report func(Problem)) (*Store, error) {
	const op = "repair"
	fresh, old := dir+".new", dir+".old"
	if err := endSwap(dir); err != nil {
		return nil, &Error{Op: op, Kind: ErrIO, Err: err}
	}
	looking := o // pebble panics when a compaction meets damage, and who only reads has none
	looking.ReadOnly = true
	s, err := Open(dir, looking)
	if err != nil { // it may be that there is none yet
		s, err = Open(dir, o)
	}
	sound := err == nil
	switch {
	case sound:
		n, err := s.Verify(ctx, report)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		if n.Problems == 0 {
			if err := s.Close(); err != nil {
				return nil, err
			}
			return Open(dir, o)
		}
	case errors.Is(err, ErrLocked), errors.Is(err, ErrFormat), errors.Is(err, ErrNoSpace):
		return nil, err
	default:
		report(Problem{Err: err})
	}
	to, err := Open(fresh, o)
	if err == nil && s != nil {
		err = copySound(ctx, s, to)
	}
	if err == nil {
		err = to.Sync()
	}
	if to != nil {
		err = errors.Join(err, to.Close())
	}
	if s != nil {
		err = errors.Join(err, s.Close())
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(fresh))
	}
	if err := errors.Join(os.Rename(dir, old), os.Rename(fresh, dir), syncDir(filepath.Dir(dir))); err != nil {
		return nil, &Error{Op: op, Kind: ErrIO, Err: err}
	}
	if sound {
		err = os.RemoveAll(old)
	} else { // none of it could be read: it is kept for who knows more
		err = os.Rename(old, dir+".damaged")
		if errors.Is(err, os.ErrExist) {
			err = os.RemoveAll(old)
		}
	}
	if err != nil {
		return nil, &Error{Op: op, Kind: ErrIO, Err: err}
	}
	return Open(dir, o)
}

// endSwap ends a swap that a death interrupted.
func endSwap(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		if err := os.Rename(dir+".old", dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return errors.Join(os.RemoveAll(dir+".new"), os.RemoveAll(dir+".old"))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// copySound puts every sound blob and chunk of a store into another one.
func copySound(ctx context.Context, from, to *Store) error {
	v := &verification{ctx: ctx, op: "repair", store: from, report: func(Problem) {}}
	err := v.scan(prefixChunk, func(ref Ref, rec []byte) error {
		b, err := from.codec.open(ref, rec)
		if err != nil {
			return nil // Verify has told of it
		}
		_, err = to.Put(b)
		return err
	})
	if err != nil {
		return err
	}
	return v.scan(prefixList, func(ref Ref, _ []byte) error {
		blob, err := from.Open(ref)
		if err != nil {
			return nil
		}
		defer func() { _ = blob.Close() }()
		source := &sourceReader{r: io.NewSectionReader(blob, 0, blob.Size())}
		_, _, err = to.PutReader(source)
		if source.err != nil {
			return nil // a chunk of it is gone, so it is
		}
		return err
	})
}

// sourceReader remembers that it was reading that failed.
type sourceReader struct {
	r   io.Reader
	err error
}

// Read is io.Reader.
func (s *sourceReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}
