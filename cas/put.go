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
	if err := s.putChunk(op, held, ref, b, nil); err != nil {
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
	h := s.Hold(nil)
	defer h.Release()
	return h.PutReader(r)
}

// Hold is for who names what he puts later: Collect leaves it alone until Release.
type Hold struct {
	s   *Store
	set *pinSet
	by  Packer
}

// Hold begins one. by packs what is put; nil: the store itself.
func (s *Store) Hold(by Packer) *Hold { return &Hold{s: s, set: s.pins.newSet(), by: by} }

// Release ends the hold. What no reference names by now may be collected.
func (h *Hold) Release() { h.set.release() }

// PutReader is [Store.PutReader]. Errors: ErrIO with the error of the Packer, too.
func (h *Hold) PutReader(r io.Reader) (ref Ref, sizeBytes int64, err error) {
	const op = "put"
	s := h.s
	if err := s.checkWritable(op); err != nil {
		return Ref{}, 0, err
	}
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
		sum, err := h.putChunk(op, chunk)
		if err != nil {
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
	if err := s.putList(op, h.set, ref, l); err != nil {
		return Ref{}, 0, err
	}
	return ref, l.sizeBytes, nil
}

func (h *Hold) putChunk(op string, chunk []byte) (Ref, error) {
	if h.by == nil {
		ref := h.s.codec.sum(chunk)
		return ref, h.s.putChunk(op, h.set, ref, chunk, nil)
	}
	ref, rec, err := h.by.Pack(chunk)
	if err != nil {
		return Ref{}, &Error{Op: op, What: "packing the content", Kind: ErrIO, Err: err}
	}
	return ref, h.s.putChunk(op, h.set, ref, chunk, rec)
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

// putChunk pins ref and writes content under it unless it is there. rec is its record; nil: it is not made yet.
func (s *Store) putChunk(op string, held *pinSet, ref Ref, content, rec []byte) error {
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
	if rec == nil {
		rec = s.codec.encode(content)
	}
	return s.write(op, ref, k, rec)
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
