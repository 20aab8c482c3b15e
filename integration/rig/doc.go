// Package rig is what the integration tests and benchmarks stand on: a world of
// their own in which nothing leaks, a journaled disk in it, workspaces on that
// disk, and commands with deadlines.
//
// A test binary passes through three stages, all of them the same program:
//
//	outer   builds ttfs, makes the scratch directory, starts the next in new
//	        mount and pid namespaces, waits, removes the scratch directory
//	init    process 1 of the new pid namespace: makes the mounts private, mounts
//	        /proc and the disk, starts the next, reaps orphans (daemons that
//	        left their parents), aborts left-over FUSE connections
//	run     runs the tests
//
// Invariants: when the run ends, in whatever way, process 1 of the namespace
// ends with it, the kernel kills every process in it and undoes every mount; the
// image of the disk has no name, so its space goes with the last mount; the
// loop device clears itself. No process or mount of anybody else is touched.
// Stages hand each other their findings in environment variables (Env…), which
// is why the package has no mutable state.
//
// Lock order: none. Bytes on disk: none that stay.
package rig
