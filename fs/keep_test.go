package fs

import (
	"testing"
	"time"

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
