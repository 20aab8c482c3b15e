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
