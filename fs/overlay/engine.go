package overlay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ttfs/ttfs/cas"
	"github.com/ttfs/ttfs/guard"
	"github.com/ttfs/ttfs/journal"
	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// Options are what an engine needs from outside.
type Options struct {
	// Root is an open descriptor of the workspace's own directory. The engine duplicates it.
	Root int
	// Store is an open descriptor of its `.tt` directory, on the same filesystem. The engine duplicates it.
	Store int
	// Journal and Blobs are open; the engine does not close them.
	Journal Journal
	Blobs   *cas.Store
	// Notify learns what changed other than by the caller's own operation; nil: nobody.
	Notify Notifier
	// Clock is the time; nil: the system's.
	Clock func() time.Time
	// Logger is for the daemon's log; nil: nowhere.
	Logger *slog.Logger
	// Events gets one line an event, without a newline (`.tt/log`); nil: nobody.
	Events func(line string)
	// ReadOnly opens for reading history only: nothing is recovered, no operation may change anything.
	ReadOnly bool
	// Cut says that the machine may have stopped while the workspace was open for writing: what of names had come to the disk can be newer
	// than the journal.
	Cut bool
	// Repair mends a damaged store at opening; nil: damage is an error.
	Repair *Repair
	// Pass lets changes go on, and marks their task incomplete, when the store cannot keep their before-image.
	Pass bool
	// Power makes moves durable against power loss before they are told done.
	Power bool
	// DirFDs bounds the descriptors of directories kept open. 0: 2048.
	DirFDs int
	// Nodes is how many inodes the kernel may have before a Notifier that is Crowded is told. 0: 128 Ki.
	Nodes int

	// Guard switches the guard on: an agent may not destroy content that it has not seen.
	Guard bool
	// Blind says what happens to content that an agent never read.
	Blind guard.BlindRule
	// Classes are added to the built-in ones.
	Classes Classes
	// Live says whether an agent is alive, without calling the engine; nil: those are that something is known of.
	Live func(guard.Agent) bool
	// Refused is told what an agent was refused, as a sentence; nil: nobody.
	Refused func(a tasktree.Agent, sentence string)

	// Packer starts what hashes and compresses for the archiver, out of everybody's way, and ends with ctx; stop ends it
	// earlier. nil, or an error: the engine does it itself.
	Packer func(ctx context.Context) (p cas.Packer, stop func(), err error)

	// Keeper keeps what the kernel knows of nodes, for a daemon to come; nil: nobody.
	Keeper Keeper
	// ForkNotify is who hears of what moves within a fork change; nil: nobody. It is asked when the fork is opened.
	ForkNotify func(name ForkName) Notifier

	// fork is the whole name of the fork that this is, with those above it and slashes between; "" for the workspace itself.
	fork ForkName
	// tidyAside has tidy work in the background though there are points.
	tidyAside bool
	// lower is the frozen tree of the engine that this one is a fork of, and blobMu that engine's.
	lower  *lower
	blobMu *sync.RWMutex
	// point is called before every effect; tests die or fail there.
	point func(name string) error
	// workers is how many of them a step has; 0: as the machine has processors. For tests.
	workers int
}

// Journal is a journal, or the part of one that a fork has.
type Journal interface {
	Get(key []byte) (value []byte, found bool, err error)
	Scan(prefix []byte, fn func(key, value []byte) error) error
	View(prefix []byte) (*journal.View, error)
	Commit(b *journal.Batch) error
	CommitFreeing(b *journal.Batch) error
	Sync() error
	Sub(prefix []byte) *journal.Sub
	Stats() journal.Stats
	Verify(ctx context.Context, report func(journal.Problem)) (journal.Counts, error)
	Compact() error
}

// Notifier is told, under no lock, what the kernel may have cached and a move has changed.
type Notifier interface {
	// Changed is called once a move, before its result is returned.
	Changed(c Changes)
}

// Changes are the known nodes that a move has changed.
type Changes struct {
	Entries []EntryChange
	Nodes   []NodeID
	// Objects are those in the tree whose content or metadata changed, whether the kernel knows them or not.
	Objects []ObjectChange
}

// ObjectChange is an object whose content or metadata changed.
type ObjectChange struct {
	// Path is where it is after the move.
	Path string
	// Ino is its inode number, and DirIno that of the directory that it is in.
	Ino, DirIno   uint64
	Content, Meta bool
	id            OID
}

// EntryChange is a name whose object changed.
type EntryChange struct {
	Dir  NodeID
	Name string
	// Path is the entry's path in the workspace, as it is after the move; "" when its directory is not in the tree.
	Path string
	// Had and Has say whether there was and is an object at the name.
	Had, Has bool
	// DirIno is the inode number of the directory.
	DirIno uint64
	// Was, WasIno and WasDir are of the object that was there: its node, 0 if the kernel knows none, its inode number,
	// and whether it is a directory.
	Was    NodeID
	WasIno uint64
	WasDir bool
}

// Engine is one workspace, open. All methods may be called at once from many goroutines.
type Engine struct {
	opt  Options
	root int // descriptor of the workspace
	tt   int // descriptor of .tt
	hold int // descriptor of .tt/hold
	// devMajor and devMinor are the workspace's filesystem.
	devMajor, devMinor uint32
	log                *slog.Logger
	clock              func() time.Time
	j                  Journal
	blobs              *cas.Store

	gate gate
	// past is held for reading by who reads history, and for writing by who gives up some of it; above gate.
	past   sync.RWMutex
	closed atomic.Bool
	broken atomic.Pointer[error] // a move that could be neither ended nor taken back

	// renames excludes removals of directories, and one another, from renames that lock two directories.
	renames sync.RWMutex
	// movingOf are steps of moves that have changed the records of objects: theirs go before the journal's.
	movingOf    map[*step]struct{} // +checklocks:movingMu
	movingMu    sync.RWMutex
	astray      map[OID]object // what was found at another place than its record says, by an engine that may only read; fixed once it is open
	tasks       taskTable
	owners      ownerTable
	objs        objTable
	dirs        fdCache // those that a move or a merge comes to
	nodes       nodeTable
	crowd       crowd
	places      places
	copies      copyCounter
	writers     writerTable
	passthrough atomic.Bool
	noXattrAt   atomic.Bool // the kernel has no getxattrat(2)
	arch        archiver
	archMu      sync.Mutex
	// archDone is when, in moves, a task was last archived.
	archDone  map[tasktree.TaskID]uint64 // +checklocks:archMu
	views     viewCache
	progress  atomic.Pointer[func(done, total int)]
	guard     guardTable
	shares    shareCounter
	isolated  atomic.Pointer[isolations]
	conflicts conflictTable
	classes   *classifier
	count     counters
	small     sync.Pool // *[]byte of smallBytes+1
	epochs    epochTable
	forks     forkTable
	// lower is what a fork sees where it has nothing of its own; nil for the workspace itself.
	lower *lower
	// raising is held while something of lower is made in the fork's own tree.
	raising sync.Mutex
	opens   atomic.Int64 // handles and listings not closed

	indexFailed bool // only the archiver looks at it: it was told that the journal's index fails

	pruneMu sync.RWMutex  // write: one prune or sweep, closing; read: who keeps what no record names yet; above the gate
	ending  atomic.Bool   // Close was called: a prune ends where it is
	moves   atomic.Uint64 // gives numbers to moves
	moving  atomic.Int64  // how many moves are under way
	swaps   atomic.Uint64 // counts moves at their begin and their end
	pruned  sync.Map      // tasktree.TaskID of the tasks whose images were given up
	blobMu  *sync.RWMutex // shared with forks, as the blobs are; read: a blob is put and then named in the journal; write: what the journal names is counted
}

// smallBytes is the size up to which content is kept in the journal record itself.
const smallBytes = 128 << 10

// Open opens the engine of a workspace and completes a move that was under way. Errors: Foreign, Damaged, IO.
func Open(o Options) (*Engine, error) {
	e := &Engine{opt: o, lower: o.lower, j: o.Journal, blobs: o.Blobs, log: o.Logger, clock: o.Clock, root: -1, tt: -1, hold: -1, movingOf: map[*step]struct{}{}}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	if e.clock == nil {
		e.clock = time.Now
	}
	if e.blobMu = o.blobMu; e.blobMu == nil {
		e.blobMu = new(sync.RWMutex)
	}
	e.classes, e.arch.room = newClassifier(o.Classes), e.blobs.Room
	e.small.New = func() any { b := make([]byte, smallBytes+1); return &b }
	ok := false
	defer func() {
		if !ok {
			_ = e.closeForks()
			e.stopArchiver()
			e.closeFDs()
		}
	}()
	var err error
	if e.root, err = unix.FcntlInt(uintptr(o.Root), unix.F_DUPFD_CLOEXEC, 3); err != nil {
		return nil, fail("open", "workspace", IO, err)
	}
	if e.tt, err = unix.FcntlInt(uintptr(o.Store), unix.F_DUPFD_CLOEXEC, 3); err != nil {
		return nil, fail("open", ".tt", IO, err)
	}
	if err := unix.Mkdirat(e.tt, "hold", 0o700); err != nil && err != unix.EEXIST {
		if !o.ReadOnly {
			return nil, fail("open", ".tt/hold", IO, err)
		}
	}
	if e.hold, err = openAt(e.tt, "hold", unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0); err != nil {
		return nil, fail("open", ".tt/hold", IO, err)
	}
	var rootStat, holdStat Stat
	if err := statAt(e.root, "", &rootStat); err != nil {
		return nil, fail("open", "workspace", IO, err)
	}
	if err := statAt(e.hold, "", &holdStat); err != nil {
		return nil, fail("open", ".tt/hold", IO, err)
	}
	if rootStat.Dev_major != holdStat.Dev_major || rootStat.Dev_minor != holdStat.Dev_minor {
		return nil, fail("open", ".tt/hold", Foreign, fmt.Errorf("it must be on the filesystem of the workspace, since removed files are moved into it"))
	}
	e.devMajor, e.devMinor = rootStat.Dev_major, rootStat.Dev_minor
	e.initNodes(&rootStat)
	if o.Repair != nil {
		if err := e.repair(); err != nil {
			return nil, err
		}
	}
	if err := e.loadObjects(); err != nil {
		return nil, err
	}
	if err := e.loadTasks(); err != nil {
		return nil, err
	}
	if err := e.loadIsolation(); err != nil {
		return nil, err
	}
	if err := e.loadGuard(&o); err != nil {
		return nil, err
	}
	if err := e.loadEpochs(); err != nil {
		return nil, err
	}
	if err := e.loadRoot(); err != nil {
		return nil, err
	}
	if o.Cut && o.Repair == nil {
		if err := e.findAstray(); err != nil {
			return nil, err
		}
	}
	if !o.ReadOnly {
		if err := e.endFills(); err != nil {
			return nil, err
		}
		end := e.recoverMoves
		if o.Repair != nil {
			end = e.endMoves
		}
		if err := end(); err != nil {
			return nil, err
		}
		e.startArchiver()
	}
	if err := e.openForks(); err != nil {
		return nil, err
	}
	ok = true
	return e, nil
}

// Close waits for the operations under way, ends the archiver and lets the descriptors go. Everything was in the
// journal before.
func (e *Engine) Close() error {
	e.ending.Store(true)
	forks := e.closeForks()
	e.stopArchiver()
	e.pruneMu.Lock()
	defer e.pruneMu.Unlock()
	defer e.exclusive()()
	if e.closed.Load() {
		return nil
	}
	e.closeMapped()
	err := errors.Join(forks, e.saveGuard(true))
	e.closed.Store(true)
	e.closeNodes()
	e.closeFDs()
	return err
}

func (e *Engine) closeFDs() {
	if e.lower != nil {
		e.lower.v.dirs.open(0)
	}
	for _, fd := range []*int{&e.root, &e.tt, &e.hold} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
}

// point is where tests stop the world.
func (e *Engine) point(name string) error {
	if e.opt.point != nil {
		return e.opt.point(name)
	}
	return nil
}

// Caller is on whose behalf an operation is done.
type Caller struct {
	Agent tasktree.Agent
	UID   uint32
	GID   uint32
	// Umask is taken off the mode of what the caller makes, where the directory has no default ACL.
	Umask uint32
	// Proc is the calling process; of reads and writes, the one that opened the file counts.
	Proc guard.Process
	// Entered is the task in which the caller's process was first seen; 0: it is never fenced.
	Entered tasktree.TaskID
}
