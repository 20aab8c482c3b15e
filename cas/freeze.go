package cas

import (
	"errors"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// freezer is the disk below pebble. Once pebble has failed, nothing is written
// any more, whatever pebble goes on to do:
//
//   - A failed write to the manifest is taken back in memory and tried again,
//     while the first try may reach the disk with the second: one table would be
//     there twice, and the database could not be compacted ever after.
//   - A WAL that cannot be ended, or the next one begun, makes pebble panic with
//     its mutex in disorder, which ends the process.
//
// So a failed write to a WAL sticks as if pebble had called Fatalf, and pebble
// is told that it went well, then and later; everything else fails. What was
// not written is what a kill at that moment would have lost.
type freezer struct {
	vfs.FS
	log *pebbleLog
}

var errFrozen = errors.New("nothing is written after pebble has failed")

func isWAL(name string) bool { return strings.HasSuffix(name, ".log") }

func (f *freezer) frozen() bool { return f.log.err() != nil }

// wal makes a failed call on a WAL stick, and hides it from pebble. While the
// store is being opened pebble returns the error properly.
func (f *freezer) wal(err error) error {
	if err == nil || !f.log.opened.Load() {
		return err
	}
	f.log.Fatalf("WAL: %v", err)
	return nil
}

// Create makes a file, or nothing when frozen.
func (f *freezer) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.create(name, func() (vfs.File, error) { return f.FS.Create(name, c) })
}

// ReuseForWrite is Create with an old WAL.
func (f *freezer) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return f.create(to, func() (vfs.File, error) { return f.FS.ReuseForWrite(from, to, c) })
}

// OpenReadWrite opens a file for writing, too.
func (f *freezer) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return f.create(name, func() (vfs.File, error) { return f.FS.OpenReadWrite(name, c, opts...) })
}

func (f *freezer) create(name string, create func() (vfs.File, error)) (vfs.File, error) {
	wal := isWAL(name)
	var file vfs.File
	err := errFrozen
	if !f.frozen() {
		file, err = create()
	}
	if wal {
		if err = f.wal(err); err == nil && file == nil {
			file = vfs.NewMemFile(nil) // never written to: it is frozen
		}
	}
	if err != nil {
		return nil, err
	}
	return &freezerFile{File: file, disk: f, wal: wal}, nil
}

// OpenDir opens a directory to sync it.
func (f *freezer) OpenDir(name string) (vfs.File, error) {
	file, err := f.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &freezerFile{File: file, disk: f, wal: true}, nil
}

// Remove keeps the file when frozen: it may be what the next Open needs.
func (f *freezer) Remove(name string) error {
	return f.change(func() error { return f.FS.Remove(name) })
}

// RemoveAll is refused when frozen.
func (f *freezer) RemoveAll(name string) error {
	return f.change(func() error { return f.FS.RemoveAll(name) })
}

// Rename is refused when frozen.
func (f *freezer) Rename(from, to string) error {
	return f.change(func() error { return f.FS.Rename(from, to) })
}

// Link is refused when frozen.
func (f *freezer) Link(from, to string) error {
	return f.change(func() error { return f.FS.Link(from, to) })
}

func (f *freezer) change(do func() error) error {
	if f.frozen() {
		return errFrozen
	}
	return do()
}

// Unwrap returns the disk below.
func (f *freezer) Unwrap() vfs.FS { return f.FS }

// freezerFile is a file open for writing. wal: its failures stick and are
// hidden; so it is with a directory, whose failing sync makes pebble panic.
type freezerFile struct {
	vfs.File
	disk *freezer
	wal  bool
}

func (f *freezerFile) change(do func() error) error {
	err := errFrozen
	if !f.disk.frozen() {
		err = do()
	}
	if f.wal {
		return f.disk.wal(err)
	}
	return err
}

// Write writes all of p.
func (f *freezerFile) Write(p []byte) (n int, err error) {
	n = len(p)
	err = f.change(func() (err error) { n, err = f.File.Write(p); return err })
	if err == nil {
		n = len(p)
	}
	return n, err
}

// WriteAt writes all of p.
func (f *freezerFile) WriteAt(p []byte, off int64) (n int, err error) {
	n = len(p)
	err = f.change(func() (err error) { n, err = f.File.WriteAt(p, off); return err })
	if err == nil {
		n = len(p)
	}
	return n, err
}

// Sync makes the file durable.
func (f *freezerFile) Sync() error { return f.change(f.File.Sync) }

// SyncData makes the bytes of the file durable.
func (f *freezerFile) SyncData() error { return f.change(f.File.SyncData) }

// SyncTo begins to make the bytes durable.
func (f *freezerFile) SyncTo(length int64) (full bool, err error) {
	err = f.change(func() (err error) { full, err = f.File.SyncTo(length); return err })
	return full, err
}

// Preallocate reserves room.
func (f *freezerFile) Preallocate(off, length int64) error {
	return f.change(func() error { return f.File.Preallocate(off, length) })
}

// Close closes also when frozen.
func (f *freezerFile) Close() error {
	err := f.File.Close()
	if f.wal {
		return f.disk.wal(err)
	}
	return err
}
