// Package guard keeps what each agent knows of each file, and decides whether it may destroy what is there: pure.
//
// One rule: a write is refused if it destroys content of which its agent knows only an older version (stale) or only a
// part (partial). The engine tells the State what was read, written and renamed, and asks Decide before it applies a
// change. Decide changes nothing: asked twice, it answers the same, and so a call that the kernel retries is refused twice.
//
// # Knowledge
//
// Every change of a file's content, and of what a path names, has a number from one strictly rising sequence (Seq); no
// clock is read. What an agent knows of a file is a number ("as of") and the byte ranges that it read or wrote. It is
// stale when somebody else changed the file after that number. All that is needed for it is one ledger a file: who, in
// which task, changed it last at which number. So a write costs the same however many agents know the file, and nobody's
// write hides another's: an agent's own write moves its "as of" forward only while it is not stale.
//
// A path is a name for a file, and the name has a ledger too: an agent that knew p as file 1 is stale on p when another
// replaced it by file 2 (rename over it, or unlink and create), although it has never seen file 2. What an agent itself
// removed, it knows to be absent. Hard links share what is known of the file.
//
// A process has knowledge of its own beside its agent's, of versions only: its ranges are always among its agent's. The
// nearest counts: if the process ever read or wrote the file, what it knows decides about stale, else what its agent knows.
//
// # What was settled where the design leaves room
//
//   - Partial is for files above 128 KiB of which the agent has read something, but not all that would be destroyed, unless
//     the rest was written by itself. It applies to an agent that works alone as well: it protects what nobody has looked at.
//   - An agent that only wrote to a file, and read nothing of it, is blind to the rest of it: Policy.Blind decides.
//   - Contested looks for the last writer other than the agent: its own append does not make a sibling's file its own.
//   - To open a big file for reading and to read nothing is to know nothing. Only who knows all of it already (KnowsAll) is
//     taken to read it by opening it.
//   - A whole-file operation on a file that another emptied since is stale, though no byte would be lost: the emptiness is
//     the newer version. Growing a file, or writing past its end, destroys nothing and is never refused.
//   - What an agent removed itself and another created anew is stale for it, not unread.
//   - Renaming a directory changes no file: what is known below it moves along, for everybody.
//
// # Invariants
//
//   - Seq only rises, also over Export and Import.
//   - A ledger has at most 64 entries. The oldest is dropped first; those that stay are newer, so that whoever was stale
//     stays stale, and only names of writers are lost.
//   - A record of a file or a path lives as long as somebody's knowledge needs it, so that memory is bounded by the bounds on
//     knowledge: 4096 files and 4096 paths an agent, 512 of each a process, 256 processes an agent, 1024 spans a file,
//     1024 agents; the least recently used goes first. What is lost was never read.
//   - The ranges of one knowledge are sorted, apart and not empty.
//
// # Lock order
//
// No locks: whoever uses a State holds one, and holds it over Decide, the change, and the report of the change. A change is
// reported after it was applied; the number of a read is taken (Now) before its first byte is.
//
// # Bytes on disk
//
// Export is for a remount. It is the version of the encoding, 1, as one byte, then unsigned varints and strings (length,
// bytes): see encode.go. An unknown version is refused. Windows of rewriting are not in it: no handle survives a remount.
package guard
