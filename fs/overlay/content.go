package overlay

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/ttfs/ttfs/cas"
	"golang.org/x/sys/unix"
)

// copyChunk is how many bytes are read at once where the kernel cannot copy by itself.
const copyChunk = 1 << 20

// extents calls f for the parts of [from, to) of a file, data and holes in turn. A filesystem that knows no holes has
// only data.
func extents(fd int, from, to int64, f func(s span, hole bool) error) error {
	for from < to {
		// Most files have no holes: they are done with the first question.
		hole, err := unix.Seek(fd, from, unix.SEEK_HOLE)
		switch {
		case errors.Is(err, unix.ENXIO):
			return f(span{from, to}, true)
		case err != nil:
			return f(span{from, to}, false)
		}
		if hole > from {
			if err := f(span{from, min(hole, to)}, false); err != nil || hole >= to {
				return err
			}
		}
		data, err := unix.Seek(fd, hole, unix.SEEK_DATA)
		if err != nil {
			data = to
		}
		if err := f(span{hole, min(data, to)}, true); err != nil {
			return err
		}
		from = data
	}
	return nil
}

// capture keeps the bytes of gaps of an open file. The pieces are safe against the death of the process when it
// returns; copies that it made are dropped again when it fails. Holes are looked for always: the number of blocks of a file
// says nothing of them, since its attributes may have a block too.
func (e *Engine) capture(fd int, gaps []span) (pieces []piece, err error) {
	defer func() {
		if err != nil {
			for i := range pieces {
				if pieces[i].kind == pieceCopy {
					e.dropCopy(pieces[i].copy)
				}
			}
			pieces = nil
		}
	}()
	buf := e.small.Get().(*[]byte)
	defer e.small.Put(buf)
	for _, g := range gaps {
		if g.to-g.from > smallBytes {
			id, err := e.copyOut(fd, g)
			if err != nil {
				return pieces, err
			}
			pieces = append(pieces, piece{off: g.from, size: g.to - g.from, kind: pieceCopy, copy: id})
			continue
		}
		take := func(s span, hole bool) error {
			if hole {
				pieces = append(pieces, piece{off: s.from, size: s.to - s.from, kind: pieceHole})
				return nil
			}
			b := (*buf)[:s.to-s.from]
			n, err := preadFull(fd, b, s.from)
			if err != nil {
				return err
			}
			if n < len(b) {
				return fmt.Errorf("the file became shorter while it was read: %w", io.ErrUnexpectedEOF)
			}
			pieces = append(pieces, keepData(s.from, b))
			return nil
		}
		err = extents(fd, g.from, g.to, take)
		if err != nil {
			return pieces, storeError("keep the bytes before", err)
		}
	}
	return pieces, nil
}

// copyOut copies a part of a file into hold, shared with the file where the filesystem can.
func (e *Engine) copyOut(fd int, g span) (id copyID, err error) {
	id, to, err := e.newCopy()
	if err != nil {
		return 0, err
	}
	defer func() {
		unix.Close(to)
		if err != nil {
			e.dropCopy(id)
			err = storeError("copy the bytes before", err)
		}
	}()
	clone := unix.FileCloneRange{Src_fd: int64(fd), Src_offset: uint64(g.from), Src_length: uint64(g.to - g.from)}
	if unix.IoctlFileCloneRange(to, &clone) == nil {
		return id, nil
	}
	if err := unix.Ftruncate(to, g.to-g.from); err != nil {
		return id, err
	}
	err = extents(fd, g.from, g.to, func(s span, hole bool) error {
		if hole {
			return nil
		}
		return copyBytes(fd, s.from, to, s.from-g.from, s.to-s.from)
	})
	if err == nil && e.opt.Power {
		err = unix.Fdatasync(to)
	}
	return id, err
}

// copyBytes copies n bytes between open files, in the kernel where it can.
func copyBytes(from int, off int64, to int, at, n int64) error {
	for n > 0 {
		in, out := off, at
		got, err := unix.CopyFileRange(from, &in, to, &out, int(min(n, 1<<30)), 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil || got == 0 {
			return copySlow(from, off, to, at, n)
		}
		off, at, n = off+int64(got), at+int64(got), n-int64(got)
	}
	return nil
}

func copySlow(from int, off int64, to int, at, n int64) error {
	b := make([]byte, min(n, copyChunk))
	for n > 0 {
		got, err := preadFull(from, b[:min(n, int64(len(b)))], off)
		if err != nil {
			return err
		}
		if got == 0 {
			return io.ErrUnexpectedEOF
		}
		if err := pwriteFull(to, b[:got], at); err != nil {
			return err
		}
		off, at, n = off+int64(got), at+int64(got), n-int64(got)
	}
	return nil
}

// pieceReader reads the bytes of a piece; its offsets are relative to the piece.
type pieceReader struct {
	io.ReaderAt
	fd   int // a copy's, to look for its holes; -1 else
	blob *cas.Blob
}

func (r *pieceReader) close() {
	if r.fd >= 0 {
		unix.Close(r.fd)
	}
	if r.blob != nil {
		r.blob.Close()
	}
}

type fdReader int

func (f fdReader) ReadAt(b []byte, off int64) (int, error) {
	n, err := preadFull(int(f), b, off)
	if err == nil && n < len(b) {
		err = io.EOF
	}
	return n, err
}

type bytesReader []byte

func (r bytesReader) ReadAt(b []byte, off int64) (int, error) {
	if off >= int64(len(r)) {
		return 0, io.EOF
	}
	n := copy(b, r[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

type zeros struct{}

func (zeros) ReadAt(b []byte, off int64) (int, error) { clear(b); return len(b), nil }

// openPiece opens the bytes of a piece. Errors: Damaged.
func (e *Engine) openPiece(p *piece) (*pieceReader, error) {
	switch p.kind {
	case pieceInline, piecePacked:
		b, err := p.unpack()
		return &pieceReader{ReaderAt: bytesReader(b), fd: -1}, err
	case pieceCopy:
		fd, err := openAt(e.hold, copyName(p.copy), unix.O_RDONLY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return nil, fail("read a copy", copyName(p.copy), Damaged, err)
		}
		return &pieceReader{ReaderAt: fdReader(fd), fd: fd}, nil
	case pieceBlob:
		b, err := e.blobs.Open(cas.Ref(p.ref))
		if err != nil {
			return nil, storeError("read a blob", err)
		}
		return &pieceReader{ReaderAt: b, fd: -1, blob: b}, nil
	}
	return &pieceReader{ReaderAt: zeros{}, fd: -1}, nil
}

// parts calls f for the data and the holes of a piece, in offsets relative to it.
func (p *piece) parts(r *pieceReader, f func(s span, hole bool) error) error {
	switch p.kind {
	case pieceHole:
		return f(span{0, p.size}, true)
	case pieceCopy:
		return extents(r.fd, 0, p.size, f)
	case pieceBlob:
		at := int64(0)
		for _, h := range p.holes {
			if h.from > at {
				if err := f(span{at, h.from}, false); err != nil {
					return err
				}
			}
			if err := f(h, true); err != nil {
				return err
			}
			at = h.to
		}
		if at == p.size {
			return nil
		}
		return f(span{at, p.size}, false)
	}
	return f(span{0, p.size}, false)
}

// restore gives an open file the bytes and the size of an image. size is the size that it has, -1 when that is not sure.
// Doing it twice is doing it once.
func (e *Engine) restore(fd int, c *content, size int64) error {
	if size < 0 {
		var st Stat
		if err := statAt(fd, "", &st); err != nil {
			return err
		}
		size = int64(st.Size)
	}
	if size > c.size {
		if err := unix.Ftruncate(fd, c.size); err != nil {
			return err
		}
		size = c.size
	}
	end := size
	for i := range c.pieces {
		to, err := e.restorePiece(fd, &c.pieces[i], size, c.size)
		if err != nil {
			return err
		}
		end = max(end, to)
	}
	if end == c.size {
		return nil
	}
	return unix.Ftruncate(fd, c.size)
}

// restorePiece gives a file of some size the bytes of a piece, up to limit, and says where the last of them ended; holes
// do not count.
func (e *Engine) restorePiece(fd int, p *piece, size, limit int64) (end int64, err error) {
	r, err := e.openPiece(p)
	if err != nil {
		return 0, err
	}
	defer r.close()
	var buf []byte
	err = p.parts(r, func(s span, hole bool) error {
		from, to := p.off+s.from, min(p.off+s.to, limit)
		if hole {
			return punch(fd, from, min(to, size), size)
		}
		if from >= to {
			return nil
		}
		end = to
		if p.inRecord() {
			return pwriteFull(fd, r.ReaderAt.(bytesReader)[s.from:s.from+to-from], from)
		}
		if r.fd >= 0 {
			return copyBytes(r.fd, s.from, fd, from, to-from)
		}
		return copyFrom(r, s.from, fd, from, to-from, &buf)
	})
	return end, err
}

// punch makes bytes of a file of some size a hole. Beyond its end they are one once the size is set.
func punch(fd int, from, to, size int64) error {
	if from >= to {
		return nil
	}
	end := to
	if to == size {
		end = (to + blockBytes) / blockBytes * blockBytes // the last block is freed only when all of it is punched
	}
	err := unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, end-from)
	if err == nil || !errors.Is(err, unix.EOPNOTSUPP) {
		return err
	}
	var buf []byte
	return copyFrom(zeros{}, 0, fd, from, to-from, &buf)
}

func copyFrom(r io.ReaderAt, off int64, fd int, at, n int64, buf *[]byte) error {
	if *buf == nil {
		*buf = make([]byte, min(n, copyChunk))
	}
	for n > 0 {
		b := (*buf)[:min(n, int64(len(*buf)))]
		if _, err := r.ReadAt(b, off); err != nil && err != io.EOF {
			return storeError("read the bytes before", err)
		}
		if err := pwriteFull(fd, b, at); err != nil {
			return err
		}
		off, at, n = off+int64(len(b)), at+int64(len(b)), n-int64(len(b))
	}
	return nil
}

// inverse is what a file of some size would have to be given to be again what it is now, after restore(c).
func (e *Engine) inverse(fd int, size int64, c *content) (*content, error) {
	now := covered{size: size}
	want := covered{size: now.size}
	for _, p := range c.pieces {
		want.add(p.off, min(p.off+p.size, now.size))
	}
	// From a whole block on: in a copy that begins within a block the holes are at other places.
	want.add(min(c.size/blockBytes*blockBytes, now.size), now.size)
	pieces, err := e.capture(fd, slices.Collect(want.all(0)))
	if err != nil {
		return nil, err
	}
	return &content{size: now.size, pieces: pieces}, nil
}
