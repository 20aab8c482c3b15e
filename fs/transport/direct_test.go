package transport

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// echo answers with what it was asked, and remembers it.
type echo struct {
	fuse.RawFileSystem
	asked string
	fails fuse.Status
	panic bool
	value []byte
}

func (f *echo) ask(what ...any) fuse.Status {
	f.asked = fmt.Sprintf("%+v", what)
	if f.panic {
		panic("as asked")
	}
	return f.fails
}

func (f *echo) Lookup(_ <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	s := f.ask("lookup", *h, name)
	out.NodeId, out.Ino, out.Size = h.NodeId+1, uint64(len(name)), 5
	return s
}

func (f *echo) Unlink(_ <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	return f.ask("unlink", *h, name)
}

func (f *echo) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	s := f.ask("getattr", *in)
	out.Ino, out.Mode = in.NodeId, in.Flags()
	return s
}

func (f *echo) SetAttr(_ <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	s := f.ask("setattr", *in)
	out.Ino, out.Size = in.NodeId, in.Size
	return s
}

func (f *echo) OpenDir(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	s := f.ask("opendir", *in)
	out.Fh, out.OpenFlags = in.NodeId, in.Flags
	return s
}

func (f *echo) Release(_ <-chan struct{}, in *fuse.ReleaseIn) { f.ask("release", *in) }

func (f *echo) ReleaseDir(in *fuse.ReleaseIn) { f.ask("releasedir", *in) }

func (f *echo) GetXAttr(_ <-chan struct{}, h *fuse.InHeader, name string, dest []byte) (uint32, fuse.Status) {
	if s := f.ask("getxattr", *h, name, len(dest)); s != fuse.OK {
		return 0, s
	}
	if len(dest) < len(f.value) {
		return uint32(len(f.value)), fuse.ERANGE
	}
	return uint32(copy(dest, f.value)), fuse.OK
}

func (f *echo) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	s := f.ask("open", *in)
	out.Fh, out.OpenFlags, out.BackingID = in.NodeId, in.Flags, 7
	return s
}

func (f *echo) Create(_ <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	s := f.ask("create", *in, name)
	out.NodeId, out.Fh, out.Size = in.NodeId+1, 8, uint64(len(name))
	return s
}

// Read gives its value, every other time where it was asked to put it.
func (f *echo) Read(_ <-chan struct{}, in *fuse.ReadIn, b []byte) (fuse.ReadResult, fuse.Status) {
	s := f.ask("read", *in, len(b))
	value := f.value[:min(len(f.value), len(b))]
	if len(f.value)%2 == 0 {
		value = b[:copy(b, value)]
	}
	return fuse.ReadResultData(value), s
}

func (f *echo) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	return uint32(len(data)), f.ask("write", *in, string(data))
}

// TestDirectIsGoFuse: what is answered directly is asked of the filesystem and answered, to the byte, as go-fuse does.
func TestDirectIsGoFuse(t *testing.T) {
	const size = 1 << 16
	names := []string{"a", "a name", string(bytes.Repeat([]byte("n"), 255))}
	args := map[uint32]int{
		opLookup: 0, opUnlink: 0, opGetAttr: int(unsafe.Sizeof(fuse.GetAttrIn{})) - inHeaderSize, opSetAttr: int(unsafe.Sizeof(fuse.SetAttrIn{})) - inHeaderSize,
		opRelease: int(unsafe.Sizeof(fuse.ReleaseIn{})) - inHeaderSize, opGetXAttr: int(unsafe.Sizeof(fuse.GetXAttrIn{})) - inHeaderSize,
		opOpenDir: int(unsafe.Sizeof(fuse.OpenIn{})) - inHeaderSize, opReleaseDir: int(unsafe.Sizeof(fuse.ReleaseIn{})) - inHeaderSize,
		opOpen: int(unsafe.Sizeof(fuse.OpenIn{})) - inHeaderSize, opCreate: int(unsafe.Sizeof(fuse.CreateIn{})) - inHeaderSize,
		opRead: int(unsafe.Sizeof(fuse.ReadIn{})) - inHeaderSize, opWrite: int(unsafe.Sizeof(fuse.WriteIn{})) - inHeaderSize,
	}
	random := rand.New(rand.NewPCG(1, 2))
	for op, argSize := range args {
		for round := range 200 {
			f := &echo{RawFileSystem: fuse.NewDefaultRawFileSystem(), value: bytes.Repeat([]byte("v"), random.IntN(40))}
			if round%4 == 3 {
				f.fails = []fuse.Status{fuse.ENOENT, fuse.EIO, fuse.ERANGE}[random.IntN(3)]
			}
			f.panic = round%20 == 19
			c := &Conn{o: Options{FS: f, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}}
			c.server = fuse.NewProtocolServer(f, &fuse.MountOptions{PanicHandler: func(any) fuse.Status { return fuse.EIO }})

			arg := make([]byte, argSize)
			for i := range arg {
				arg[i] = byte(random.Uint32())
			}
			var name []byte
			if slices.Contains([]uint32{opLookup, opUnlink, opGetXAttr, opCreate, opWrite}, op) {
				name = append([]byte(names[random.IntN(len(names))]), 0)
			}
			switch op {
			case opGetXAttr:
				*(*uint32)(unsafe.Pointer(&arg[0])) = []uint32{0, 1, 30, 256}[random.IntN(4)]
			case opOpen:
				*(*uint32)(unsafe.Pointer(&arg[0])) &^= unix.O_ACCMODE | unix.O_TRUNC
			case opRead:
				at := int(unsafe.Offsetof(fuse.ReadIn{}.Size)) - inHeaderSize
				binary.NativeEndian.PutUint32(arg[at:], []uint32{0, 1, 30, 4096}[random.IntN(4)])
			}
			answers := map[bool][]byte{}
			asked := map[bool]string{}
			for _, direct := range []bool{false, true} {
				e := &entry{memory: make([]byte, 4096+size)}
				e.header, e.payload = e.memory[:ringHeader], e.memory[4096:]
				e.out = [2][]byte{e.memory[:outHeaderSize], e.payload}
				for i := range e.payload[:512] {
					e.payload[i] = 0xee // of the request before
				}
				copy(e.header[opInAt:], arg)
				copy(e.payload, name)
				h := inHeader(e.header)
				*h = fuse.InHeader{Length: uint32(inHeaderSize + len(arg) + len(name)), Opcode: op, Unique: 77, NodeId: uint64(round + 2)}
				h.Uid, h.Gid, h.Pid = 1, 2, 3
				*(*uint32)(unsafe.Pointer(&e.header[entPayloadAt])) = uint32(len(name))
				if err := e.req.decode(e.header, e.payload); err != nil {
					t.Fatal(err)
				}
				var n int
				var status fuse.Status
				done := false
				if direct {
					if n, status, done = c.onRing(e); !done {
						t.Fatalf("%s is not answered directly", opName(op))
					}
				} else {
					n, status = c.server.HandleRequest(e.req.in[:], e.out[:])
				}
				e.req.answer(e.header, n, status)
				payload := *(*uint32)(unsafe.Pointer(&e.header[entPayloadAt]))
				answers[direct] = slices.Concat(e.header[:outHeaderSize], e.payload[:payload])
				asked[direct], f.asked = f.asked, ""
			}
			in, out := slices.Concat(make([]byte, inHeaderSize), arg, name), bytes.Repeat([]byte{0xee}, size)
			*inHeader(in) = fuse.InHeader{Length: uint32(len(in)), Opcode: op, Unique: 77, NodeId: uint64(round + 2)}
			inHeader(in).Uid, inHeader(in).Gid, inHeader(in).Pid = 1, 2, 3
			answer, done := c.onDevice(in, out, &arguments{})
			if !done || !bytes.Equal(answer, answers[false]) || f.asked != asked[false] {
				t.Errorf("%s from the device (%v):\nasked    %s\nby go-fuse %s\nanswered %x\nby go-fuse %x", opName(op), done, f.asked, asked[false], answer, answers[false])
				return
			}
			if !bytes.Equal(answers[true], answers[false]) || asked[true] != asked[false] || asked[true] == "" {
				t.Errorf("%s (fails %v, panics %v, %q):\nasked    %s\nby go-fuse %s\nanswered %x\nby go-fuse %x", opName(op), f.fails, f.panic, f.value,
					asked[true], asked[false], answers[true], answers[false])
				return
			}
		}
	}
}

// TestNotDirect: what may wait for long is go-fuse's, which can cancel it: an open for writing, and whatever is slow.
func TestNotDirect(t *testing.T) {
	const slow = 5
	f := &echo{RawFileSystem: fuse.NewDefaultRawFileSystem()}
	c := &Conn{o: Options{FS: f, Slow: func(h *fuse.InHeader) bool { return h.NodeId == slow }, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}}
	for _, r := range []struct {
		op    uint32
		node  uint64
		flags uint32
		done  bool
	}{
		{opOpen, 2, unix.O_RDONLY, true},
		{opOpen, 2, unix.O_WRONLY, false},
		{opOpen, 2, unix.O_RDWR, false},
		{opOpen, 2, unix.O_RDONLY | unix.O_TRUNC, false},
		{opOpen, slow, unix.O_RDONLY, false},
		{opRead, slow, 0, false},
		{opWrite, slow, 0, false},
		{opWrite, 2, 0, true},
	} {
		in := make([]byte, unsafe.Sizeof(fuse.WriteIn{}))
		*inHeader(in) = fuse.InHeader{Length: uint32(len(in)), Opcode: r.op, NodeId: r.node}
		if r.op == opOpen {
			(*fuse.OpenIn)(unsafe.Pointer(&in[0])).Flags = r.flags
		}
		if _, done := c.onDevice(in, make([]byte, 4096), &arguments{}); done != r.done {
			t.Errorf("%s of node %d with flags %#x: answered directly is %v", opName(r.op), r.node, r.flags, done)
		}
	}
}
