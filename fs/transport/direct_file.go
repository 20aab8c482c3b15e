package transport

import (
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

const (
	createOutSize = int(unsafe.Sizeof(fuse.CreateOut{}))
	writeOutSize  = int(unsafe.Sizeof(fuse.WriteOut{}))
)

// directFile is direct for requests of open files. An open for writing may wait for another agent to have done with the file, and what
// is slow may take long: these stay go-fuse's, which cancels them.
func (c *Conn) directFile(op uint32, a asked) (size int, status fuse.Status, done bool) {
	if c.o.Slow != nil && c.o.Slow(inHeader(a.header)) {
		return 0, 0, false
	}
	in := a.args
	switch op {
	case opOpen:
		if !a.take(unsafe.Pointer(&in.open), unsafe.Sizeof(in.open)) || in.open.Flags&(unix.O_ACCMODE|unix.O_TRUNC) != unix.O_RDONLY {
			return 0, 0, false
		}
		clear(a.answer[:openOutSize])
		return openOutSize, c.o.FS.Open(nil, &in.open, (*fuse.OpenOut)(unsafe.Pointer(&a.answer[0]))), true
	case opCreate:
		if !a.take(unsafe.Pointer(&in.create), unsafe.Sizeof(in.create)) {
			return 0, 0, false
		}
		name := fileName(a.name)
		clear(a.answer[:createOutSize])
		return createOutSize, c.o.FS.Create(nil, &in.create, name, (*fuse.CreateOut)(unsafe.Pointer(&a.answer[0]))), true
	case opRead:
		if !a.take(unsafe.Pointer(&in.read), unsafe.Sizeof(in.read)) || int(in.read.Size) > len(a.answer) {
			return 0, 0, false
		}
		size, status = c.read(&in.read, a.answer[:in.read.Size])
		return size, status, true
	case opWrite:
		if !a.take(unsafe.Pointer(&in.write), unsafe.Sizeof(in.write)) {
			return 0, 0, false
		}
		n, status := c.o.FS.Write(nil, &in.write, a.name) // on a ring the data stands where the answer will
		clear(a.answer[:writeOutSize])
		(*fuse.WriteOut)(unsafe.Pointer(&a.answer[0])).Size = n
		return writeOutSize, status, true
	}
	return 0, 0, false
}

// read is read(2) into an answer. What the filesystem has not read there already is copied.
func (c *Conn) read(in *fuse.ReadIn, answer []byte) (int, fuse.Status) {
	result, status := c.o.FS.Read(nil, in, answer)
	if result == nil {
		return 0, status
	}
	defer result.Done()
	if status != fuse.OK {
		return 0, status
	}
	b, status := result.Bytes(answer)
	if len(b) > 0 && &b[0] != &answer[0] {
		b = answer[:copy(answer, b)]
	}
	return len(b), status
}
