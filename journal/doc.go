// Package journal is a durable, ordered key-value log: the one commit point of ttfs.
//
// # Purpose
//
// A Batch of puts, deletes and prefix deletes is committed as one record, with one write(2), at the tail of an append-only
// segment. When Commit returns, the record is with the kernel: it survives any death of this process, and with
// Options.SyncEvery also a power cut. Recent keys are found in a memtable; older ones in an index (a pebble database),
// which is derived state: Checkpoint writes the memtable into it together with the LSN up to which it is complete.
// Values above 512 bytes are never copied out of their segment: memtable and index hold a pointer to them (WiscKey,
// Lu et al., FAST 2016).
//
// # Invariants
//
//   - Record before memory: the memtable never holds what the tail segment lacks. A failed or short write is cut off again;
//     if that fails too, the journal refuses every later Commit (ErrIO) until it is opened anew.
//   - Log sequence numbers (LSN) start at 1 and rise by one per record.
//   - The index may lag behind the segments, it never leads: the segments are made durable before the index is, and a
//     segment is deleted only when the index is durable beyond its last record and no live big value is left in it.
//   - A torn tail (the last segment ends in the middle of a record and nothing valid follows) is the normal end of a crash and is
//     cut off. A bad record with valid ones behind it is damage: it is reported, the records behind it are applied, and
//     the segment is marked (NNNNNNNN.damaged) and never deleted by itself.
//   - A failing checkpoint never fails a Commit: segments and memtable grow, Stats and the log say why.
//
// # Lock order
//
//	Journal.compactMu       one Compact at a time
//	  Journal.ckptMu        one checkpoint at a time; held over disk waits
//	    Journal.syncMu      one fdatasync at a time, on behalf of all that wait
//	      Journal.appendMu  the tail: LSN, offset, the write itself; of all who commit at the same time one takes it (line.go)
//	        Journal.mu      what readers see: memtables, the map of segments, the checkpoint position; never held over a wait. Get
//	                        takes it only when it meets a record that is just being applied
//	          indexCache.mu what was read from the index last
//
// # Bytes on disk
//
// The directory holds LOCK (flock), NNNNNNNN.seg (eight or more decimal digits, rising), NNNNNNNN.damaged (text, why the
// segment is kept) and index/ (pebble). All integers are little endian, all checksums CRC-32C.
//
//	segment  = header record*
//	header   = magic "ttfsjrnl" | version u32 | segment number u32 | first LSN u64 | salt u64 | 0 u32 | crc u32 of the 36 bytes before
//	record   = length u32 of payload | crc u32 | lsn u64 | payload
//	payload  = op+
//	op       = kind byte (1 put, 2 delete, 3 delete prefix) | uvarint len, key | for put: uvarint len, value
//
// The crc of a record starts from the folded salt and runs over payload and lsn. The salt is drawn once per journal and
// repeated in every header: bytes of some other journal that happen to be stored as a value can never be taken for a record when
// the end of damage is searched; bytes of this journal cannot either, as their LSN is lower than that of the record around them.
// The 40 bytes of the header keep their layout in all versions; another version is refused with ErrFormat.
//
//	index key    = 'k' key | 'm' (the meta record)
//	index value  = 0 value | 1 segment u32 | offset u64 of the value | length u32 | crc u32 of the value
//	meta record  = version u32 | salt u64 | lsn u64 | segment u32 | offset u64 | uvarint n, n times (uvarint segment, uvarint live bytes)
//
// The meta record's lsn is the one up to which the index is complete; segment and offset are where the next record begins.
package journal
