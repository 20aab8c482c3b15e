package overlay

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ttfs/ttfs/journal"
	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// A fork is an Engine of its own over a frozen lower tree: see origin.go for what it sees, epoch.go for how its parent
// stays frozen. Below the parent's `.tt` it has
//
//	forks/NAME/tree   the upper: what it raised or made
//	forks/NAME/hold   its holding area
//	forks/NAME/forks  its own forks
//
// and in the parent's journal a record and a part of its own. What is in forks without a record is garbage of a death.

// ForkName names a fork within the engine that it was made in: 1 to 64 characters of [A-Za-z0-9._-], not starting with a
// dot.
type ForkName string

// Valid says whether a fork can have the name.
func (n ForkName) Valid() bool {
	return len(n) > 0 && len(n) <= 64 && n[0] != '.' && strings.IndexFunc(string(n), func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-')
	}) < 0
}

// ForkOptions say what to fork.
type ForkOptions struct {
	Name ForkName
	// Agent works in the fork; Parent is on whose behalf it was made.
	Agent, Parent tasktree.Agent
	// Under is the parent's task that the fork belongs to; 0: its active one.
	Under tasktree.TaskID
	// At makes the fork of the workspace as it was at the end of a task, 0: before the parent's first; nil: as it is.
	At *tasktree.TaskID
}

// ForkInfo is what is known of a fork.
type ForkInfo struct {
	ForkOptions
	Created time.Time

	num   uint64 // of its part of the journal
	epoch epoch
}

// The letters of the keys of forks in the journal of their parent.
const (
	kFork = 'F' // name   -> what is known of it
	kPart = 'J' // number -> the fork's part of the journal, with all letters again
)

// atBit tells the run that has the images of a fork of a past task: they lie over those of its epoch.
const atBit = tasktree.TaskID(1) << 62

func (f *ForkInfo) run() tasktree.TaskID { return tasktree.TaskID(f.num) | atBit }

// forkTable is the forks that there are. A merge holds its fork's work and nothing of the table: who makes, lists or looks for
// others meanwhile does not wait for it.
type forkTable struct {
	// changing is held by who makes a fork or takes one out, from when its epoch is chosen until all tells of it. It may wait
	// for the moves under way, so nobody holds it who only looks. A fork's work is taken before it.
	changing sync.Mutex

	mu   sync.Mutex         // held for no time
	all  map[ForkName]*fork // +checklocks:mu changed under changing
	last uint64             // +checklocks:changing
}

type fork struct {
	ForkInfo
	work sync.Mutex // one merge of it, or its discarding
	e    *Engine    // changed under the table's mu and work
	err  error      // why it is not open
	// refused is why the last merge was refused.
	refused []ConflictEntry // +checklocks:forkTable.mu
}

// get is a fork of a name; nil: there is none.
func (t *forkTable) get(name ForkName) *fork {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all[name]
}

// hold is a fork of a name, with its work held; nil, and nothing held: there is none.
func (t *forkTable) hold(name ForkName) *fork {
	for {
		f := t.get(name)
		if f == nil {
			return nil
		}
		f.work.Lock()
		if t.get(name) == f {
			return f
		}
		f.work.Unlock() // it was discarded meanwhile
	}
}

// list is every fork.
func (t *forkTable) list() []*fork {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Values(t.all))
}

// opened notes the engine of a fork, or why there is none. Preconditions: f.work is held, or nobody knows f.
func (t *forkTable) opened(f *fork, e *Engine, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f.e, f.err = e, err
}

// oldest is the oldest epoch that a fork needs; 0: none.
func (t *forkTable) oldest() epoch {
	var out epoch
	for _, f := range t.list() {
		if out == 0 || f.epoch < out {
			out = f.epoch
		}
	}
	return out
}

// Fork makes a fork of the workspace, in a time that does not depend on its size. Errors: Invalid for the name, Exists,
// NoTask, NoSpace, IO; nothing is left of it then. Durability: the fork is there after a death of the process.
func (e *Engine) Fork(o ForkOptions) (*Engine, error) {
	if !o.Name.Valid() {
		return nil, fail("fork", string(o.Name), Invalid, errors.New("a name is 1 to 64 letters, digits, dots, dashes and underscores, and does not start with a dot"))
	}
	began := time.Now()
	t := &e.forks
	t.changing.Lock()
	defer t.changing.Unlock()
	if e.ending.Load() {
		return nil, fail("fork", string(o.Name), Closed, nil)
	}
	if t.get(o.Name) != nil {
		return nil, fail("fork", string(o.Name), Exists, errors.New("`discard` it, or take another name"))
	}
	if o.Under == 0 {
		o.Under = e.Active(o.Parent)
	} else if _, has := e.Task(o.Under); !has {
		return nil, fail("fork", fmt.Sprintf("task %d", o.Under), NoTask, nil)
	}
	f := &fork{ForkInfo: ForkInfo{ForkOptions: o, Created: e.clock(), num: t.last + 1}}
	err := e.addFork(f)
	if err == nil {
		t.last = f.num
		if f.e, err = e.openFork(&f.ForkInfo); err != nil {
			err = errors.Join(err, e.forgetFork(f))
		}
	}
	if err != nil {
		e.cleanForks()
		return nil, err
	}
	t.mu.Lock()
	if t.all == nil {
		t.all = map[ForkName]*fork{}
	}
	t.all[o.Name] = f
	t.mu.Unlock()
	e.needEpochs()
	e.tidy()
	e.count.forks.Add(1)
	e.count.forkNanos.Add(uint64(time.Since(began)))
	e.event("fork agent=%s fork=%s parent=%s under=%d", quoted(o.Agent), o.Name, quoted(o.Parent), o.Under)
	return f.e, nil
}

// addFork records a fork of what is there now.
func (e *Engine) addFork(f *fork) error {
	defer e.exclusiveAside()()
	if err := e.mayMove("fork", MoveOptions{}); err != nil {
		return err
	}
	var err error
	if f.epoch, err = e.newEpoch(); err != nil {
		return err
	}
	if err := e.freeze(); err != nil {
		return storeError("fork", err)
	}
	var b journal.Batch
	b.DeletePrefix(f.part())
	im := newImages()
	if f.At != nil {
		if im, err = e.imagesAt(&b, f.run(), f.Parent, *f.At); err != nil {
			return err
		}
	}
	if err := e.makeForkDir(f.Name, im); err != nil {
		return storeError("fork", err)
	}
	b.Put(append([]byte{kFork}, f.Name...), f.encode())
	if err := e.point("fork"); err != nil {
		return storeError("fork", err)
	}
	return storeError("fork", e.j.Commit(&b))
}

// makeForkDir makes the directories of a fork; the root of its tree has the attributes of the workspace's.
func (e *Engine) makeForkDir(name ForkName, im *images) error {
	if err := os.RemoveAll(e.forkPath(string(name))); err != nil {
		return err
	}
	for _, dir := range []string{"forks", "forks/" + string(name), "forks/" + string(name) + "/tree"} {
		if err := unix.Mkdirat(e.tt, dir, 0o700); err != nil && !(err == unix.EEXIST && dir == "forks") {
			return err
		}
	}
	var st Stat
	if err := statAt(e.root, "", &st); err != nil {
		return err
	}
	m, err := readMeta(e.root, &st)
	if err != nil {
		return err
	}
	if was, has := im.metas[rootOID]; has {
		m = was
	}
	fd, err := openAt(e.tt, "forks/"+string(name)+"/tree", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return applyMeta(fd, &m)
}

// ForkOf is the engine of a fork; false when there is none of that name, or it could not be opened.
func (e *Engine) ForkOf(name ForkName) (*Engine, ForkInfo, bool) {
	e.forks.mu.Lock()
	defer e.forks.mu.Unlock()
	f := e.forks.all[name]
	if f == nil || f.e == nil {
		return nil, ForkInfo{}, false
	}
	return f.e, f.ForkInfo, true
}

// Forks is every fork, sorted by name; also those that could not be opened.
func (e *Engine) Forks() []ForkInfo {
	e.forks.mu.Lock()
	defer e.forks.mu.Unlock()
	var out []ForkInfo
	for _, f := range e.forks.all {
		out = append(out, f.ForkInfo)
	}
	slices.SortFunc(out, func(a, b ForkInfo) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return out
}

// Discard removes a fork, with its own forks, its tasks and all that it changed. Its parent is not touched. Errors: NoFork;
// Locked while files of it are open or it has forks, unless force is set; IO. After a death half way it is ended at the
// next open, or was not begun.
func (e *Engine) Discard(name ForkName, force bool) error {
	t := &e.forks
	f := t.hold(name)
	if f == nil {
		return fail("discard", string(name), NoFork, nil)
	}
	defer f.work.Unlock()
	if f.e != nil {
		if err := f.e.idle(); err != nil && !force {
			return fail("discard", string(name), Locked, err)
		}
		if err := f.e.Close(); err != nil {
			e.log.Warn("a fork that is discarded was not closed in good order", "fork", name, "err", err)
		}
	}
	t.changing.Lock()
	defer t.changing.Unlock()
	if err := e.forgetFork(f); err != nil {
		child, again := e.openFork(&f.ForkInfo)
		t.opened(f, child, again)
		return err
	}
	t.mu.Lock()
	delete(t.all, name)
	t.mu.Unlock()
	e.event("discard agent=%s fork=%s", quoted(f.Agent), name)
	e.cleanForks()
	return nil
}

// idle says why a fork is in use.
func (e *Engine) idle() error {
	if nested := len(e.forks.list()); nested > 0 {
		return fmt.Errorf("it has %d forks of its own: discard those first, or use force", nested)
	}
	if n := e.opens.Load(); n > 0 {
		return fmt.Errorf("%d files of it are open: end the programs that use it, or use force", n)
	}
	return nil
}

// forgetFork takes a fork out of the journal: from then on it is not there. The copies that were made for it go.
func (e *Engine) forgetFork(f *fork) error {
	im, err := e.readImages(f.run())
	if err != nil {
		return err
	}
	var b journal.Batch
	b.Delete(append([]byte{kFork}, f.Name...))
	b.DeletePrefix(f.part())
	im.drop(&b, nil, f.run())
	b.DeletePrefix(key(kLinks, uint64(f.run())))
	if err := e.point("discard"); err != nil {
		return storeError("discard", err)
	}
	if err := e.j.Commit(&b); err != nil {
		return storeError("discard", err)
	}
	e.dropCopies(im)
	return nil
}
