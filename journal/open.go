package journal

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Open opens the journal in dir, made if it is not there, and replays what the index lacks. Damage does not fail it: see Problems.
//
// Errors: ErrLocked when another process has it open (read-only ones may share it), ErrFormat when an unknown version wrote it,
// ErrCorrupt when the index cannot be read, ErrIO.
func Open(dir string, o Options) (*Journal, error) {
	j := &Journal{
		dir: dir, o: o.withDefaults(), idle: make(chan struct{}),
		kick: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{}),
		mem: newMemtable(), segs: map[uint32]*segment{},
	}
	j.log = j.o.Logger
	j.roomy.L = &j.appendMu
	j.shows()
	if err := j.open(); err != nil {
		_ = j.releaseAll()
		return nil, err
	}
	if j.o.ReadOnly {
		close(j.stopped)
	} else {
		go j.checkpointer()
	}
	return j, nil
}

func (j *Journal) open() (err error) {
	if j.lock, err = lockDir(j.dir, j.o.ReadOnly); err != nil {
		return err
	}
	if err := Recognize(j.dir); err != nil {
		return err
	}
	nums, err := j.listSegments()
	if err != nil {
		return err
	}
	full := j.makeRoom(nums)
	if j.idx, err = openIndex(j.dir, j.o.indexFS, j.o.ReadOnly, j.o.still, j.log); err != nil {
		if full {
			err = &Error{Op: "open index", Path: j.dir, Kind: ErrNoSpace, Err: err}
		}
		return err
	}
	m, found := meta{live: map[uint32]int64{}}, false
	if j.idx != nil {
		if m, found, err = j.idx.readMeta(); err != nil {
			kind := ErrCorrupt
			if errors.Is(err, ErrFormat) {
				kind = ErrFormat
			}
			return fail("open index", j.idx.dir, kind, err)
		}
	}
	j.done, j.live, j.syncedLSN = m.done, m.live, m.done.lsn
	r := &replay{j: j, salt: m.salt, haveSalt: found}
	if err := r.run(nums); err != nil {
		return err
	}
	j.lastLSN = max(r.last, j.done.lsn)
	if j.o.ReadOnly {
		r.passOver()
		return nil
	}
	if !found {
		// From now on the salt is known even when the header of the only segment is damaged.
		if err := j.idx.setMeta(meta{salt: j.salt}); err != nil {
			return fail("open index", j.idx.dir, ErrIO, err)
		}
	}
	if err := r.chooseTail(); err != nil {
		return err
	}
	if full {
		return nil // what else is opened on this disk needs that room first: Reserve, or the next record, makes the reserve anew
	}
	j.appendMu.Lock()
	j.reserveLocked()
	j.appendMu.Unlock()
	return nil
}

// lockDir makes dir and locks it; a read-only journal without a lock file is not locked.
func lockDir(dir string, readOnly bool) (*os.File, error) {
	path := filepath.Join(dir, "LOCK")
	flag, how := os.O_RDWR|os.O_CREATE, unix.LOCK_EX
	if readOnly {
		flag, how = os.O_RDONLY, unix.LOCK_SH
		if _, err := os.Stat(dir); err != nil {
			return nil, fail("open", dir, ErrIO, err)
		}
	} else if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fail("open", dir, ErrIO, err)
	}
	f, err := os.OpenFile(path, flag, 0o600)
	if readOnly && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fail("open", path, ErrIO, err)
	}
	if err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err != nil {
		_ = f.Close()
		kind := ErrIO
		if errors.Is(err, unix.EWOULDBLOCK) {
			kind = ErrLocked
		}
		return nil, fail("open", dir, kind, err)
	}
	return f, nil
}

// listSegments returns the numbers of the segments, ascending, and clears away what a crash left half made.
func (j *Journal) listSegments() ([]uint32, error) {
	list, err := os.ReadDir(j.dir)
	if err != nil {
		return nil, fail("open", j.dir, ErrIO, err)
	}
	var nums []uint32
	for _, e := range list {
		if num, ok := segNumber(e.Name()); ok {
			nums = append(nums, num)
		}
		if strings.HasSuffix(e.Name(), segSuffix+newSuffix) && !j.o.ReadOnly {
			if err := j.o.disk.remove(filepath.Join(j.dir, e.Name())); err != nil {
				return nil, fail("open", j.dir, ErrIO, err)
			}
		}
	}
	slices.Sort(nums)
	return nums, nil
}

func newSalt() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return binary.LittleEndian.Uint64(b[:])
}
