package transport

import (
	"encoding/binary"
	"errors"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Sizes of a ring entry's header page. Source: struct fuse_uring_req_header: in_out[128], op_in[128], and struct
// fuse_uring_ent_in_out.
const (
	inHeaderSize  = 40
	outHeaderSize = 16
	opInAt        = 128
	opInSize      = 128
	entAt         = 256
	entCommitAt   = entAt + 8
	entPayloadAt  = entAt + 16
	ringHeader    = entAt + 32
)

// errMalformed is of a request whose lengths contradict each other.
var errMalformed = errors.New("the kernel's request has impossible lengths")

// ringRequest is a request as it arrives on a ring.
type ringRequest struct {
	in [3][]byte
	// commit is the number by which the answer is tied to the request; the answer overwrites where it stands.
	commit uint64
	unique uint64
}

// decode reads the header page of an entry. The first argument of an operation is in the page, the rest in payload; how
// long the first is, is not told: it is what is left of the whole length.
func (r *ringRequest) decode(header, payload []byte) error {
	h := inHeader(header)
	r.commit = binary.NativeEndian.Uint64(header[entCommitAt:])
	r.unique = h.Unique
	data := int(binary.NativeEndian.Uint32(header[entPayloadAt:]))
	arg := int(h.Length) - inHeaderSize - data
	if data > len(payload) || arg < 0 || arg > opInSize {
		r.in = [3][]byte{header[:inHeaderSize], nil, nil}
		return errMalformed
	}
	r.in = [3][]byte{header[:inHeaderSize], header[opInAt : opInAt+arg], payload[:data]}
	return nil
}

// answer completes the header page of an entry whose out header and payload the handler has written, n bytes in all. An
// answer of 0 bytes is one that the kernel does not wait for, unless status says that there is an error.
func (r *ringRequest) answer(header []byte, n int, status fuse.Status) {
	if n < outHeaderSize {
		n = outHeaderSize
		binary.NativeEndian.PutUint32(header[4:], uint32(-int32(status)))
	}
	// An answer with another number than the request's fails the request.
	binary.NativeEndian.PutUint32(header, uint32(n))
	binary.NativeEndian.PutUint64(header[8:], r.unique)
	binary.NativeEndian.PutUint32(header[entPayloadAt:], uint32(n-outHeaderSize))
}

func inHeader(b []byte) *fuse.InHeader { return (*fuse.InHeader)(unsafe.Pointer(&b[0])) }

// errorAnswer is a whole answer that says only an error.
func errorAnswer(unique uint64, status fuse.Status) []byte {
	b := make([]byte, outHeaderSize)
	binary.NativeEndian.PutUint32(b, outHeaderSize)
	binary.NativeEndian.PutUint32(b[4:], uint32(-int32(status)))
	binary.NativeEndian.PutUint64(b[8:], unique)
	return b
}

// putUnique gives a whole answer another number.
func putUnique(b []byte, unique uint64) { binary.NativeEndian.PutUint64(b[8:], unique) }

// interruptRequest is a request to interrupt another.
func interruptRequest(unique uint64) []byte {
	b := make([]byte, inHeaderSize+8)
	h := inHeader(b)
	h.Length, h.Opcode, h.Unique = uint32(len(b)), opInterrupt, unique|1
	binary.NativeEndian.PutUint64(b[inHeaderSize:], unique)
	return b
}

// Notifications are answers to nothing, with the kind where an error would be. Source: enum fuse_notify_code.
const (
	notifyInode  = 2
	notifyEntry  = 3
	notifyDelete = 6
	notifyResend = 7
	notifyEpoch  = 8
	notifyPrune  = 9
)

// notification encodes one: the numbers, each 8 bytes, and a name with its length before it and a NUL after it.
func notification(kind uint32, numbers []uint64, name string, named bool) []byte {
	size := outHeaderSize + 8*len(numbers)
	if named {
		size += 8 + len(name) + 1
	}
	b := make([]byte, outHeaderSize, size)
	binary.NativeEndian.PutUint32(b, uint32(size))
	binary.NativeEndian.PutUint32(b[4:], kind)
	for _, n := range numbers {
		b = binary.NativeEndian.AppendUint64(b, n)
	}
	if named {
		b = binary.NativeEndian.AppendUint32(b, uint32(len(name)))
		b = binary.NativeEndian.AppendUint32(b, 0)
		b = append(append(b, name...), 0)
	}
	return b
}

// notifyStatus is what the kernel says to a notification. It answers EINVAL to a kind that it does not know.
func notifyStatus(err error) fuse.Status {
	switch {
	case err == nil:
		return fuse.OK
	case errors.Is(err, unix.EINVAL):
		return fuse.ENOSYS
	}
	return fuse.ToStatus(err)
}

// interrupted is the number of the request that an INTERRUPT names.
func interrupted(in []byte) uint64 {
	if len(in) < inHeaderSize+8 {
		return 0
	}
	return binary.NativeEndian.Uint64(in[inHeaderSize:])
}
