package fs

import (
	"fmt"
	"testing"
)

// TestVirtualsAreForgotten: a walk through a big tree below `.tt/at` leaves nothing behind, and to forget it costs no more for
// each name the more there are.
func TestVirtualsAreForgotten(t *testing.T) {
	var table virtualTable
	const many = 200_000 // hours, if each looks at all
	ids := make([]uint64, many)
	for i := range ids {
		v := virtual{path: fmt.Sprintf(".tt/at/1/%d", i)}
		ids[i] = table.intern(v).id
		if table.intern(v).id != ids[i] {
			t.Fatal("a name has two nodes")
		}
	}
	for _, id := range ids {
		table.forget(id, 1)
		if table.get(id) == nil {
			t.Fatal("it is forgotten while it is known")
		}
		table.forget(id, 1)
	}
	if len(table.byID) != 0 || len(table.byPath) != 0 {
		t.Errorf("%d nodes and %d names are left", len(table.byID), len(table.byPath))
	}
}

// TestEachThreadsCtl: `.tt/ctl` is another node for each thread that looks it up, as long as the kernel knows it.
func TestEachThreadsCtl(t *testing.T) {
	var table virtualTable
	of := func(thread uint32, view uint64) uint64 {
		return table.intern(virtual{path: ".tt/ctl", view: view, by: thread}).id
	}
	one := of(1, 0)
	if of(1, 0) != one {
		t.Error("a thread has two nodes")
	}
	for what, other := range map[string]uint64{"another thread": of(2, 0), "another view": of(1, 7)} {
		if other == one {
			t.Errorf("%s has the same node", what)
		}
		table.forget(other, 1)
	}
	table.forget(one, 2)
	if len(table.byID) != 0 || len(table.byPath) != 0 {
		t.Errorf("%d nodes and %d names are left", len(table.byID), len(table.byPath))
	}
}
