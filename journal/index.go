package journal

import (
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// keyPrefix stands before every key in the index, metaKey names the meta record.
const keyPrefix = byte('k')

var (
	metaKey      = []byte("m")
	errIndexDead = errors.New("the index gave up; open the journal anew")
	errMeta      = errors.New("damaged meta record of the index")
)

// position is a place in the log: every record up to lsn lies before offset in seg, or in a segment before it.
type position struct {
	lsn    uint64
	seg    uint32
	offset int64
}

// meta is what the index knows about itself.
type meta struct {
	salt uint64
	done position
	// live counts, per segment, the bytes of big values that the index points to.
	live map[uint32]int64
}

func (m meta) encode() []byte {
	b := binary.LittleEndian.AppendUint32(nil, formatVersion)
	b = binary.LittleEndian.AppendUint64(b, m.salt)
	b = binary.LittleEndian.AppendUint64(b, m.done.lsn)
	b = binary.LittleEndian.AppendUint32(b, m.done.seg)
	b = binary.LittleEndian.AppendUint64(b, uint64(m.done.offset))
	b = binary.AppendUvarint(b, uint64(len(m.live)))
	for seg, n := range m.live {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(seg)), uint64(n))
	}
	return b
}

func decodeMeta(b []byte) (m meta, err error) {
	if len(b) < 4 {
		return m, errMeta
	}
	if binary.LittleEndian.Uint32(b) != formatVersion {
		return m, ErrFormat
	}
	if len(b) < 33 {
		return m, errMeta
	}
	m.salt = binary.LittleEndian.Uint64(b[4:])
	m.done = position{binary.LittleEndian.Uint64(b[12:]), binary.LittleEndian.Uint32(b[20:]), int64(binary.LittleEndian.Uint64(b[24:]))}
	m.live = map[uint32]int64{}
	b = b[32:]
	var bad bool
	next := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			bad = true
			return 0
		}
		b = b[n:]
		return v
	}
	for n := next(); n > 0 && !bad; n-- {
		seg := next()
		m.live[uint32(seg)] = int64(next())
	}
	if bad || len(b) != 0 {
		return m, errMeta
	}
	return m, nil
}

// index is the pebble database, without a write-ahead log of its own: a batch is durable once it is flushed.
type index struct {
	db  *pebble.DB
	dir string

	// closing are iterators on their way to be closed, and closers counts them.
	closing chan io.Closer
	closers sync.WaitGroup

	mu sync.Mutex
	// dead is set when pebble met what it calls fatal: it may then report success for what failed.
	dead error
	// failed is closed and replaced at each background error.
	failed  chan struct{}
	lastErr error
	log     *slog.Logger
}

// openIndex opens or makes the index; nil without an error when it is to be read only and is not there.
func openIndex(dir string, fs vfs.FS, readOnly, still bool, log *slog.Logger) (*index, error) {
	x := &index{dir: filepath.Join(dir, "index"), failed: make(chan struct{}), closing: make(chan io.Closer, 64), log: log}
	cache := pebble.NewCache(16 << 20)
	defer cache.Unref()
	o := &pebble.Options{
		FS:                          &indexFS{fs, x},
		Cache:                       cache,
		DisableWAL:                  true,
		ReadOnly:                    readOnly,
		DisableAutomaticCompactions: still,
		FormatMajorVersion:          pebbleFormat,
		Logger:                      pebbleLog{x},
		MemTableSize:                4 << 20,
		MemTableStopWritesThreshold: 64,
	}
	o.Experimental.ReadSamplingMultiplier = -1 // readers must not need pebble's main lock, see Fatalf
	o.EventListener = &pebble.EventListener{
		BackgroundError: x.backgroundError,
		DataCorruption: func(i pebble.DataCorruptionInfo) {
			x.log.Error("journal: the index is damaged", "dir", x.dir, "what", i.String())
		},
	}
	if readOnly {
		if _, err := fs.Stat(x.dir); errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
	}
	err := x.open(o)
	if err == nil {
		go x.closeIterators()
	}
	if readOnly && errors.Is(err, pebble.ErrDBDoesNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fail("open index", x.dir, indexKind(err), err)
	}
	return x, nil
}

// readMeta reads the meta record; found is false in a new index.
func (x *index) readMeta() (m meta, found bool, err error) {
	v, closer, err := x.db.Get(metaKey)
	if errors.Is(err, pebble.ErrNotFound) {
		return meta{live: map[uint32]int64{}}, false, nil
	}
	if err != nil {
		return meta{}, false, err
	}
	m, err = decodeMeta(v)
	return m, true, errors.Join(err, x.done(closer))
}

// setMeta writes the meta record, durably.
func (x *index) setMeta(m meta) error {
	if err := x.guard(func() error { return x.db.Set(metaKey, m.encode(), pebble.NoSync) }); err != nil {
		return err
	}
	return x.flush()
}

// get appends the stored form of key to dst.
func (x *index) get(key, dst []byte) (stored []byte, found bool, err error) {
	var room [128]byte
	v, closer, err := x.db.Get(indexKey(room[:0], key))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	stored = append(dst, v...)
	return stored, true, x.done(closer)
}

func indexKey(dst, key []byte) []byte { return append(append(dst, keyPrefix), key...) }

// indexRange returns the bounds of all index keys that begin with prefix.
func indexRange(prefix []byte) (lower, upper []byte) {
	lower = indexKey(nil, prefix)
	upper = append([]byte(nil), lower...)
	for i := len(upper) - 1; ; i-- {
		if upper[i]++; upper[i] != 0 {
			return lower, upper[:i+1]
		}
	}
}

// close leaves a dead index as it is: its locks are held for ever.
func (x *index) close() error {
	close(x.closing)
	return x.drop(closer(func() error {
		x.closers.Wait()
		return x.db.Close()
	}))
}

type closer func() error

func (c closer) Close() error { return c() }
