// Package bench measures the built binary beside the bare disk and its peers:
// single calls, whole jobs, the time machine, agents, memory, and where the
// time goes (docs/performance.md, whose tables it writes).
//
//	make bench [BENCH=quick] [ONLY=Calls]
//	make profile
//
// Words: a *side* is one column, that is a directory in which the same work is
// done: the bare disk, a peer mounted over it, or ttfs in some mode. The
// *caller* is a process of its own on each side, this program again, so that an
// agent's work is done by a process of that agent. A *course* is a list of
// steps that one caller does in a fresh directory; a step that has a row's name
// is timed.
//
// Invariants: a round is a course once on every side, the sides in another
// order each round, so that they are interleaved however long it takes; figures
// are medians over all rounds, with the 99th percentile for single calls; all
// sides stand on the same journaled ext4 image. A peer that cannot be started,
// or fails at its work, is a column that says why; ttfs failing fails the run.
// Nothing is mounted outside the rig's namespaces, so nothing stays mounted
// whatever happens. Without -bench nothing is built or mounted.
//
// Lock order: none. Bytes on disk: docs/performance.md between its markers,
// when BENCH_DOC names it.
package bench
