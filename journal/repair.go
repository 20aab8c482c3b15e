package journal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// Lost is a part of the keys of which something could not be read: from From on, up to and without To.
type Lost struct {
	From, To []byte
	Why      error
}

// ErrBeyondRepair says that neither the index can be opened nor do the segments go back to the first record.
const ErrBeyondRepair Kind = "the journal is damaged beyond repair"

// Repair opens a journal, and makes of a damaged one a sound one that has all that can be read. The index, where it is
// damaged, is written anew; live values are moved out of damaged segments, which then go. lost hears of each part of the keys
// that is gone; what it was about is the caller's to find out. mended hears, as sentences, of what was damaged and is whole again.
//
// A death in between leaves a journal to be repaired again. Errors: ErrBeyondRepair, when nothing has changed; those of Open.
func Repair(dir string, o Options, lost func(Lost), mended func(what string)) (*Journal, error) {
	o = o.withDefaults()
	o.still = true
	if err := Recognize(dir); err != nil {
		return nil, err
	}
	if err := undoSwap(dir); err != nil {
		return nil, fail("repair", dir, ErrIO, err)
	}
	j, err := Open(dir, o)
	if e, ok := errors.AsType[*Error](err); ok && e.Op == "open index" && e.Kind != ErrFormat {
		if err := salvageIndex(dir, o, lost); err != nil {
			return nil, err
		}
		mended("the journal's index was damaged: it is made anew")
		j, err = Open(dir, o)
	}
	if err != nil {
		return nil, err
	}
	err = j.readable(lost)
	if err != nil {
		// Open reads little of the index: the damage shows only now.
		_ = j.Close()
		if err := salvageIndex(dir, o, lost); err != nil {
			return nil, err
		}
		mended("the journal's index was damaged: it is made anew")
		if j, err = Open(dir, o); err != nil {
			return nil, err
		}
		err = j.readable(lost)
	}
	if err == nil {
		err = j.findDamaged()
	}
	if err == nil {
		err = j.dropDamaged(mended)
	}
	if err = errors.Join(err, j.Close()); err != nil {
		return nil, err
	}
	o.still = false // all of it has been read
	return Open(dir, o)
}

const (
	indexDir    = "index"
	indexNewDir = "index.new"
	indexOldDir = "index.old"
)

// undoSwap ends a swap of indexes that a death interrupted.
func undoSwap(dir string) error {
	at := func(name string) string { return filepath.Join(dir, name) }
	if _, err := os.Stat(at(indexDir)); errors.Is(err, fs.ErrNotExist) {
		if err := os.Rename(at(indexOldDir), at(indexDir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return errors.Join(os.RemoveAll(at(indexOldDir)), os.RemoveAll(at(indexNewDir)))
}

// readable reads every value, drops the keys of those that cannot be read, and tells of them. Errors: that the index itself
// cannot be walked.
func (j *Journal) readable(lost func(Lost)) error {
	v, err := j.newView([]byte{keyPrefix}, []byte{keyPrefix + 1})
	if err != nil {
		return err
	}
	var b Batch
	var big []byte
	err = v.walk(nil, func(key, stored []byte) error {
		err := errMalformed
		if len(stored) > 0 {
			p, isBig := decodePointer(stored)
			if !isBig {
				return nil
			}
			if s := v.segs[p.seg]; s == nil {
				err = errNoSegment
			} else if big, err = p.fetch(s, big); err == nil {
				return nil
			}
		}
		b.Delete(key)
		lost(Lost{bytes.Clone(key), append(bytes.Clone(key), 0), err})
		return nil
	})
	v.close()
	if err == nil {
		err = j.CommitFreeing(&b)
	}
	if err == nil {
		err = j.checkpoint()
	}
	return err
}

// findDamaged marks the segments in which anything is not as it was written.
func (j *Journal) findDamaged() error {
	j.mu.RLock()
	segs := maps.Clone(j.segs)
	j.mu.RUnlock()
	for _, s := range segs {
		var n Counts
		bad := false
		if err := j.verifySegment(context.Background(), s, s.end.Load(), &n, func(Problem) { bad = true }); err != nil {
			return err
		}
		if !bad {
			continue
		}
		j.mu.Lock()
		s.damaged = true
		j.mu.Unlock()
	}
	return nil
}

// dropDamaged moves what is live out of damaged segments and deletes them. Everything in them can be read by now.
func (j *Journal) dropDamaged(mended func(string)) error {
	damaged := map[uint32]bool{}
	j.mu.RLock()
	for num, s := range j.segs {
		if s.damaged {
			damaged[num] = true
		}
	}
	j.mu.RUnlock()
	if len(damaged) == 0 {
		return nil
	}
	j.appendMu.Lock()
	var err error
	if damaged[j.tail.num] {
		err = j.rollLocked()
	}
	j.appendMu.Unlock()
	if err != nil {
		return err
	}
	if err := j.evacuate(damaged); err != nil {
		return err
	}
	var b Batch // the checkpoint must stand behind them
	b.Delete(nil)
	if err := j.CommitFreeing(&b); err != nil {
		return err
	}
	j.mu.Lock()
	var marks []string
	for num := range damaged {
		j.segs[num].damaged = false
		marks = append(marks, damagedPath(j.segs[num].path))
	}
	j.problems = nil
	j.mu.Unlock()
	if err := j.checkpoint(); err != nil {
		return err
	}
	mended(fmt.Sprintf("%d segments of the journal had damage in them: what is needed of them is written anew, and they are gone", len(damaged)))
	for _, mark := range marks {
		if err := os.Remove(mark); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fail("repair", mark, ErrIO, err)
		}
	}
	return nil
}

// salvageIndex writes a new index of all that can be read of the old one. Where it stands need not be known: to replay the
// end of the log again, from anywhere on, leads to the same state, so it is said to stand before the newest segments that
// follow one another without a gap. None of those behind the old position was ever deleted.
func salvageIndex(dir string, o Options, lost func(Lost)) error {
	lock, err := lockDir(dir, false)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	first, salt, err := newestRun(dir, o)
	if err != nil {
		return err
	}
	fresh, err := openIndex(filepath.Join(dir, indexNewDir), o.indexFS, false, true, o.Logger)
	if err != nil {
		return err
	}
	m := meta{salt: salt, done: position{first.firstLSN - 1, first.num, headerBytes}, live: map[uint32]int64{}}
	old, err := openIndex(dir, o.indexFS, true, true, o.Logger)
	switch {
	case err == nil && old != nil:
		err = copyReadable(old, fresh, dir, m.live, lost)
		err = errors.Join(err, old.close())
	case first.firstLSN > 1:
		_ = fresh.close()
		_ = os.RemoveAll(filepath.Join(dir, indexNewDir))
		return &Error{Op: "repair", Path: dir, Kind: ErrBeyondRepair,
			Err: fmt.Errorf("records 1 to %d were only in the index, which cannot be opened: %w", first.firstLSN-1, err)}
	default:
		err = nil // all is in the segments
	}
	if err == nil {
		err = fresh.setMeta(m)
	}
	if err = errors.Join(err, fresh.close()); err != nil {
		return fail("repair", dir, ErrIO, err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	err = errors.Join(os.RemoveAll(at(indexOldDir)), os.Rename(at(indexDir), at(indexOldDir)), os.Rename(filepath.Join(at(indexNewDir), indexDir), at(indexDir)),
		o.disk.syncDir(dir), os.RemoveAll(at(indexOldDir)), os.RemoveAll(at(indexNewDir)))
	if err != nil {
		return fail("repair", dir, ErrIO, err)
	}
	return nil
}

// newestRun is the first of the newest segments that have consecutive numbers, and the journal's salt.
func newestRun(dir string, o Options) (h header, salt uint64, err error) {
	j := &Journal{dir: dir, o: o, segs: map[uint32]*segment{}}
	defer func() { _ = j.releaseAll() }()
	nums, err := j.listSegments()
	if err != nil {
		return h, 0, err
	}
	for i := len(nums) - 1; i >= 0; i-- {
		if i < len(nums)-1 && nums[i]+1 != nums[i+1] {
			break
		}
		_, got, ok, err := j.openSegment(nums[i])
		if err != nil {
			return h, 0, err
		}
		if !ok {
			break
		}
		h, salt = got, got.salt
	}
	if h.num == 0 {
		return h, 0, fail("repair", dir, ErrBeyondRepair, errors.New("no segment can be read"))
	}
	return h, salt, nil
}

// copyReadable copies what can be read of an index into a fresh one. Where pebble cannot read a part of the keys, it goes on
// at the next number behind the letter of the key, then twice as far each time, then at the next letter.
func copyReadable(old, fresh *index, dir string, live map[uint32]int64, lost func(Lost)) error {
	from := []byte{keyPrefix}
	skip := uint64(1)
	for from != nil {
		next, err := copyFrom(old, fresh, dir, from, live, lost)
		if err == nil {
			return nil
		}
		if !pebble.IsCorruptionError(err) {
			return err
		}
		if !bytes.Equal(next, from) {
			skip = 1
		}
		to := beyond(next, skip)
		skip *= 2
		lost(Lost{bytes.Clone(next[1:]), bytes.Clone(to[min(1, len(to)):]), err})
		from = to
	}
	return nil
}

// beyond is a key some numbers behind another; nil: there is none.
func beyond(key []byte, skip uint64) []byte {
	if len(key) < 2 {
		return []byte{keyPrefix, 1}
	}
	out := make([]byte, 10)
	copy(out, key[:min(len(key), 10)])
	n := binary.BigEndian.Uint64(out[2:])
	if n+skip > n && skip < 1<<40 {
		binary.BigEndian.PutUint64(out[2:], n+skip)
		return out
	}
	if key[1] == 0xff {
		return nil
	}
	return []byte{keyPrefix, key[1] + 1}
}

// copyFrom copies from a key on. When it fails it returns the first key that it has not seen.
func copyFrom(old, fresh *index, dir string, from []byte, live map[uint32]int64, lost func(Lost)) (next []byte, err error) {
	it, err := old.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: []byte{keyPrefix + 1}})
	if err != nil {
		return from, err
	}
	defer func() { _ = old.drop(it) }()
	batch := fresh.db.NewBatch()
	defer func() {
		if e := fresh.db.Apply(batch, pebble.NoSync); err == nil {
			err = e
		}
		_ = batch.Close()
	}()
	next = from
	for ok := it.First(); ok; ok = it.Next() {
		key, err := bytes.Clone(it.Key()), error(nil)
		stored, err := it.ValueAndErr()
		if err != nil {
			return next, err
		}
		next = append(slices.Clone(key), 0)
		if p, big := decodePointer(stored); big {
			if _, err := os.Stat(segPath(dir, p.seg)); err != nil {
				lost(Lost{key[1:], next[1:], errNoSegment})
				continue
			}
			live[p.seg] += int64(p.length)
		}
		if err := batch.Set(key, stored, nil); err != nil {
			return next, err
		}
	}
	return next, it.Error()
}
