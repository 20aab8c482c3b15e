// Package bench measures the built binary beside the bare disk: single calls,
// whole jobs, and the time machine itself (docs/performance.md).
//
//	go test ./integration/bench -run '^$' -bench . -benchtime 7x
//
// Invariants: one iteration is one round on the bare disk and one on the mount,
// so that the two are interleaved however long it takes; figures are medians
// over all rounds, with the 99th percentile for single calls; both sides are
// directories of the same journaled ext4. Without -bench nothing is built or
// mounted.
//
// Lock order: none. Bytes on disk: none that stay.
package bench
