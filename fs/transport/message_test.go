package transport

import (
	"encoding/binary"
	"errors"
	"testing"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// TestLayout: the offsets are those of the kernel's structs.
func TestLayout(t *testing.T) {
	for name, pair := range map[string][2]uintptr{
		"fuse_in_header":     {unsafe.Sizeof(fuse.InHeader{}), inHeaderSize},
		"fuse_out_header":    {unsafe.Sizeof(fuse.OutHeader{}), outHeaderSize},
		"io_uring_params":    {unsafe.Sizeof(ringParams{}), 120},
		"params.sq_off":      {unsafe.Offsetof(ringParams{}.sq), 40},
		"params.cq_off":      {unsafe.Offsetof(ringParams{}.cq), 80},
		"sq_off.array":       {unsafe.Offsetof(sqOffsets{}.array), 24},
		"cq_off.cqes":        {unsafe.Offsetof(cqOffsets{}.cqes), 20},
		"fuse_uring_request": {ringHeader, 288},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %d, not %d", name, pair[0], pair[1])
		}
	}
}

// page makes an entry's header page as the kernel fills it.
func page(length, op uint32, unique, commit uint64, payload uint32) []byte {
	b := make([]byte, ringHeader)
	h := inHeader(b)
	h.Length, h.Opcode, h.Unique, h.NodeId = length, op, unique, 1
	binary.NativeEndian.PutUint64(b[entCommitAt:], commit)
	binary.NativeEndian.PutUint32(b[entPayloadAt:], payload)
	return b
}

func TestDecode(t *testing.T) {
	payload := make([]byte, 8192)
	for _, c := range []struct {
		what            string
		length, payload uint32
		arg, data       int
		malformed       bool
	}{
		{"a lookup: only a name", 45, 5, 0, 5, false},
		{"a getattr: only an argument", 56, 0, 16, 0, false},
		{"a write: both", 40 + 40 + 4096, 4096, 40, 4096, false},
		{"the longest argument", 40 + opInSize, 0, opInSize, 0, false},
		{"an argument that cannot be", 40 + opInSize + 1, 0, 0, 0, true},
		{"less than its payload", 44, 5, 0, 0, true},
		{"less than a header", 12, 0, 0, 0, true},
		{"a payload beyond the buffer", 40 + 9000, 9000, 0, 0, true},
		{"a payload of 4 GiB", 40, 1<<32 - 1, 0, 0, true},
	} {
		var r ringRequest
		b := page(c.length, 1, 77, 88, c.payload)
		err := r.decode(b, payload)
		if errors.Is(err, errMalformed) != c.malformed || r.commit != 88 || r.unique != 77 || len(r.in[0]) != inHeaderSize || len(r.in[1]) != c.arg || len(r.in[2]) != c.data {
			t.Errorf("%s: %v, commit %d, unique %d, %d %d %d bytes", c.what, err, r.commit, r.unique, len(r.in[0]), len(r.in[1]), len(r.in[2]))
		}
	}
}

// TestAnswer: what the handler left, and what it left out, is a whole answer.
func TestAnswer(t *testing.T) {
	for _, c := range []struct {
		what    string
		n       int
		status  fuse.Status
		err     int32
		payload uint32
	}{
		{"data", outHeaderSize + 4096, fuse.OK, 0, 4096},
		{"no data", outHeaderSize, fuse.OK, 0, 0},
		{"nothing, and well", 0, fuse.OK, 0, 0},
		{"nothing, and not", 0, fuse.EIO, -int32(unix.EIO), 0},
	} {
		var r ringRequest
		b := page(40, 3, 1234, 5, 0)
		if err := r.decode(b, make([]byte, 8192)); err != nil {
			t.Fatal(err)
		}
		if c.n > 0 {
			clear(b[:outHeaderSize]) // the handler writes over the request
		}
		r.answer(b, c.n, c.status)
		if u, e, p := binary.NativeEndian.Uint64(b[8:]), int32(binary.NativeEndian.Uint32(b[4:])), binary.NativeEndian.Uint32(b[entPayloadAt:]); u != 1234 || e != c.err || p != c.payload {
			t.Errorf("%s: unique %d, error %d, payload %d", c.what, u, e, p)
		}
	}
}

// TestNotification: as go-fuse's own structs have them.
func TestNotification(t *testing.T) {
	b := notification(notifyEntry, []uint64{42}, "name", true)
	e := (*fuse.NotifyInvalEntryOut)(unsafe.Pointer(&b[outHeaderSize]))
	if int(binary.NativeEndian.Uint32(b)) != len(b) || binary.NativeEndian.Uint32(b[4:]) != notifyEntry || binary.NativeEndian.Uint64(b[8:]) != 0 ||
		e.Parent != 42 || e.NameLen != 4 || string(b[outHeaderSize+int(unsafe.Sizeof(*e)):]) != "name\x00" {
		t.Errorf("entry: %x", b)
	}
	b = notification(notifyDelete, []uint64{42, 43}, "n", true)
	d := (*fuse.NotifyInvalDeleteOut)(unsafe.Pointer(&b[outHeaderSize]))
	if d.Parent != 42 || d.Child != 43 || d.NameLen != 1 || string(b[outHeaderSize+int(unsafe.Sizeof(*d)):]) != "n\x00" {
		t.Errorf("delete: %x", b)
	}
	minusOne := int64(-1)
	b = notification(notifyInode, []uint64{7, uint64(minusOne), 0}, "", false)
	i := (*fuse.NotifyInvalInodeOut)(unsafe.Pointer(&b[outHeaderSize]))
	if len(b) != outHeaderSize+int(unsafe.Sizeof(*i)) || i.Ino != 7 || i.Off != -1 || i.Length != 0 {
		t.Errorf("inode: %x", b)
	}
	if s := notifyStatus(unix.EINVAL); s != fuse.ENOSYS {
		t.Errorf("an unknown notification is %v", s)
	}
}

func TestParseCPUs(t *testing.T) {
	for text, want := range map[string]int{"0\n": 1, "0-3\n": 4, "0-1,4,6-7": 5, "": -1, "3-1": -1, "a": -1, "0-99999999": -1, "-1": -1} {
		list, err := parseCPUs(text)
		if err != nil && want != -1 || err == nil && len(list) != want {
			t.Errorf("%q: %v, %v", text, list, err)
		}
	}
}

func TestOpNames(t *testing.T) {
	if opName(opInit) != "init" || opName(opForget) != "forget" || opName(opBatchForget) != "batch_forget" || opName(7) != "op7" || opName(4096) != "op4096" {
		t.Error("names are wrong")
	}
}

// TestCrew: a queue always has one that serves and one that stands by or is started at once, and many CPUs do not take all
// descriptors.
func TestCrew(t *testing.T) {
	for _, cpus := range []int{1, 2, 16, 17, 64, 65, 1024} {
		first, spare := crew(cpus)
		if first < 1 || spare < 1 || spare > max(first-1, 1) || int(first)*cpus > 1024 {
			t.Errorf("%d CPUs: %d threads, %d of them spare", cpus, first, spare)
		}
	}
	if room(6, 1024) != nil || room(256, 1024) != nil || room(257, 1024) == nil || room(6, 16) == nil {
		t.Error("the room for rings is wrong")
	}
}
