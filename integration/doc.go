// Package integration runs the built ttfs binary on real mounts, with the tools
// that people run, and holds it against the contract: docs/design.md sections
// 2, 3, 5.1 and 9.
//
// It imports nothing of the filesystem: only the binary, the files under .tt/
// and the directory itself are looked at. The oracle is always the bare disk:
// what it held before (treecmp), or what it does with the same call (posixtest).
//
// Invariants: every test has its own workspace on one ext4 image that belongs
// to the run (package rig), so that no test sees another's files; each test can
// run alone; random choices come from a fixed seed that the log names.
//
// Lock order: none; the tests hold no locks.
//
// Bytes on disk: none of its own; those of the workspace are described in
// docs/format.md.
package integration
