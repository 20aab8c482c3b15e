package cas

import (
	"io"
	"sync"
)

// Blob is open content. Its methods may be called at once from many
// goroutines. It does not keep its content from Collect.
type Blob struct {
	store *Store
	ref   Ref
	size  int64
	list  *chunkList // nil: last holds all of it

	mu     sync.Mutex
	closed bool   // +checklocks:mu
	last   []byte // +checklocks:mu (the chunk read last, never written to)
	lastAt int    // +checklocks:mu (its number)
}

var (
	_ io.ReaderAt = (*Blob)(nil)
	_ io.Closer   = (*Blob)(nil)
)

// Open opens the content that ref names. It holds 32 bytes per MiB of it, and
// one chunk.
//
// Errors: ErrNotFound, ErrCorrupt, ErrIO, ErrClosed.
func (s *Store) Open(ref Ref) (*Blob, error) {
	content, l, err := s.lookup("open blob", ref)
	if err != nil {
		return nil, err
	}
	if l == nil {
		return &Blob{store: s, ref: ref, size: int64(len(content)), last: content}, nil
	}
	return &Blob{store: s, ref: ref, size: l.sizeBytes, list: l, lastAt: -1}, nil
}

// Size returns the number of bytes of the content.
func (b *Blob) Size() int64 { return b.size }

// ReadAt reads as io.ReaderAt says. Every chunk is verified before any of its
// bytes are handed out.
//
// Errors: io.EOF at the end; ErrCorrupt, naming the blob; ErrIO; ErrClosed;
// ErrInvalid for a negative offset. The bytes before the damaged chunk have
// then been read.
func (b *Blob) ReadAt(p []byte, off int64) (n int, err error) {
	const op = "read"
	if off < 0 {
		return 0, &Error{Op: op, Ref: b.ref, What: "negative offset", Kind: ErrInvalid}
	}
	for n < len(p) && off < b.size {
		i := int(off / ChunkBytes)
		chunk, err := b.chunk(op, i)
		if err != nil {
			return n, err
		}
		m := copy(p[n:], chunk[off-int64(i)*ChunkBytes:])
		n += m
		off += int64(m)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// chunk returns the i'th chunk, which is not to be written to.
func (b *Blob) chunk(op string, i int) ([]byte, error) {
	chunk, err := b.cached(op, i)
	if chunk != nil || err != nil {
		return chunk, err
	}
	if chunk, err = b.store.listChunk(op, b.ref, b.list, i); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.last, b.lastAt = chunk, i
	}
	return chunk, nil
}

func (b *Blob) cached(op string, i int) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, &Error{Op: op, Ref: b.ref, Kind: ErrClosed}
	}
	if b.lastAt == i {
		return b.last, nil
	}
	return nil, nil
}

// Close lets go of the memory. It returns nil, also the second time.
func (b *Blob) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.last = true, nil
	return nil
}
