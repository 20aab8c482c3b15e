package transport

import (
	"io"
	"log/slog"
	"testing"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// openRequest is FUSE_OPEN, which goes by go-fuse.
const openRequest = 14

// still is a filesystem that does nothing.
type still struct{ fuse.RawFileSystem }

func (still) Lookup(<-chan struct{}, *fuse.InHeader, string, *fuse.EntryOut) fuse.Status {
	return fuse.OK
}
func (still) GetAttr(<-chan struct{}, *fuse.GetAttrIn, *fuse.AttrOut) fuse.Status { return fuse.OK }
func (still) Open(<-chan struct{}, *fuse.OpenIn, *fuse.OpenOut) fuse.Status       { return fuse.OK }

// BenchmarkDispatch is the way of a request from a ring's memory to the filesystem and back, without a kernel.
func BenchmarkDispatch(b *testing.B) {
	for _, c := range []struct {
		op   uint32
		args int
		name string
	}{
		{opLookup, 0, "a name\x00"},
		{opGetAttr, int(unsafe.Sizeof(fuse.GetAttrIn{})) - inHeaderSize, ""},
		{openRequest, int(unsafe.Sizeof(fuse.OpenIn{})) - inHeaderSize, ""},
	} {
		b.Run(opName(c.op), func(b *testing.B) {
			f := still{fuse.NewDefaultRawFileSystem()}
			conn := &Conn{o: Options{FS: f, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}}
			conn.server = fuse.NewProtocolServer(f, &fuse.MountOptions{})
			r := &rings{c: conn}
			t := &thread{r: r}
			e := &entry{memory: make([]byte, 8192), slot: conn.slots.add()}
			e.header, e.payload = e.memory[:ringHeader], e.memory[4096:]
			e.out = [2][]byte{e.memory[:outHeaderSize], e.payload}
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
