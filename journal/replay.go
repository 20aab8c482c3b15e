package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// replay is one Open at work: it reads the segments behind the checkpoint into the memtable.
type replay struct {
	j        *Journal
	salt     uint64
	haveSalt bool
	// last is the LSN of the last record seen.
	last uint64
	// torn is where the torn tail of the last segment begins; 0: there is none.
	torn int64
	// headless: the last segment is blank, the mark of a power cut at its birth.
	headless bool
	list     []*segment
}

func (r *replay) run(nums []uint32) error {
	headers := make([]header, len(nums))
	sound := make([]bool, len(nums))
	for i, num := range nums {
		s, h, ok, err := r.j.openSegment(num)
		if err != nil {
			return err
		}
		r.list = append(r.list, s)
		headers[i], sound[i] = h, ok
		if ok && !r.haveSalt {
			r.salt, r.haveSalt = h.salt, true
		}
	}
	if !r.haveSalt && len(nums) > 0 {
		r.salt, r.haveSalt = headers[0].salt, true
	}
	if !r.haveSalt {
		r.salt = newSalt()
	}
	r.j.salt, r.j.seed = r.salt, foldSalt(r.salt)
	r.last = r.j.done.lsn
	if len(nums) > 0 && sound[0] && r.last == 0 && headers[0].firstLSN > 1 {
		return fail("open index", r.j.dir, ErrCorrupt,
			fmt.Errorf("the index is missing; records 1 to %d were only there", headers[0].firstLSN-1))
	}
	for i, s := range r.list {
		if err := r.segment(s, headers[i], sound[i], i == len(r.list)-1); err != nil {
			return err
		}
	}
	return nil
}

// openSegment opens a segment and reads its header; ok is false when the header is damaged.
func (j *Journal) openSegment(num uint32) (s *segment, h header, ok bool, err error) {
	path, flag := segPath(j.dir, num), os.O_RDWR
	if j.o.ReadOnly {
		flag = os.O_RDONLY
	}
	f, err := j.o.disk.open(path, flag)
	if err != nil {
		return nil, h, false, fail("open", path, ErrIO, err)
	}
	s = &segment{num: num, path: path, file: f}
	s.refs.Store(1)
	j.segs[num] = s // releaseAll closes it
	size, err := f.size()
	if err != nil {
		return nil, h, false, fail("open", path, ErrIO, err)
	}
	s.end.Store(size)
	b := make([]byte, headerBytes)
	if size >= headerBytes {
		if _, err := f.ReadAt(b, 0); err != nil {
			return nil, h, false, fail("open", path, ErrIO, err)
		}
	}
	h, ok = decodeHeader(b)
	if ok && h.version != formatVersion {
		return nil, h, false, fail("open", path, ErrFormat, fmt.Errorf("version %d", h.version))
	}
	ok = ok && h.num == num
	if ok {
		s.firstLSN = h.firstLSN
	}
	if _, err := os.Stat(damagedPath(path)); err == nil {
		s.damaged = true
	}
	return s, h, ok, nil
}

// segment replays one segment, from the checkpoint on.
func (r *replay) segment(s *segment, h header, sound, isLast bool) error {
	j, done := r.j, r.j.done
	size := s.end.Load()
	if s.num < done.seg {
		return nil
	}
	from := int64(headerBytes)
	if s.num == done.seg {
		from = done.offset
	}
	if size < from && !(isLast && s.num > done.seg) {
		r.damage(s, size, fmt.Sprintf("the segment ends at byte %d, %d bytes too early", size, from-size))
		return nil
	}
	if sound && s.num > done.seg && h.firstLSN > r.last+1 {
		r.damage(s, 0, fmt.Sprintf("records %d to %d, which came before it, are missing", r.last+1, h.firstLSN-1))
		r.last = h.firstLSN - 1
	}
	sc := scanner{r: s.file, size: size, seed: j.seed, off: min(from, size), last: r.last}
	count := 0
	for {
		at, before := sc.off, sc.last
		rec, skipped, ok, err := sc.next()
		if err != nil {
			return fail("open", s.path, ErrIO, err)
		}
		if !ok {
			if isLast && !sound && count == 0 && s.num > done.seg {
				if r.headless, err = isBlank(s.file, size); err != nil {
					return fail("open", s.path, ErrIO, err)
				}
			}
			r.endOf(s, at, skipped, isLast)
			break
		}
		count++
		switch {
		case skipped > 0:
			r.damage(s, at, fmt.Sprintf("%d damaged bytes before record %d (the one before is %d)", skipped, rec.lsn, before))
		case rec.lsn != before+1:
			r.damage(s, at, fmt.Sprintf("records %d to %d are missing", before+1, rec.lsn-1))
		}
		j.mem.apply(rec.payload, s.num, rec.off+recordHead, nil)
		j.mem.size.Store(j.mem.sizeBytes)
		r.last = rec.lsn
	}
	if !sound && !r.headless {
		r.damage(s, 0, errHeader.Error())
	}
	return nil
}

// endOf judges the bytes behind the last valid record of a segment.
func (r *replay) endOf(s *segment, at, bytes int64, isLast bool) {
	switch {
	case r.headless:
		r.j.log.Info("journal: the last segment was cut off at its birth", "segment", s.path)
	case bytes == 0:
	case isLast:
		r.torn = at
		r.j.log.Info("journal: the last record was cut off by a crash", "segment", s.path, "offset", at, "bytes", bytes)
	default:
		r.damage(s, at, fmt.Sprintf("%d damaged bytes at its end", bytes))
	}
}

// isBlank says whether a file is too short to hold a header or nothing but zeros: what a power cut leaves of a new one.
func isBlank(r io.ReaderAt, size int64) (bool, error) {
	if size < headerBytes {
		return true, nil
	}
	sc := scanner{r: r, size: size}
	for at := int64(0); at < size; at += windowBytes {
		b, err := sc.bytes(at, min(windowBytes, size-at))
		if err != nil {
			return false, err
		}
		for _, c := range b {
			if c != 0 {
				return false, nil
			}
		}
	}
	return true, nil
}

// damage reports a problem and marks the segment, so that nothing deletes it by itself.
func (r *replay) damage(s *segment, at int64, what string) {
	j := r.j
	p := Problem{Path: s.path, Offset: at, What: what}
	j.problems = append(j.problems, p)
	j.log.Warn("journal: damage", "segment", p.Path, "offset", p.Offset, "what", p.What)
	s.damaged = true
	if j.o.ReadOnly {
		return
	}
	if err := writeMark(j.o.disk, s.path, p.String()+"\n"); err != nil {
		j.log.Warn("journal: cannot mark the damaged segment", "segment", s.path, "err", err)
	}
}

// writeMark appends text to the mark beside the segment at path.
func writeMark(d disk, path, text string) error {
	f, err := d.open(damagedPath(path), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	size, err := f.size()
	if err == nil {
		_, err = f.WriteAt([]byte(text), size)
	}
	return errors.Join(err, f.Close())
}

// passOver leaves what a crash cut off, which a journal that may only be read cannot do away with, out of account: it is no damage.
func (r *replay) passOver() {
	if len(r.list) == 0 {
		return
	}
	switch last := r.list[len(r.list)-1]; {
	case r.headless:
		delete(r.j.segs, last.num)
		last.release()
	case r.torn > 0 && !last.damaged:
		last.end.Store(r.torn)
	}
}

// chooseTail cuts off what is torn and makes the last segment the tail, or begins a new one.
func (r *replay) chooseTail() error {
	j := r.j
	next := j.done.seg
	var last *segment
	if n := len(r.list); n > 0 {
		last = r.list[n-1]
		next = max(next, last.num)
	}
	if r.headless {
		delete(j.segs, last.num)
		last.release()
		if err := j.o.disk.remove(last.path); err != nil {
			return fail("open", last.path, ErrIO, err)
		}
		r.list = r.list[:len(r.list)-1]
		last = nil
	}
	if last != nil && r.torn > 0 && !last.damaged {
		if err := last.file.truncate(r.torn); err != nil {
			return fail("open", last.path, ErrIO, err)
		}
		last.end.Store(r.torn)
	}
	j.dirDirty = true
	for _, s := range r.list {
		// They may have been written by a process that died before it synced.
		if s.num >= j.done.seg && s != last {
			s.acquire()
			j.dirty = append(j.dirty, s)
		}
	}
	if last != nil && !last.damaged && last.num >= j.done.seg {
		j.tail = last
		return nil
	}
	if last != nil && last.num >= j.done.seg {
		last.acquire()
		j.dirty = append(j.dirty, last)
	}
	s, err := createSegment(j.o.disk, j.dir, header{formatVersion, next + 1, j.lastLSN + 1, j.salt})
	if err != nil {
		return err
	}
	j.segs[s.num], j.tail = s, s
	return nil
}
