package transport

import (
	"io"
	"log/slog"
	"os"
	"slices"
	"testing"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// mute is a filesystem that does nothing at all.
type mute struct{ fuse.RawFileSystem }

func (mute) Lookup(<-chan struct{}, *fuse.InHeader, string, *fuse.EntryOut) fuse.Status {
	return fuse.OK
}
func (mute) GetAttr(<-chan struct{}, *fuse.GetAttrIn, *fuse.AttrOut) fuse.Status { return fuse.OK }
func (mute) SetAttr(<-chan struct{}, *fuse.SetAttrIn, *fuse.AttrOut) fuse.Status { return fuse.OK }
func (mute) Unlink(<-chan struct{}, *fuse.InHeader, string) fuse.Status          { return fuse.OK }
func (mute) OpenDir(<-chan struct{}, *fuse.OpenIn, *fuse.OpenOut) fuse.Status    { return fuse.OK }
func (mute) Release(<-chan struct{}, *fuse.ReleaseIn)                            {}
func (mute) ReleaseDir(*fuse.ReleaseIn)                                          {}
func (mute) GetXAttr(<-chan struct{}, *fuse.InHeader, string, []byte) (uint32, fuse.Status) {
	return 0, fuse.ENODATA
}
func (mute) Open(<-chan struct{}, *fuse.OpenIn, *fuse.OpenOut) fuse.Status { return fuse.OK }
func (mute) Create(<-chan struct{}, *fuse.CreateIn, string, *fuse.CreateOut) fuse.Status {
	return fuse.OK
}
func (mute) Read(<-chan struct{}, *fuse.ReadIn, []byte) (fuse.ReadResult, fuse.Status) {
	return nil, fuse.OK
}
func (mute) Write(<-chan struct{}, *fuse.WriteIn, []byte) (uint32, fuse.Status) { return 0, fuse.OK }

// TestNoGarbage: the frequent requests leave no garbage but the name that they bring, from a ring and from the device.
func TestNoGarbage(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	f := mute{fuse.NewDefaultRawFileSystem()}
	c := &Conn{o: Options{FS: f, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}}
	c.server = fuse.NewProtocolServer(f, &fuse.MountOptions{})
	for op, args := range map[uint32]uintptr{
		opLookup: inHeaderSize, opUnlink: inHeaderSize, opGetXAttr: unsafe.Sizeof(fuse.GetXAttrIn{}), opGetAttr: unsafe.Sizeof(fuse.GetAttrIn{}),
		opSetAttr: unsafe.Sizeof(fuse.SetAttrIn{}), opOpenDir: unsafe.Sizeof(fuse.OpenIn{}), opRelease: unsafe.Sizeof(fuse.ReleaseIn{}), opReleaseDir: unsafe.Sizeof(fuse.ReleaseIn{}),
		opOpen: unsafe.Sizeof(fuse.OpenIn{}), opCreate: unsafe.Sizeof(fuse.CreateIn{}), opRead: unsafe.Sizeof(fuse.ReadIn{}), opWrite: unsafe.Sizeof(fuse.WriteIn{}),
	} {
		var name []byte
		most := 0.0
		if op == opLookup || op == opUnlink || op == opGetXAttr || op == opCreate {
			name, most = []byte("a name that is no constant\x00"), 1
		}
		arg := make([]byte, args-inHeaderSize)
		h := fuse.InHeader{Length: uint32(int(args) + len(name)), Opcode: op, Unique: 77, NodeId: 1}

		th := &thread{r: &rings{c: c}}
		e := &entry{memory: make([]byte, 8192), slot: c.slots.add()}
		e.header, e.payload = e.memory[:ringHeader], e.memory[4096:]
		e.out = [2][]byte{e.memory[:outHeaderSize], e.payload}
		if n := testing.AllocsPerRun(100, func() {
			*inHeader(e.header) = h
			copy(e.header[opInAt:], arg)
			copy(e.payload, name)
			*(*uint32)(unsafe.Pointer(&e.header[entPayloadAt])) = uint32(len(name))
			th.handle(e)
		}); n > most {
			t.Errorf("%s from a ring: %v allocations", opName(op), n)
		}

		r := &readers{c: c, fd: int(null.Fd())}
		b := &buffer{slot: c.slots.add(), memory: make([]byte, 4096)}
		b.in[0] = slices.Concat(make([]byte, inHeaderSize), arg, name)
		b.out[0] = b.memory
		if n := testing.AllocsPerRun(100, func() {
			*inHeader(b.in[0]) = h
			r.handle(b)
		}); n > most {
			t.Errorf("%s from the device: %v allocations", opName(op), n)
		}
	}
}
