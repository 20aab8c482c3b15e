package overlay

import (
	"errors"
	"os"

	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// forkPath is what is below forks, as a path for the calls that only take those.
func (e *Engine) forkPath(name string) string { return procPath(e.tt) + "/forks/" + name }

func (f *ForkInfo) part() []byte { return key(kPart, f.num) }

func (f *ForkInfo) encode() []byte {
	var e enc
	e.u(f.num)
	e.u(uint64(f.epoch))
	e.s(string(f.Agent))
	e.s(string(f.Parent))
	e.u(uint64(f.Under))
	e.flag(f.At != nil)
	if f.At != nil {
		e.u(uint64(*f.At))
	}
	e.i(stamp(f.Created))
	return e.b
}

func decodeFork(name ForkName, b []byte) (ForkInfo, error) {
	d := dec{b: b}
	f := ForkInfo{num: d.u(), epoch: epoch(d.u())}
	f.Name, f.Agent, f.Parent, f.Under = name, tasktree.Agent(d.s()), tasktree.Agent(d.s()), tasktree.TaskID(d.u())
	if d.flag() {
		at := tasktree.TaskID(d.u())
		f.At = &at
	}
	f.Created = unstamp(d.i())
	return f, d.err
}

// forkDirFDs is how many directories a fork keeps open of its own, and of what it was made of.
const forkDirFDs = 256

// openFork opens the engine of a fork.
func (e *Engine) openFork(f *ForkInfo) (*Engine, error) {
	var runs []part
	if f.At != nil {
		runs = append(runs, part{Step: tasktree.Step{Task: f.run()}})
	}
	v, err := e.viewOf(nil, f.epoch, runs...)
	if err != nil {
		return nil, err
	}
	if f.At != nil {
		v.over = f.run()
	}
	if v.dirs = new(fdCache); e.opt.DirFDs != 0 {
		v.dirs.open(min(e.opt.DirFDs, forkDirFDs))
	} else {
		v.dirs.open(forkDirFDs)
	}
	store, err := openAt(e.tt, "forks/"+string(f.Name), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fail("open a fork", string(f.Name), Damaged, err)
	}
	defer unix.Close(store)
	root, err := openAt(store, "tree", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fail("open a fork", string(f.Name), Damaged, err)
	}
	defer unix.Close(root)
	o := e.opt
	o.Keeper = nil // its nodes have numbers of their own
	o.Root, o.Store, o.Journal, o.lower = root, store, e.j.Sub(f.part()), &lower{v}
	o.blobMu = e.blobMu
	if o.fork = f.Name; e.opt.fork != "" {
		o.fork = e.opt.fork + "/" + f.Name
	}
	o.DirFDs, o.Guard, o.Notify, o.ForkNotify = forkDirFDs, e.guard.on.Load(), nil, nil
	if notify := e.opt.ForkNotify; notify != nil {
		o.Notify = notify(f.Name)
		o.ForkNotify = func(n ForkName) Notifier { return notify(f.Name + "/" + n) }
	}
	child, err := Open(o)
	if err == nil {
		child.passthrough.Store(e.passthrough.Load())
	}
	return child, err
}

// openForks opens the forks that there are, and ends what a death left of others. A fork that cannot be opened keeps
// nobody from the workspace.
func (e *Engine) openForks() error {
	t := &e.forks
	t.changing.Lock()
	defer t.changing.Unlock()
	all := map[ForkName]*fork{}
	err := e.j.Scan([]byte{kFork}, func(k, v []byte) error {
		f, err := decodeFork(ForkName(k[1:]), v)
		all[f.Name] = &fork{ForkInfo: f}
		t.last = max(t.last, f.num)
		return err
	})
	if err != nil {
		return fail("open", "the forks", Damaged, err)
	}
	for _, f := range all {
		child, err := e.openFork(&f.ForkInfo)
		if err != nil {
			e.log.Error("a fork cannot be opened; the workspace is served without it", "fork", f.Name, "err", err)
		}
		t.opened(f, child, err)
	}
	t.mu.Lock()
	t.all = all
	t.mu.Unlock()
	if !e.opt.ReadOnly {
		e.cleanForks()
	}
	return nil
}

// cleanForks has go what no fork needs. Preconditions: forks.changing is held.
func (e *Engine) cleanForks() {
	release := e.exclusiveAside()
	e.trimEpochs()
	release()
	gone, err := e.leftovers(func(name string) bool { return name[0] != '.' && e.forks.get(ForkName(name)) == nil })
	for _, name := range gone {
		err = errors.Join(err, e.forkGone(name))
	}
	if err != nil {
		e.log.Warn("what is left of a fork could not be set aside", "err", err)
	}
	e.tidy()
}

// leftovers are the names in the directory of forks that f is true for.
func (e *Engine) leftovers(f func(name string) bool) (out []string, err error) {
	all, err := os.ReadDir(procPath(e.tt) + "/forks")
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for _, ent := range all {
		if f(ent.Name()) {
			out = append(out, ent.Name())
		}
	}
	return out, err
}

// tidy has endEpochs done in the background; where tests stop the world at points, by the caller.
func (e *Engine) tidy() {
	if (e.opt.point == nil || e.opt.tidyAside) && e.arch.tidy != nil {
		select {
		case e.arch.tidy <- struct{}{}:
		default: // somebody has asked already
		}
		return
	}
	if err := e.endEpochs(); err != nil {
		e.log.Warn("what was kept for forks stays until the next mount", "err", err)
	}
}

// closeForks closes those that there are; no others are made any more, since the engine is ending.
func (e *Engine) closeForks() error {
	t := &e.forks
	t.changing.Lock() // whoever is making one
	all := t.list()
	t.changing.Unlock()
	var errs []error
	for _, f := range all {
		f.work.Lock()
		if f.e != nil {
			errs = append(errs, f.e.Close())
			t.opened(f, nil, fail("fork", string(f.Name), Closed, nil))
		}
		f.work.Unlock()
	}
	return errors.Join(errs...)
}
