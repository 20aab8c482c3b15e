package transport

import (
	"bytes"
	"encoding/binary"
	"runtime/debug"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// The most frequent requests are answered without go-fuse, which makes a kilobyte of garbage and a channel for each of all requests, so
// that it can be cancelled. These wait for nobody and are not cancelled: nearly all that `tar x` and `rm -rf` make, and those of open
// files (direct_file.go).

// arguments is room for what such a request has beside its name. It is the entry's or the buffer's, since the filesystem takes a pointer.
type arguments struct {
	attr    fuse.GetAttrIn
	set     fuse.SetAttrIn
	open    fuse.OpenIn
	release fuse.ReleaseIn
	xattr   fuse.GetXAttrIn
	create  fuse.CreateIn
	read    fuse.ReadIn
	write   fuse.WriteIn
}

// asked is such a request, and room for the answer. On a ring the name stands where the answer will, so it is taken out first.
type asked struct {
	header []byte
	first  []byte // argument
	name   []byte // what follows it
	answer []byte // without its header
	args   *arguments
}

const (
	attrOutSize  = int(unsafe.Sizeof(fuse.AttrOut{}))
	entryOutSize = int(unsafe.Sizeof(fuse.EntryOut{}))
	openOutSize  = int(unsafe.Sizeof(fuse.OpenOut{}))
	xattrOutSize = int(unsafe.Sizeof(fuse.GetXAttrOut{}))
)

// direct answers a request if it is one of those. size is that of the answer without its header.
func (c *Conn) direct(a asked) (size int, status fuse.Status, done bool) {
	h := inHeader(a.header)
	defer func() {
		if r := recover(); r != nil {
			c.o.Logger.Error("a handler has panicked", "op", opName(h.Opcode), "panic", r, "stack", string(debug.Stack()))
			size, status, done = 0, fuse.EIO, true
		}
	}()
	in := a.args
	switch h.Opcode {
	case opLookup:
		name := fileName(a.name)
		size = entryOutSize
		clear(a.answer[:size])
		status = c.o.FS.Lookup(nil, h, name, (*fuse.EntryOut)(unsafe.Pointer(&a.answer[0])))
	case opUnlink:
		status = c.o.FS.Unlink(nil, h, fileName(a.name))
	case opGetAttr:
		if !a.take(unsafe.Pointer(&in.attr), unsafe.Sizeof(in.attr)) {
			return 0, 0, false
		}
		size = attrOutSize
		clear(a.answer[:size])
		status = c.o.FS.GetAttr(nil, &in.attr, (*fuse.AttrOut)(unsafe.Pointer(&a.answer[0])))
	case opSetAttr:
		if !a.take(unsafe.Pointer(&in.set), unsafe.Sizeof(in.set)) {
			return 0, 0, false
		}
		size = attrOutSize
		clear(a.answer[:size])
		status = c.o.FS.SetAttr(nil, &in.set, (*fuse.AttrOut)(unsafe.Pointer(&a.answer[0])))
	case opOpenDir:
		if !a.take(unsafe.Pointer(&in.open), unsafe.Sizeof(in.open)) {
			return 0, 0, false
		}
		size = openOutSize
		clear(a.answer[:size])
		status = c.o.FS.OpenDir(nil, &in.open, (*fuse.OpenOut)(unsafe.Pointer(&a.answer[0])))
	case opGetXAttr:
		if !a.take(unsafe.Pointer(&in.xattr), unsafe.Sizeof(in.xattr)) {
			return 0, 0, false
		}
		size, status = c.getXAttr(a)
	case opRelease, opReleaseDir:
		if !a.take(unsafe.Pointer(&in.release), unsafe.Sizeof(in.release)) {
			return 0, 0, false
		}
		if h.Opcode == opRelease {
			c.o.FS.Release(nil, &in.release)
		} else {
			c.o.FS.ReleaseDir(&in.release)
		}
	default:
		if size, status, done = c.directFile(h.Opcode, a); !done {
			return 0, 0, false
		}
	}
	if status != fuse.OK {
		size = 0
	}
	return size, status, true
}

// onRing is direct for an entry of a ring; n and status are as of HandleRequest.
func (c *Conn) onRing(e *entry) (n int, status fuse.Status, done bool) {
	size, status, done := c.direct(asked{e.header, e.req.in[1], e.req.in[2], e.payload, &e.args})
	if !done || status != fuse.OK {
		return 0, status, done
	}
	binary.NativeEndian.PutUint32(e.header[4:], 0)
	return outHeaderSize + size, fuse.OK, true
}

// onDevice is direct for a request that was read from the device. The answer is whole, with its header.
func (c *Conn) onDevice(in, out []byte, args *arguments) (answer []byte, done bool) {
	a := asked{in[:inHeaderSize], in[inHeaderSize:], in[inHeaderSize:], out[outHeaderSize:], args}
	if n := firstSize(inHeader(in).Opcode); n > 0 && len(a.first) >= n {
		a.first, a.name = a.first[:n], a.first[n:]
	}
	size, status, done := c.direct(a)
	if !done {
		return nil, false
	}
	answer = out[:outHeaderSize+size]
	binary.NativeEndian.PutUint32(answer, uint32(len(answer)))
	binary.NativeEndian.PutUint32(answer[4:], uint32(-int32(status)))
	binary.NativeEndian.PutUint64(answer[8:], inHeader(in).Unique)
	return answer, true
}

// firstSize is that of the first argument of those requests that have something after it.
func firstSize(op uint32) int {
	switch op {
	case opGetXAttr:
		return int(unsafe.Sizeof(fuse.GetXAttrIn{})) - inHeaderSize
	case opCreate:
		return int(unsafe.Sizeof(fuse.CreateIn{})) - inHeaderSize
	case opWrite:
		return int(unsafe.Sizeof(fuse.WriteIn{})) - inHeaderSize
	}
	return 0
}

// getXAttr is getxattr(2): the value, or for no room at all its size.
func (c *Conn) getXAttr(a asked) (size int, status fuse.Status) {
	in := &a.args.xattr
	name := fileName(a.name)
	room := a.answer[:min(int(in.Size), len(a.answer))]
	n, status := c.o.FS.GetXAttr(nil, &in.InHeader, name, room)
	if in.Size > 0 || status != fuse.OK && status != fuse.ERANGE {
		return int(n), status
	}
	clear(a.answer[:xattrOutSize])
	(*fuse.GetXAttrOut)(unsafe.Pointer(&a.answer[0])).Size = n
	return xattrOutSize, fuse.OK
}

// take puts a request together that is in two places, its header and its first argument. False: that is shorter than it is
// to be; go-fuse knows what to do.
func (a *asked) take(to unsafe.Pointer, size uintptr) bool {
	b := unsafe.Slice((*byte)(to), size)
	if inHeaderSize+len(a.first) < len(b) {
		return false
	}
	copy(b[copy(b, a.header[:inHeaderSize]):], a.first)
	return true
}

// fileName is the name that a payload begins with. It is a copy.
func fileName(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}
