package cas

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Packer hashes and encodes chunks. It need not be safe for concurrent use.
type Packer interface {
	// Pack returns the ref of content of at most ChunkBytes, and its record. It keeps neither. The record is valid until the
	// next call.
	Pack(content []byte) (ref Ref, record []byte, err error)
}

// pack is a Packer's work, done here.
func (c *codec) pack(content []byte) (Ref, []byte) { return c.sum(content), c.encode(content) }

// sum is SumBytes, faster for holes.
func (c *codec) sum(b []byte) Ref {
	if len(b) == ChunkBytes && isZero(b) {
		return c.zeroRef()
	}
	return SumBytes(b)
}

// A process that packs for another (ServePacks) is sent chunks, and answers each: a length (u32, little endian) and so many
// bytes of content; a ref, a length (u32) and so many bytes of record. It ends when its input does. So what costs processor time
// in a store can be done by a process that has a lower priority than the one that has the store: within one Go program a thread
// of low priority holds up all others, which the collector waits for.

// maxRecord is what the record of a chunk takes at most.
const maxRecord = ChunkBytes + 1 + binary.MaxVarintLen64

// ServePacks packs what it reads, until the end of in.
func ServePacks(in io.Reader, out io.Writer) error {
	c, err := newCodec()
	if err != nil {
		return err
	}
	defer c.close()
	r, content := bufio.NewReader(in), make([]byte, ChunkBytes)
	for {
		b, err := readSized(r, content)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read what is to be packed: %w", err)
		}
		ref, rec := c.pack(b)
		answer := binary.LittleEndian.AppendUint32(append(make([]byte, 0, len(ref)+4+len(rec)), ref[:]...), uint32(len(rec)))
		if _, err := out.Write(append(answer, rec...)); err != nil {
			return fmt.Errorf("answer what was packed: %w", err)
		}
	}
}

// readSized reads a length and so many bytes into room. Errors: io.EOF where nothing more comes.
func readSized(r io.Reader, room []byte) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(size[:])
	if uint64(n) > uint64(len(room)) {
		return nil, fmt.Errorf("%d bytes are too many", n)
	}
	if _, err := io.ReadFull(r, room[:n]); err != nil {
		return nil, errors.Join(io.ErrUnexpectedEOF, err)
	}
	return room[:n], nil
}

// remotePacker is the other side of ServePacks.
type remotePacker struct {
	in   io.Writer
	out  *bufio.Reader
	ask  []byte
	room []byte
}

// NewPacker is a Packer that has ServePacks do the work: what is written to in comes to it, and what it answers is read from out.
// After an error it is of no use any more.
func NewPacker(in io.Writer, out io.Reader) Packer {
	return &remotePacker{in: in, out: bufio.NewReader(out), ask: make([]byte, 0, 4+ChunkBytes), room: make([]byte, maxRecord)}
}

// Pack is done by the other process. Its answer is checked for its form; its bytes are when they are read.
func (p *remotePacker) Pack(content []byte) (ref Ref, rec []byte, err error) {
	p.ask = append(binary.LittleEndian.AppendUint32(p.ask[:0], uint32(len(content))), content...)
	if _, err := p.in.Write(p.ask); err != nil {
		return Ref{}, nil, fmt.Errorf("have a chunk packed: %w", err)
	}
	if _, err := io.ReadFull(p.out, ref[:]); err != nil {
		return Ref{}, nil, fmt.Errorf("have a chunk packed: %w", err)
	}
	if rec, err = readSized(p.out, p.room); err != nil {
		return Ref{}, nil, fmt.Errorf("have a chunk packed: %w", err)
	}
	if _, size, _, err := splitChunk(rec); err != nil || size != len(content) {
		return Ref{}, nil, fmt.Errorf("have a chunk packed: the answer is of %d bytes, not %d: %w", size, len(content), err)
	}
	return ref, rec, nil
}
