package fs

import (
	"fmt"
	"strings"
	"testing"
)

// TestMemoryMetrics: what is said of the memory follows it.
func TestMemoryMetrics(t *testing.T) {
	say := func() (heap, all int64) {
		var b strings.Builder
		memoryMetrics(&b)
		for name, to := range map[string]*int64{"ttfs_heap_bytes": &heap, "ttfs_memory_bytes": &all} {
			_, after, _ := strings.Cut(b.String(), "\n"+name+" ")
			if _, err := fmt.Sscan(after, to); err != nil {
				t.Fatalf("no %s in %q: %v", name, b.String(), err)
			}
		}
		return heap, all
	}
	heap, _ := say()
	const held = 64 << 20
	hold := make([]byte, held)
	more, all := say()
	if more < heap+held/2 || all < more {
		t.Errorf("%d bytes of objects and %d in all, %d before %d were held", more, all, heap, len(hold))
	}
}
