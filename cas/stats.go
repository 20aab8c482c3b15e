package cas

import "sync/atomic"

type counters struct {
	puts, duplicates       atomic.Int64
	putBytes, writtenBytes atomic.Int64
	removed                atomic.Int64
}

// Stats is what a store is and has done since it was opened.
type Stats struct {
	DiskBytes    int64 // what the store takes on the disk, garbage included
	Puts         int64 // chunks put, large blobs counted chunk by chunk
	Duplicates   int64 // of these: were there already
	PutBytes     int64 // content bytes put
	WrittenBytes int64 // record bytes written for them
	Removed      int64 // records removed by Collect
}

// Stats returns the numbers; zero ones once the store is closed.
func (s *Store) Stats() Stats {
	if !s.gate.enter() {
		return Stats{}
	}
	defer s.gate.leave()
	return Stats{
		DiskBytes:    int64(s.db.Metrics().DiskSpaceUsage()),
		Puts:         s.counters.puts.Load(),
		Duplicates:   s.counters.duplicates.Load(),
		PutBytes:     s.counters.putBytes.Load(),
		WrittenBytes: s.counters.writtenBytes.Load(),
		Removed:      s.counters.removed.Load(),
	}
}
