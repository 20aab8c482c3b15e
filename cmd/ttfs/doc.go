// Command ttfs mounts workspaces and talks to them: flags, wiring, exit codes.
//
// While a workspace is mounted, every verb but those that mount is a client of the files under `.tt/` and opens nothing
// else; while it is not, the verbs of history open the store themselves. Both stand behind one interface (history), and
// what is printed is made by the same code.
//
// Invariants:
//   - os.Exit is called in main alone, with a code of the table in exit.go.
//   - stdout is the answer, stderr the rest.
//   - the daemon never reaches its own mount: it works at /, and its log was opened below the mount point.
//   - what `run` starts is registered before its first instruction is CMD's.
//
// A daemon is this program again, in a session of its own, with a pipe on which it says that it serves or why it does
// not (daemon.go).
//
// Lock order: lateLog.mu is a leaf.
//
// Bytes on disk: `.tt/daemon.log`, text lines of log/slog. The store is described in docs/format.md.
package main
