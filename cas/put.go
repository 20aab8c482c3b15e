package cas

import (
	"bytes"
	"errors"
	"io"

	"github.com/cockroachdb/pebble/v2"
	"github.com/zeebo/blake3"
)

// Put keeps b and returns its ref. Content that is there already costs a read.
//
// Durability: none before [Store.Sync] returns nil.
//
// Errors: ErrNoSpace, ErrIO, ErrReadOnly, ErrClosed; b is then not kept, at
// most some chunks of it are, which Collect removes.
func (s *Store) Put(b []byte) (Ref, error) {
	const op = "put"
	if len(b) > ChunkBytes {
		ref, _, err := s.PutReader(bytes.NewReader(b))
		return ref, err
	}
	if err := s.checkWritable(op); err != nil {
		return Ref{}, err
	}
	held := s.pins.newSet()
	defer held.release()
	ref := SumBytes(b)
	if err := s.putChunk(op, held, ref, b); err != nil {
		return Ref{}, err
	}
	return ref, nil
}

// PutReader keeps all that r yields and returns its ref and size. It reads
// ahead by one chunk at most, whatever the size.
//
// Durability: none before [Store.Sync] returns nil.
//
// Errors: as Put; ErrIO with the error of r when r fails.
func (s *Store) PutReader(r io.Reader) (ref Ref, sizeBytes int64, err error) {
	const op = "put"
	if err := s.checkWritable(op); err != nil {
		return Ref{}, 0, err
	}
	held := s.pins.newSet()
	defer held.release()
	buf := s.bufs.Get().(*[ChunkBytes]byte)
	defer s.bufs.Put(buf)

	var l chunkList
	whole := blake3.New()
	for last := false; !last; {
		n, err := fill(r, buf[:])
		if err != nil && err != io.EOF {
			return Ref{}, 0, &Error{Op: op, What: "reading the content", Kind: ErrIO, Err: err}
		}
		last = err == io.EOF
		if n == 0 && l.sizeBytes > 0 {
			break
		}
		chunk := buf[:n]
		sum := s.sumChunk(chunk)
		if err := s.putChunk(op, held, sum, chunk); err != nil {
			return Ref{}, 0, err
		}
		l.chunks = append(l.chunks, sum)
		l.sizeBytes += int64(n)
		if !last || len(l.chunks) > 1 {
			_, _ = whole.Write(chunk) // a hash never fails to write
		}
	}
	if len(l.chunks) == 1 {
		return l.chunks[0], l.sizeBytes, nil
	}
	whole.Sum(ref[:0])
	if err := s.putList(op, held, ref, l); err != nil {
		return Ref{}, 0, err
	}
	return ref, l.sizeBytes, nil
}

// fill reads until buf is full, and returns io.EOF with what it has at the end
// of r. It is not io.ReadFull, which hands on an io.ErrUnexpectedEOF of r as if
// it were its own: content cut short would be taken for all of it.
func fill(r io.Reader, buf []byte) (n int, err error) {
	for idle := 0; n < len(buf) && err == nil; {
		var m int
		if m, err = r.Read(buf[n:]); m == 0 && err == nil {
			if idle++; idle == 100 {
				err = io.ErrNoProgress
			}
			continue
		}
		idle = 0
		n += m
	}
	return n, err
}

// sumChunk is SumBytes, faster for holes.
func (s *Store) sumChunk(b []byte) Ref {
	if len(b) == ChunkBytes && isZero(b) {
		return s.codec.zeroRef()
	}
	return SumBytes(b)
}

// putChunk pins ref and writes content under it unless it is there.
func (s *Store) putChunk(op string, held *pinSet, ref Ref, content []byte) error {
	held.add(ref)
	if err := s.enter(op, ref); err != nil {
		return err
	}
	defer s.leave()
	s.counters.puts.Add(1)
	s.counters.putBytes.Add(int64(len(content)))
	k := key(prefixChunk, ref)
	same, err := s.keeps(k, func(rec []byte) bool {
		kept, err := s.codec.decode(rec)
		return err == nil && bytes.Equal(kept, content)
	})
	if err != nil {
		return wrap(op, ref, err)
	}
	if same {
		s.counters.duplicates.Add(1)
		return nil
	}
	return s.write(op, ref, k, s.codec.encode(content))
}

// putList pins ref and writes the list under it unless it is there.
func (s *Store) putList(op string, held *pinSet, ref Ref, l chunkList) error {
	held.add(ref)
	if err := s.enter(op, ref); err != nil {
		return err
	}
	defer s.leave()
	k, rec := key(prefixList, ref), encodeList(ref, l)
	same, err := s.keeps(k, func(kept []byte) bool { return bytes.Equal(kept, rec) })
	if err != nil || same {
		return wrap(op, ref, err)
	}
	return s.write(op, ref, k, rec)
}

// keeps says whether there is a record under k that is as it should be. A
// damaged one counts as none: the caller replaces it.
func (s *Store) keeps(k []byte, good func(rec []byte) bool) (bool, error) {
	rec, closer, err := s.db.Get(k)
	switch {
	case errors.Is(err, pebble.ErrNotFound), pebble.IsCorruptionError(err):
		return false, nil
	case err != nil:
		return false, err
	}
	ok := good(rec)
	return ok, closer.Close()
}

func (s *Store) write(op string, ref Ref, k, rec []byte) error {
	if err := s.room(op, len(rec), s.floor); err != nil {
		return err
	}
	if err := s.committed(op, ref, s.db.Set(k, rec, pebble.NoSync)); err != nil {
		return err
	}
	s.counters.writtenBytes.Add(int64(len(k) + len(rec)))
	return nil
}
