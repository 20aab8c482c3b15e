// Package cas keeps immutable bytes under the hash of their content.
//
// Purpose. History, bases and the archiver put bytes in and get exactly these
// bytes back. Equal bytes are kept once, compressed when that makes them
// smaller. The package knows nothing of paths, tasks or agents.
//
// Invariants.
//
//   - A [Ref] is the BLAKE3-256 of the whole content, whatever its size and
//     however it is kept.
//   - Bytes are verified on every read: what Get, Blob.ReadAt and Verify hand
//     out hashes to its ref, or the call fails with [ErrCorrupt] and names it.
//   - Data before reference: the chunks of a large blob are written before the
//     list that names them, and a dead list is removed before its chunks. A
//     crash leaves garbage for Collect, never a list without its chunks.
//   - A Put is durable only after [Store.Sync] returns nil. Until then the
//     death of the process may lose it, although Get finds it.
//   - A Put whose ref is there already compares the bytes that are kept. When
//     they are damaged the Put mends them.
//   - Memory is bounded whatever the size of a blob: a few chunks of 1 MiB, and
//     some 200 bytes per MiB of the blob at hand. Collect adds 16 bytes per live chunk.
//   - Once pebble has failed fatally, every call fails with [ErrIO] and nothing
//     reaches the disk any more: pebble itself would go on, report success, and
//     could spoil what is there (see pebbleLog and freezer).
//
// Lock order. No lock is held while another is taken, and none while waiting
// for the disk or calling out, collectMu excepted: it is held for the whole
// of a Collect.
//
//	Store.collectMu      one Collect at a time
//	  pins.mu            refs that Collect must leave alone
//	  gate.mu            calls under way, Close waits for them
//	Blob.mu              the chunk read last
//
// Bytes on disk. A pebble database. Keys and values:
//
//	"!format"            "ttfs cas 1"; another value is refused with ErrFormat
//	"c" ref[32]          a chunk: content of up to 1 MiB
//	"l" ref[32]          a list: content above 1 MiB
//
//	chunk  = codec[1] size[uvarint] payload
//	         codec 0: payload is the content; 1: one zstd frame; 2: size zero bytes, no payload
//	list   = version[1]=1 size[uvarint] chunkref[32]... sum[32]
//	         every chunk but the last is of 1 MiB exactly; sum is the BLAKE3 of
//	         "ttfs cas list\x00", the list's own ref, and all bytes before sum
//
// A uvarint is encoded in the fewest bytes; any other form is corrupt.
package cas
