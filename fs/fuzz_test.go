package fs

import (
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// The opcodes that the driver below knows more of. Source: linux/fuse.h.
const (
	opLookup      = 1
	opSymlink     = 6
	opMknod       = 8
	opMkdir       = 9
	opLink        = 13
	opOpen        = 14
	opRead        = 15
	opWrite       = 16
	opRelease     = 18
	opFsync       = 20
	opFlush       = 25
	opInit        = 26
	opOpendir     = 27
	opReaddir     = 28
	opCreate      = 35
	opDestroy     = 38
	opFallocate   = 43
	opReaddirplus = 44
	opLseek       = 46
	opTmpfile     = 51
	opMax         = 53
)

// maxAnswer is how long a request may take: longer than any that waits for another agent.
const maxAnswer = 20 * time.Second

// asker sends requests as the kernel would: the bodies are the fuzzer's, and nodes and handles are those that were given
// out, or any. It keeps what the kernel keeps: only regular files are opened, only directories listed.
type asker struct {
	t      *testing.T
	server *fuse.ProtocolServer
	unique uint64
	nodes  []uint64
	modes  map[uint64]uint32
	files  []uint64
	out    []byte
}

func newAsker(t *testing.T) *asker {
	f := testFace(t)
	k := &asker{t: t, modes: map[uint64]uint32{1: unix.S_IFDIR}, nodes: []uint64{1}, out: make([]byte, 256<<10)}
	k.server = fuse.NewProtocolServer(f, &fuse.MountOptions{Name: "ttfs", MaxWrite: 128 << 10, EnableAcl: true, ExtraCapabilities: capabilities, Logger: log.New(io.Discard, "", 0)})
	body := binary.LittleEndian.AppendUint32(nil, 7)
	body = binary.LittleEndian.AppendUint32(body, 40)
	body = binary.LittleEndian.AppendUint32(body, 1<<17)
	body = append(body, 0xff, 0xff, 0xff, 0x7f) // flags
	body = append(body, make([]byte, 48)...)
	k.send(opInit, 1, body)
	return k
}

// send makes one request and learns from its answer.
func (k *asker) send(op uint32, node uint64, body []byte) {
	k.unique += 2
	le := binary.LittleEndian
	in := le.AppendUint32(nil, uint32(40+len(body)))
	in = le.AppendUint32(in, op)
	in = le.AppendUint64(in, k.unique)
	in = le.AppendUint64(in, node)
	in = le.AppendUint32(in, uint32(os.Getuid()))
	in = le.AppendUint32(in, uint32(os.Getgid()))
	in = le.AppendUint32(in, uint32(os.Getpid()))
	in = append(le.AppendUint32(in, 0), body...)
	hung := time.AfterFunc(maxAnswer, func() { panic(fmt.Sprintf("op %d of node %x with %x is not answered", op, node, body)) })
	n, _ := k.server.HandleRequest([][]byte{in}, [][]byte{k.out})
	hung.Stop()
	if n > len(k.out) {
		k.t.Fatalf("op %d: an answer of %d bytes", op, n)
	}
	if n < 16 || le.Uint32(k.out[4:]) != 0 {
		return
	}
	answer := k.out[16:n]
	switch op {
	case opLookup, opSymlink, opMknod, opMkdir, opLink, opCreate, opTmpfile:
		if len(answer) >= 128 && len(k.nodes) < 64 {
			if id := le.Uint64(answer); id != 0 {
				k.nodes = append(k.nodes, id)
				k.modes[id] = le.Uint32(answer[100:])
			}
			if len(answer) >= 144 {
				k.files = append(k.files, le.Uint64(answer[128:]))
			}
		}
	case opOpen, opOpendir:
		if len(answer) >= 16 && len(k.files) < 64 {
			k.files = append(k.files, le.Uint64(answer))
		}
	}
}

// step takes one request from the fuzzer's bytes: opcode, node, length and body.
func (k *asker) step(b []byte) (rest []byte) {
	op, which, n := uint32(b[0])%opMax, b[1], int(b[2])
	b = b[3:]
	body := append([]byte(nil), b[:min(n, len(b))]...)
	b = b[len(body):]
	node := k.nodes[int(which)%len(k.nodes)]
	if which == 0xff && len(body) >= 8 {
		node = binary.LittleEndian.Uint64(body) // any number
	}
	switch op {
	case opInit, opDestroy:
		return b
	case opOpen:
		if k.modes[node]&unix.S_IFMT != unix.S_IFREG {
			return b
		}
	case opOpendir:
		if k.modes[node]&unix.S_IFMT != unix.S_IFDIR {
			return b
		}
	case opMknod: // a device is a matter of the kernel, and one that is opened of the machine
		if len(body) >= 4 {
			mode := binary.LittleEndian.Uint32(body)
			if t := mode & unix.S_IFMT; t != unix.S_IFREG && t != unix.S_IFIFO && t != unix.S_IFSOCK {
				binary.LittleEndian.PutUint32(body, mode&^unix.S_IFMT|unix.S_IFREG)
			}
		}
	case opRead, opWrite, opRelease, opFsync, opFlush, opReaddir, opReaddirplus, opFallocate, opLseek:
		if len(body) >= 8 && len(k.files) > 0 && body[0] != 0xff {
			binary.LittleEndian.PutUint64(body, k.files[int(body[0])%len(k.files)])
		}
	}
	k.send(op, node, body)
	return b
}

// request is one request for a seed.
func request(op, node byte, body ...byte) []byte {
	return append([]byte{op, node, byte(len(body))}, body...)
}

// name is a name with what comes before it.
func name(before int, s string) []byte { return append(make([]byte, before), s+"\x00"...) }

// FuzzRequests: whatever the requests hold, the daemon lives, the store is sound, and nothing outside the workspace changes.
func FuzzRequests(f *testing.F) {
	session := func(parts ...[]byte) {
		var all []byte
		for _, p := range parts {
			all = append(all, p...)
		}
		f.Add(all)
	}
	session(request(opLookup, 0, name(0, "f")...), request(opOpen, 1, make([]byte, 8)...), request(opRead, 1, append(make([]byte, 16), 0, 1, 0, 0, 0, 0, 0, 0)...), request(opRelease, 1, make([]byte, 24)...))
	session(request(opLookup, 0, name(0, ".tt")...), request(opLookup, 1, name(0, "ctl")...), request(opOpen, 2, 2, 0, 0, 0, 0, 0, 0, 0), request(opWrite, 2, append(append(make([]byte, 16), 4, 0, 0, 0), append(make([]byte, 20), "undo"...)...)...), request(opRead, 2, append(make([]byte, 16), 0, 1, 0, 0)...))
	session(request(opLookup, 0, name(0, ".tt")...), request(opLookup, 1, name(0, "blame")...), request(opLookup, 2, name(0, "f")...), request(opOpen, 3, make([]byte, 8)...))
	session(request(opMkdir, 0, append([]byte{0xed, 1, 0, 0, 0, 0, 0, 0}, "d\x00"...)...), request(12, 0, append([]byte{1, 0, 0, 0, 0, 0, 0, 0}, "f\x00g\x00"...)...), request(opSymlink, 1, []byte("l\x00../../f\x00")...), request(10, 0, name(0, "g")...))
	session(request(opCreate, 0, append([]byte{2, 0, 0, 0, 0xa4, 0x81, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, "n\x00"...)...), request(opWrite, 1, append(append(make([]byte, 16), 4, 0, 0, 0), append(make([]byte, 20), "text"...)...)...), request(4, 1, make([]byte, 88)...), request(21, 1, append([]byte{1, 0, 0, 0, 0, 0, 0, 0}, "user.a\x00v"...)...))
	session(request(opLookup, 0, name(0, "..")...), request(opLookup, 0, name(0, "a/b")...), request(opLookup, 0), request(opOpendir, 0, make([]byte, 8)...), request(opReaddirplus, 0, append(make([]byte, 16), 0, 16, 0, 0)...), request(3, 0xff, 1, 0, 0, 0, 0, 0, 0, 0x40))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 4096 {
			return
		}
		k := newAsker(t)
		for len(b) >= 3 {
			b = k.step(b)
		}
	})
}

// testFace is a face over a workspace that no kernel has mounted. At the end of the test its store must be sound, and what
// lies beside the workspace as it was.
func testFace(t *testing.T) *face {
	t.Helper()
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("not in the workspace"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, _ := twoSpaces(t)
	f.main.back.f, f.main.back.checks, f.main.back.conn, f.main.back.logger = f, &checks{}, &link{}, f.log
	f.server, f.main.back.sp = deaf{}, f.main
	t.Cleanup(func() {
		f.main.back.checks.end()
		if got, err := os.ReadFile(outside); err != nil || string(got) != "not in the workspace" {
			t.Errorf("outside of the workspace: %q, %v", got, err)
		}
		if _, err := f.main.e.Verify(t.Context(), func(p string) { t.Error(p) }); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	return f
}

// deaf is a kernel that hears of everything and has no passthrough.
type deaf struct{}

func (deaf) EntryNotify(uint64, string) fuse.Status       { return fuse.OK }
func (deaf) InodeNotify(uint64, int64, int64) fuse.Status { return fuse.OK }
func (deaf) Tell(do func())                               { do() }
func (deaf) PruneNotify([]uint64) fuse.Status             { return fuse.ENOSYS }
func (deaf) RegisterBackingFd(*fuse.BackingMap) (int32, syscall.Errno) {
	return 0, syscall.EOPNOTSUPP
}
func (deaf) UnregisterBackingFd(int32) syscall.Errno { return 0 }
