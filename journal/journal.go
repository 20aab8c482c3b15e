package journal

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Options of Open. The zero value is good.
type Options struct {
	// Logger hears of crashes, damage and failing checkpoints. nil: nobody does.
	Logger *slog.Logger
	// SegmentBytes is the size past which a new segment begins. Default 64 MiB.
	SegmentBytes int64
	// MemBytes is the size of the memtable past which it is written to the index. Default 8 MiB.
	MemBytes int64
	// SyncEvery makes Commit return only when the record survives a power cut; commits share the waiting.
	SyncEvery bool
	// FloorBytes is the free space that is kept: below it Commit returns ErrNoSpace. Default 32 MiB; negative: none.
	FloorBytes int64
	// ReadOnly opens without writing anything to the directory.
	ReadOnly bool

	// disk and indexFS are the filesystem; tests make them fail.
	disk    disk
	indexFS vfs.FS
	// still: the index compacts nothing by itself. Pebble panics when a compaction meets damage.
	still bool
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = 64 << 20
	}
	if o.MemBytes <= 0 {
		o.MemBytes = 8 << 20
	}
	if o.FloorBytes == 0 {
		o.FloorBytes = 32 << 20
	}
	if o.disk == nil {
		o.disk = osDisk{}
	}
	if o.indexFS == nil {
		o.indexFS = vfs.Default
	}
	return o
}

// Journal is an open journal. All methods may be called from many goroutines.
type Journal struct {
	dir  string
	o    Options
	log  *slog.Logger
	lock *os.File
	idx  *index // nil: read only, and no index there
	salt uint64
	seed uint32

	// users counts the calls under way, plus closedBit once Close was called; idle is closed when the last one leaves.
	users atomic.Int64
	idle  chan struct{}
	once  sync.Once

	compactMu sync.Mutex // one Compact at a time; above ckptMu

	ckptMu sync.Mutex
	// pending is the work of a checkpoint that was begun and has failed since.
	pending *flushWork // +checklocks:ckptMu

	syncMu    sync.Mutex
	syncedLSN uint64 // +checklocks:syncMu

	line     line // who appends
	appendMu sync.Mutex
	roomy    sync.Cond  // on appendMu: the memtable was swapped, or waiting for that is pointless
	tail     *segment   // +checklocks:appendMu
	lastLSN  uint64     // +checklocks:appendMu
	dirty    []*segment // +checklocks:appendMu; segments before the tail that are not synced; each referenced
	dirDirty bool       // +checklocks:appendMu; a segment was created and its directory not synced
	failed   error      // +checklocks:appendMu; sticky
	ckptErr  error      // +checklocks:appendMu; of the last checkpoint
	ckptDone int64      // +checklocks:appendMu; checkpoints finished
	stopping bool       // +checklocks:appendMu
	space    spaceGuard // +checklocks:appendMu
	// noReserve: the filesystem cannot keep blocks for a file.
	noReserve bool // +checklocks:appendMu

	mems    atomic.Pointer[mems] // mem and imm, for who takes no lock
	applied atomic.Uint64        // odd while a record is applied, which is under mu

	mu   sync.RWMutex
	mem  *memtable           // +checklocks:mu
	imm  *memtable           // +checklocks:mu; on its way into the index, or nil
	segs map[uint32]*segment // +checklocks:mu
	done position            // +checklocks:mu; the index is complete up to here
	live map[uint32]int64    // +checklocks:mu; replaced, never changed

	cache indexCache // of what was read from idx

	kick     chan struct{}
	stop     chan struct{}
	stopped  chan struct{}
	problems []Problem // found by Open; not changed afterwards
}

const closedBit = int64(1) << 40

// enter counts a call in; every successful enter is followed by leave.
func (j *Journal) enter(op string) error {
	if j.users.Add(1) < closedBit {
		return nil
	}
	j.leave()
	return &Error{Op: op, Path: j.dir, Kind: ErrClosed}
}

func (j *Journal) leave() {
	if j.users.Add(-1) == closedBit {
		j.once.Do(func() { close(j.idle) })
	}
}

// Close waits for the calls under way (it must not be called inside a Scan), writes a last checkpoint and releases everything. When the
// checkpoint fails nothing is lost: the next Open replays the segments.
func (j *Journal) Close() error {
	for {
		n := j.users.Load()
		if n >= closedBit {
			return &Error{Op: "close", Path: j.dir, Kind: ErrClosed}
		}
		if j.users.CompareAndSwap(n, n+closedBit) {
			if n == 0 {
				j.once.Do(func() { close(j.idle) })
			}
			break
		}
	}
	j.appendMu.Lock()
	j.stopping = true
	j.roomy.Broadcast()
	j.appendMu.Unlock()
	<-j.idle
	close(j.stop)
	<-j.stopped
	if !j.o.ReadOnly {
		if err := j.checkpoint(); err != nil {
			j.log.Warn("journal: the last checkpoint failed; the next open replays the segments", "dir", j.dir, "err", err)
		}
	}
	return j.releaseAll()
}

// releaseAll closes what Open opened.
func (j *Journal) releaseAll() error {
	var errs []error
	if j.idx != nil {
		errs = append(errs, j.idx.close())
	}
	j.appendMu.Lock()
	for _, s := range j.dirty {
		s.release()
	}
	j.dirty = nil
	j.appendMu.Unlock()
	j.mu.Lock()
	for _, s := range j.segs {
		s.release()
	}
	j.segs = nil
	j.mu.Unlock()
	if j.lock != nil {
		errs = append(errs, j.lock.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fail("close", j.dir, ErrIO, err)
	}
	return nil
}

// spaceGuard knows the free space of the filesystem well enough without asking at each commit.
type spaceGuard struct {
	free int64
	at   time.Time
}

// maxSpaceAge is how long an answer of the filesystem is trusted.
const maxSpaceAge = 100 * time.Millisecond

// take accounts for n bytes about to be written; false: they would go below the floor.
func (g *spaceGuard) take(d disk, dir string, n, floor int64) (bool, error) {
	if floor < 0 {
		return true, nil
	}
	if g.free-n < floor || time.Since(g.at) > maxSpaceAge {
		free, err := d.freeBytes(dir)
		if err != nil {
			return false, err
		}
		g.free, g.at = free, time.Now()
	}
	if g.free-n < floor {
		return false, nil
	}
	g.free -= n
	return true, nil
}

var _ io.Closer = (*Journal)(nil)
