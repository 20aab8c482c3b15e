package journal

// Stats is what the journal holds.
type Stats struct {
	// Segments is their number, SegmentBytes their size, LiveBytes the big values in them that the index points to.
	Segments     int
	SegmentBytes int64
	LiveBytes    int64
	// Records is the LSN of the last record: the number of batches ever committed.
	Records uint64
	// CheckpointLSN is the record up to which the index is complete.
	CheckpointLSN uint64
	// MemBytes is the memory held by keys that the index lacks.
	MemBytes int64
	// Checkpoints counts those that succeeded since Open; CheckpointErr is the error of the last one, or nil.
	Checkpoints   int64
	CheckpointErr error
	// Failed is why the journal takes no more commits, or nil.
	Failed error
	// Problems is the number of pieces of damage that Open met.
	Problems int
}

// Stats returns the figures of this moment; zero after Close.
func (j *Journal) Stats() Stats {
	if j.enter("stats") != nil {
		return Stats{}
	}
	defer j.leave()
	j.appendMu.Lock()
	defer j.appendMu.Unlock()
	j.mu.RLock()
	defer j.mu.RUnlock()
	st := Stats{
		Segments: len(j.segs), Records: j.lastLSN, CheckpointLSN: j.done.lsn, MemBytes: j.mem.sizeBytes,
		Checkpoints: j.ckptDone, CheckpointErr: j.ckptErr, Failed: j.failed, Problems: len(j.problems),
	}
	if j.imm != nil {
		st.MemBytes += j.imm.sizeBytes
	}
	for num, s := range j.segs {
		st.SegmentBytes += s.end.Load()
		st.LiveBytes += j.live[num]
	}
	return st
}
