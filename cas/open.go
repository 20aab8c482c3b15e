package cas

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

const (
	formatKey   = "!format"
	formatValue = "ttfs cas 1"
	// pebbleFormat is the pebble format of new stores. Raising it converts
	// stores in place when they are next opened.
	pebbleFormat = pebble.FormatValueSeparation
)

// Open opens the store in dir. Unless it is read-only, it creates the store
// and dir (mode 0700) when they are missing.
//
// Errors: ErrLocked; ErrFormat when a newer version wrote it or it is not a
// store; ErrCorrupt; ErrNotFound when read-only and missing; ErrNoSpace; ErrIO.
// Nothing is left open when one is returned.
func Open(dir string, o Options) (_ *Store, err error) {
	const op = "open"
	s := &Store{readOnly: o.ReadOnly, floor: o.FloorBytes, freeBytes: o.freeBytes}
	if s.floor == 0 {
		s.floor = DefaultFloorBytes
	}
	if s.floor < 0 {
		s.floor = math.MinInt64 // negative also when divided
	}
	if s.freeBytes == nil {
		s.freeBytes = statfsFree
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s.log = &pebbleLog{log: o.Logger}
	s.bufs.New = func() any { return new([ChunkBytes]byte) }
	s.pins.init()

	disk := o.fs
	if disk == nil {
		disk = vfs.Default
	}
	if s.dir, err = prepareDir(disk, dir, o); err != nil {
		return nil, err
	}
	undo := func() {}
	defer func() {
		if err != nil {
			undo()
		}
	}()
	if s.lock, err = lockDir(disk, s.dir); err != nil {
		return nil, err
	}
	undo = func() { _ = s.lock.Close() }
	if err = checkPebbleFormat(disk, s.dir); err != nil {
		return nil, err
	}
	if s.db, err = openPebble(s.dir, s.pebbleOptions(&freezer{FS: disk, log: s.log})); err != nil {
		return nil, wrapOpen(s.dir, err)
	}
	undo = func() { _ = s.db.Close(); _ = s.lock.Close() }
	if err = s.checkFormat(); err != nil {
		return nil, err
	}
	if s.codec, err = newCodec(); err != nil {
		return nil, wrapOpen(s.dir, err)
	}
	undo = func() { _ = s.db.Close(); s.codec.close(); _ = s.lock.Close() }
	s.log.opened.Store(true)
	// Last: a failure before that was pebble's to report.
	if err = s.committed(op, Ref{}, nil); err != nil {
		return nil, err
	}
	return s, nil
}

// openPebble is pebble.Open, which panics with the error of a disk that fails
// while it moves its markers (vfs/atomicfs). What it has opened then leaks.
func openPebble(dir string, o *pebble.Options) (db *pebble.DB, err error) {
	defer func() {
		switch cause := recover().(type) {
		case nil:
		case runtime.Error:
			panic(cause)
		case error:
			db, err = nil, cause
		default:
			panic(cause)
		}
	}()
	return pebble.Open(dir, o)
}

// prepareDir returns the one name of dir. pebble keeps its table of locks by
// name: a second name for one directory would get around the lock, which is
// of the process.
func prepareDir(disk vfs.FS, dir string, o Options) (string, error) {
	if !o.ReadOnly {
		if err := disk.MkdirAll(dir, 0o700); err != nil {
			return "", wrapOpen(dir, err)
		}
	}
	if _, err := disk.Stat(dir); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "", &Error{Op: "open", What: dir, Kind: ErrNotFound, Err: err}
		}
		return "", wrapOpen(dir, err)
	}
	if o.fs != nil || strings.HasPrefix(dir, "/proc/self/fd/") {
		// A path by descriptor is the only way to a directory that something is mounted over: its real name would lead
		// through that mount.
		return dir, nil
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", wrapOpen(dir, err)
	}
	if abs, err = filepath.EvalSymlinks(abs); err != nil {
		return "", wrapOpen(dir, err)
	}
	return abs, nil
}

// lockDir takes pebble's lock. The file is opened first, which fails with a
// path; what fails after that is the lock.
func lockDir(disk vfs.FS, dir string) (*pebble.Lock, error) {
	lock, err := pebble.LockDirectory(dir, disk)
	if err == nil {
		return lock, nil
	}
	if _, ok := errors.AsType[*os.PathError](err); ok {
		return nil, wrapOpen(dir, err)
	}
	return nil, &Error{Op: "open", What: dir, Kind: ErrLocked, Err: err}
}

// checkPebbleFormat tells a database of a newer pebble from a damaged one,
// before pebble touches it. Source: pebble's marker "format-version".
func checkPebbleFormat(disk vfs.FS, dir string) error {
	marker, err := atomicfs.ReadMarker(disk, dir, "format-version")
	if err != nil {
		return wrapOpen(dir, err)
	}
	if marker == "" {
		return nil // a new database
	}
	version, err := strconv.ParseUint(marker, 10, 64)
	if err != nil {
		return &Error{Op: "open", What: dir, Kind: ErrFormat, Err: err}
	}
	if v := pebble.FormatMajorVersion(version); v > pebbleFormat || v < pebble.FormatMinSupported {
		return &Error{Op: "open", What: fmt.Sprintf("%s: pebble format %d", dir, version), Kind: ErrFormat}
	}
	return nil
}

func wrapOpen(dir string, err error) error {
	err = wrap("open", Ref{}, err)
	if e, ok := errors.AsType[*Error](err); ok && e.What == "" {
		e.What = dir
	}
	return err
}

func (s *Store) pebbleOptions(disk vfs.FS) *pebble.Options {
	o := &pebble.Options{
		FS:                 disk,
		Lock:               s.lock,
		Logger:             s.log,
		EventListener:      s.log.listener(),
		ReadOnly:           s.readOnly,
		CacheSize:          16 << 20,
		MemTableSize:       8 << 20,
		MaxOpenFiles:       200,
		FormatMajorVersion: pebbleFormat,
	}
	for i := range o.Levels {
		// Keys are hashes, and most questions are for what is not there.
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	// Values are compressed already, keys do not compress.
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionNone })
	return o
}

// checkFormat accepts our format and writes it into an empty database.
func (s *Store) checkFormat() error {
	const op = "open"
	value, closer, err := s.db.Get([]byte(formatKey))
	if err == nil {
		got := string(value)
		if err := closer.Close(); err != nil {
			return wrapOpen(s.dir, err)
		}
		if got != formatValue {
			return &Error{Op: op, What: fmt.Sprintf("%s: format %.40q", s.dir, got), Kind: ErrFormat}
		}
		return nil
	}
	if pebble.IsCorruptionError(err) {
		// The first blob shares a block with it: its damage must not take all the others along. The journal beside knows the format, too.
		s.log.log.Error("cas: the record of the format is damaged; the store is taken for one of ours", "dir", s.dir, "err", err)
		return nil
	}
	if !errors.Is(err, pebble.ErrNotFound) {
		return wrapOpen(s.dir, err)
	}
	it, err := s.db.NewIter(nil)
	if err != nil {
		return wrapOpen(s.dir, err)
	}
	empty := !it.First()
	if err := it.Close(); err != nil {
		return wrapOpen(s.dir, err)
	}
	if !empty {
		return &Error{Op: op, What: s.dir + ": a database of something else", Kind: ErrFormat}
	}
	if s.readOnly {
		return nil
	}
	return s.committed(op, Ref{}, s.db.Set([]byte(formatKey), []byte(formatValue), pebble.Sync))
}

// Close waits for the calls under way, syncs, and lets go of the directory. It
// must not be called from the callbacks of Collect and Verify, which it waits
// for. A second Close does nothing.
//
// Errors: ErrIO; the store is closed all the same.
func (s *Store) Close() error {
	if !s.gate.close() {
		return nil
	}
	err := s.db.Close()
	s.codec.close()
	if lockErr := s.lock.Close(); err == nil {
		err = lockErr
	}
	return s.committed("close", Ref{}, err)
}
