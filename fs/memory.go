package fs

import (
	"fmt"
	"io"
	"runtime/metrics"
)

// memoryMetrics writes what the daemon's own memory is: the objects on Go's heap, with the garbage that is not collected yet,
// and all that Go has of the system. The rings' buffers and mapped indexes are beside it.
func memoryMetrics(w io.Writer) {
	all := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(all)
	heap, total := all[0].Value.Uint64(), all[1].Value.Uint64()-all[2].Value.Uint64()
	fmt.Fprintf(w, "# HELP ttfs_heap_bytes Objects on the heap, with garbage.\n# TYPE ttfs_heap_bytes gauge\nttfs_heap_bytes %d\n", heap)
	fmt.Fprintf(w, "# HELP ttfs_memory_bytes Memory that the Go runtime has of the system.\n# TYPE ttfs_memory_bytes gauge\nttfs_memory_bytes %d\n", total)
}
