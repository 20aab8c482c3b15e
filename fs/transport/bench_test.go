package transport

import (
	"io"
	"log/slog"
	"testing"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// still is a filesystem that does nothing.
type still struct{ fuse.RawFileSystem }

func (still) Lookup(<-chan struct{}, *fuse.InHeader, string, *fuse.EntryOut) fuse.Status {
	return fuse.OK
}
func (still) GetAttr(<-chan struct{}, *fuse.GetAttrIn, *fuse.AttrOut) fuse.Status { return fuse.OK }
func (still) Open(<-chan struct{}, *fuse.OpenIn, *fuse.OpenOut) fuse.Status       { return fuse.OK }
func (still) Create(<-chan struct{}, *fuse.CreateIn, string, *fuse.CreateOut) fuse.Status {
	return fuse.OK
}
func (still) Read(_ <-chan struct{}, _ *fuse.ReadIn, b []byte) (fuse.ReadResult, fuse.Status) {
	return fuse.ReadResultData(b), fuse.OK
}
func (still) Write(_ <-chan struct{}, _ *fuse.WriteIn, b []byte) (uint32, fuse.Status) {
	return uint32(len(b)), fuse.OK
}
func (still) Writev(<-chan struct{}, *fuse.WriteIn, [][]byte) (uint32, fuse.Status) {
	return 0, fuse.ENOSYS
}

// BenchmarkDispatch is the way of a request from a ring's memory to the filesystem and back, without a kernel.
func BenchmarkDispatch(b *testing.B) {
	for _, c := range []struct {
		op   uint32
		args int
		name string
	}{
		{opLookup, 0, "a name\x00"},
		{opGetAttr, int(unsafe.Sizeof(fuse.GetAttrIn{})) - inHeaderSize, ""},
		{opOpen, int(unsafe.Sizeof(fuse.OpenIn{})) - inHeaderSize, ""},
		{opCreate, int(unsafe.Sizeof(fuse.CreateIn{})) - inHeaderSize, "a name\x00"},
		{opRead, int(unsafe.Sizeof(fuse.ReadIn{})) - inHeaderSize, ""},
		{opWrite, int(unsafe.Sizeof(fuse.WriteIn{})) - inHeaderSize, string(make([]byte, 4096))},
	} {
		b.Run(opName(c.op), func(b *testing.B) {
			f := still{fuse.NewDefaultRawFileSystem()}
			conn := &Conn{o: Options{FS: f, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}}
			conn.server = fuse.NewProtocolServer(f, &fuse.MountOptions{})
			r := &rings{c: conn}
			t := &thread{r: r}
			e := &entry{memory: make([]byte, 4096+128<<10), slot: conn.slots.add()}
			e.header, e.payload = e.memory[:ringHeader], e.memory[4096:]
			e.out = [2][]byte{e.memory[:outHeaderSize], e.payload}
			if c.op == opRead {
				(*fuse.ReadIn)(unsafe.Pointer(&e.header[opInAt-inHeaderSize])).Size = uint32(len(e.payload))
			}
			b.ReportAllocs()
			for b.Loop() {
				h := inHeader(e.header)
				*h = fuse.InHeader{Length: uint32(inHeaderSize + c.args + len(c.name)), Opcode: c.op, Unique: 77, NodeId: 1}
				copy(e.payload, c.name)
				*(*uint32)(unsafe.Pointer(&e.header[entPayloadAt])) = uint32(len(c.name))
				t.handle(e)
			}
			if h := (*fuse.OutHeader)(unsafe.Pointer(&e.header[0])); h.Status != 0 || h.Unique != 77 {
				b.Fatalf("the answer is %+v", h)
			}
		})
	}
}
