package fs

import (
	"slices"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"golang.org/x/sys/unix"
)

// TestKept: what a mapping may change, and what another view may, is not believed for long.
func TestKept(t *testing.T) {
	f := &face{}
	f.mapped.opened(6, unix.O_WRONLY)
	f.mapped.opened(7, unix.O_RDWR|unix.O_TRUNC)
	for _, c := range []struct {
		id         uint64
		name, attr time.Duration
	}{{5, longTimeout, longTimeout}, {6, longTimeout, longTimeout}, {7, longTimeout, timeout}} {
		if n, a := f.kept(c.id), f.attrKept(c.id); n != c.name || a != c.attr {
			t.Errorf("node %d: names %v, attributes %v", c.id, n, a)
		}
	}
	view := f.views.number(&space{}, "bob")
	for _, id := range []uint64{5, 7} {
		if n, a := f.kept(id), f.attrKept(id); n != timeout || a != timeout {
			t.Errorf("beside another view, node %d: names %v, attributes %v", id, n, a)
		}
		if n, a := f.kept(view<<viewShift|id), f.attrKept(view<<viewShift|id); n != 0 || a != 0 {
			t.Errorf("in another view, node %d: names %v, attributes %v", id, n, a)
		}
	}
	for id := range uint64(mostMapped + 10) {
		f.mapped.opened(id, unix.O_RDWR)
	}
	if n := len(f.mapped.nodes); n > mostMapped {
		t.Errorf("%d nodes are remembered", n)
	}
}

// listener is a kernel that is told of inodes.
type listener struct {
	deaf
	attrs []uint64 // of which it was to forget the attributes alone
}

func (l *listener) InodeNotify(id uint64, off, _ int64) fuse.Status {
	if off < 0 {
		l.attrs = append(l.attrs, id)
	}
	return fuse.OK
}

// TestMappableIsForgotten: from the open on by which a file can be mapped for writing, the kernel asks for its times: what it was
// told before it would believe for longTimeout.
func TestMappableIsForgotten(t *testing.T) {
	f := testFace(t)
	l := &listener{}
	f.server = l
	id := find(t, f, 1, "f").NodeId
	for _, c := range []struct {
		flags uint32
		want  []uint64
	}{{unix.O_RDONLY, nil}, {unix.O_WRONLY, nil}, {unix.O_RDWR, []uint64{id}}, {unix.O_RDWR, []uint64{id}}} {
		var out fuse.OpenOut
		if s := f.Open(nil, &fuse.OpenIn{InHeader: header(id), Flags: c.flags}, &out); !s.Ok() {
			t.Fatal(s)
		}
		f.Release(nil, &fuse.ReleaseIn{InHeader: header(id), Fh: out.Fh})
		if !slices.Equal(l.attrs, c.want) {
			t.Errorf("after an open with %#x it was told to forget %v, want %v", c.flags, l.attrs, c.want)
		}
	}
}
