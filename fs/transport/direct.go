package transport

import (
	"bytes"
	"encoding/binary"
	"runtime/debug"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// The most frequent requests of a ring are answered without go-fuse, which makes a kilobyte of garbage and a channel for each
// of all requests, so that it can be cancelled. These wait for nobody and are not cancelled: four of five that `tar x` makes,
// and nearly all of `rm -rf`.

// arguments is room for what such a request has beside its name. It is the entry's, since the filesystem takes a pointer.
type arguments struct {
	attr    fuse.GetAttrIn
	set     fuse.SetAttrIn
	release fuse.ReleaseIn
	xattr   fuse.GetXAttrIn
}

const (
	attrOutSize  = int(unsafe.Sizeof(fuse.AttrOut{}))
	entryOutSize = int(unsafe.Sizeof(fuse.EntryOut{}))
	xattrOutSize = int(unsafe.Sizeof(fuse.GetXAttrOut{}))
)

// direct answers a request if it is one of those. n and status are as of HandleRequest. The names of a request stand where
// its answer will, so they are taken out first.
func (c *Conn) direct(e *entry) (n int, status fuse.Status, done bool) {
	h := inHeader(e.header)
	defer func() {
		if r := recover(); r != nil {
			c.o.Logger.Error("a handler has panicked", "op", opName(h.Opcode), "panic", r, "stack", string(debug.Stack()))
			n, status, done = 0, fuse.EIO, true
		}
	}()
	size, in := 0, &e.args
	switch h.Opcode {
	case opLookup:
		name := fileName(e.req.in[2])
		size = entryOutSize
		clear(e.payload[:size])
		status = c.o.FS.Lookup(nil, h, name, (*fuse.EntryOut)(unsafe.Pointer(&e.payload[0])))
	case opUnlink:
		status = c.o.FS.Unlink(nil, h, fileName(e.req.in[2]))
	case opGetAttr:
		if !take(unsafe.Pointer(&in.attr), unsafe.Sizeof(in.attr), e) {
			return 0, 0, false
		}
		size = attrOutSize
		clear(e.payload[:size])
		status = c.o.FS.GetAttr(nil, &in.attr, (*fuse.AttrOut)(unsafe.Pointer(&e.payload[0])))
	case opSetAttr:
		if !take(unsafe.Pointer(&in.set), unsafe.Sizeof(in.set), e) {
			return 0, 0, false
		}
		size = attrOutSize
		clear(e.payload[:size])
		status = c.o.FS.SetAttr(nil, &in.set, (*fuse.AttrOut)(unsafe.Pointer(&e.payload[0])))
	case opGetXAttr:
		if !take(unsafe.Pointer(&in.xattr), unsafe.Sizeof(in.xattr), e) {
			return 0, 0, false
		}
		size, status = c.getXAttr(e)
	case opRelease:
		if !take(unsafe.Pointer(&in.release), unsafe.Sizeof(in.release), e) {
			return 0, 0, false
		}
		c.o.FS.Release(nil, &in.release)
	default:
		return 0, 0, false
	}
	if status != fuse.OK {
		return 0, status, true
	}
	binary.NativeEndian.PutUint32(e.header[4:], 0)
	return outHeaderSize + size, fuse.OK, true
}

// getXAttr is getxattr(2): the value, or for no room at all its size.
func (c *Conn) getXAttr(e *entry) (size int, status fuse.Status) {
	in := &e.args.xattr
	name := fileName(e.req.in[2])
	room := e.payload[:min(int(in.Size), len(e.payload))]
	n, status := c.o.FS.GetXAttr(nil, &in.InHeader, name, room)
	if in.Size > 0 || status != fuse.OK && status != fuse.ERANGE {
		return int(n), status
	}
	clear(e.payload[:xattrOutSize])
	(*fuse.GetXAttrOut)(unsafe.Pointer(&e.payload[0])).Size = n
	return xattrOutSize, fuse.OK
}

// take puts a request together that is in two places, its header and its first argument. False: that is shorter than it is
// to be; go-fuse knows what to do.
func take(to unsafe.Pointer, size uintptr, e *entry) bool {
	b := unsafe.Slice((*byte)(to), size)
	if inHeaderSize+len(e.req.in[1]) < len(b) {
		return false
	}
	copy(b[copy(b, e.req.in[0]):], e.req.in[1])
	return true
}

// fileName is the name that a payload begins with. It is a copy.
func fileName(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}
