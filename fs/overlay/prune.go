package overlay

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/ttfs/ttfs/journal"
	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// Pruning gives up the images of old tasks; which may go together is tasktree's to say. It goes task by task: one record
// says that the task is pruned and drops its images, so that a death leaves a task either whole or pruned. Only then is
// given back what nothing refers to any more (sweep.go). The live tree is not touched by any of it.

// pruneRest is how long an unfinished task must have been left alone before it can be pruned: somebody is at work in it.
const pruneRest = time.Hour

// PruneOptions say how much history is to be kept. The zero value gives up none, and gives back only what nothing refers to.
type PruneOptions struct {
	// Before: tasks in which nothing has happened since then go. The zero time: none goes for its age.
	Before time.Time
	// Keep is Before as an age; 0: not given. The later of both counts.
	Keep time.Duration
	// MaxBytes is what the store may take: the oldest tasks go until it does, as far as possible. 0: no limit.
	MaxBytes int64
	// FreeBytes is the free space on the store's disk to be reached in the same way. 0: no matter.
	FreeBytes int64
	// Spare bounds the last two: what is younger stays. 0: no bound but that of unfinished tasks.
	Spare time.Duration
	// DryRun changes nothing and says what would go.
	DryRun bool
}

// PruneResult is what a prune did, or would do. Units: bytes.
type PruneResult struct {
	// Tasks were given up, in this order.
	Tasks []tasktree.TaskID
	// Held, Copies and Blobs are what nothing referred to any more: inodes set aside, copies of bytes, blobs and chunks.
	Held, Copies, Blobs int
	// Before and After are the size of the store; After of a dry run is an estimate.
	Before, After int64
}

// Prune gives up the oldest tasks' images as far as the options say, and gives their space back. The mount goes on meanwhile.
// Errors: NoSpace, Damaged, IO, ReadOnly; what was pruned before the error stays so, and the tasks that are left are exact.
func (e *Engine) Prune(o PruneOptions) (PruneResult, error) {
	if e.opt.ReadOnly && !o.DryRun {
		return PruneResult{}, fail("prune", "", ReadOnly, nil)
	}
	defer e.tidy()
	e.pruneMu.Lock()
	defer e.pruneMu.Unlock()
	if o.Keep > 0 {
		if at := e.clock().Add(-o.Keep); at.After(o.Before) {
			o.Before = at
		}
	}
	var res PruneResult
	var err error
	if res.Before, err = e.storeBytes(); err != nil {
		return res, err
	}
	res.After = res.Before
	c, err := e.newChoice(o)
	if err != nil {
		return res, err
	}
	if o.DryRun {
		res.Tasks = c.next(res.Before)
		res.After = max(0, res.Before-c.sum(res.Tasks))
		return res, nil
	}
	for first := true; ; first = false {
		tasks := c.next(res.After)
		if len(tasks) == 0 && !first {
			break
		}
		for i, id := range tasks {
			e.far(i, len(tasks))
			gone, err := e.pruneTask(id)
			if err != nil {
				return res, err
			}
			if gone {
				res.Tasks = append(res.Tasks, id)
			}
		}
		if err := e.giveBack(&res); err != nil {
			return res, err
		}
		if len(tasks) == 0 {
			break
		}
		if res.After, err = e.storeBytes(); err != nil {
			return res, err
		}
	}
	if res.After, err = e.storeBytes(); err != nil {
		return res, err
	}
	if len(res.Tasks) > 0 {
		e.event("prune tasks=%d bytes=%d left=%d", len(res.Tasks), res.Before-res.After, res.After)
	}
	return res, nil
}

// storeBytes is what the store takes on the disk: the holding area, the journal and the blobs. Preconditions: pruneMu is held.
func (e *Engine) storeBytes() (int64, error) {
	total := e.j.Stats().SegmentBytes + e.blobs.Stats().DiskBytes
	err := e.eachHeld(func(_ string, st *Stat) error {
		total += int64(st.Blocks) * 512
		return nil
	})
	return total, err
}

// choice is the search for the tasks that go.
type choice struct {
	e    *Engine
	o    PruneOptions
	ages []time.Time // of all tasks, ascending
	size map[tasktree.TaskID]int64
	aged bool // what goes for its age has gone
}

func (e *Engine) newChoice(o PruneOptions) (*choice, error) {
	c := &choice{e: e, o: o, size: map[tasktree.TaskID]int64{}}
	if o.MaxBytes <= 0 && o.FreeBytes <= 0 && !o.DryRun {
		return c, nil
	}
	for _, k := range e.Tasks() {
		if k.Pruned {
			continue
		}
		n, err := e.taskBytes(k.ID)
		if err != nil {
			return nil, err
		}
		c.size[k.ID] = n
		c.ages = append(c.ages, k.Active())
	}
	slices.SortFunc(c.ages, time.Time.Compare)
	return c, nil
}

// taskBytes is about what the images of a task take, each blob for itself.
func (e *Engine) taskBytes(id tasktree.TaskID) (int64, error) {
	if err := e.enterPast(); err != nil {
		return 0, err
	}
	defer e.leavePast()
	im, err := e.readImages(id)
	if err != nil {
		return 0, err
	}
	var n int64
	var st Stat
	for _, o := range im.entries {
		n += 64
		if o != 0 && statAt(e.hold, holdName(o), &st) == nil {
			n += int64(st.Blocks) * 512
		}
	}
	for _, c := range im.contents {
		for _, p := range c.pieces {
			switch {
			case p.inRecord():
				n += int64(len(p.data))
			case p.kind != pieceHole:
				n += p.size
			}
		}
	}
	return n, nil
}

// next is what goes now: first what is too old; then, when the store of this size is too big, the oldest that are about
// enough.
func (c *choice) next(storeBytes int64) []tasktree.TaskID {
	if !c.aged {
		c.aged = true
		if !c.o.Before.IsZero() {
			if all := c.plan(c.o.Before); len(all) > 0 {
				return all
			}
		}
	}
	excess := c.excess(storeBytes)
	if excess <= 0 {
		return nil
	}
	// The later the horizon, the more goes.
	at := sort.Search(len(c.ages), func(i int) bool { return c.sum(c.plan(c.horizon(i))) >= excess })
	if at == len(c.ages) {
		at--
	}
	for ; at >= 0 && at < len(c.ages); at++ {
		if all := c.plan(c.horizon(at)); len(all) > 0 {
			return all
		}
	}
	return nil
}

// horizon is just after the age at an index, bounded by Spare.
func (c *choice) horizon(i int) time.Time {
	h := c.ages[i].Add(1)
	if newest := c.e.clock().Add(-c.o.Spare); h.After(newest) && c.o.Spare > 0 {
		return newest
	}
	return h
}

// excess is how many bytes too many the store takes.
func (c *choice) excess(storeBytes int64) int64 {
	var n int64
	if c.o.MaxBytes > 0 {
		n = storeBytes - c.o.MaxBytes
	}
	if c.o.FreeBytes > 0 {
		var fs unix.Statfs_t
		if err := retry(func() error { return unix.Fstatfs(c.e.hold, &fs) }); err == nil {
			n = max(n, c.o.FreeBytes-int64(fs.Bavail)*fs.Bsize)
		}
	}
	return n
}

func (c *choice) sum(tasks []tasktree.TaskID) (n int64) {
	for _, id := range tasks {
		n += c.size[id]
	}
	return n
}

// plan is what goes when all goes in which nothing has happened since a moment.
func (c *choice) plan(before time.Time) []tasktree.TaskID {
	t := &c.e.tasks
	t.mu.Lock()
	defer t.mu.Unlock()
	rested := c.e.clock().Add(-pruneRest)
	return t.tree.PlanPrune(func(k tasktree.Task) bool {
		at := k.Active()
		if w := t.written[k.Agent]; !k.Sealed && w.After(at) {
			at = w
		}
		return at.Before(before) && (k.Sealed || at.Before(rested) && len(c.e.writers.of(k.Agent)) == 0)
	})
}

// pruneTask gives up the images of one task, unless a move has come in between that needs them.
func (e *Engine) pruneTask(id tasktree.TaskID) (bool, error) {
	k, _ := e.Task(id)
	files := e.FileCount(k)
	if err := e.enterPast(); err != nil {
		return false, err
	}
	swaps := e.swaps.Load()
	im, err := e.readImages(id)
	e.leavePast()
	if err != nil {
		return false, err
	}
	gone, err := e.dropTask(id, swaps, files, im)
	if !gone || err != nil {
		return gone, err
	}
	e.dropCopies(im)
	return true, nil
}

// dropTask writes that a task is pruned. Nothing else goes on for the one record.
func (e *Engine) dropTask(id tasktree.TaskID, swaps uint64, files int, im *images) (bool, error) {
	shares, err := e.deadShares(id, im)
	if err != nil {
		return false, err
	}
	release, ok := e.exclusiveNow()
	if !ok {
		return false, nil // the next prune sees to it
	}
	defer release()
	t := &e.tasks
	t.mu.Lock()
	defer t.mu.Unlock()
	k, has := t.tree.Get(id)
	switch {
	case e.closed.Load() || e.ending.Load():
		return false, fail("prune", "", Closed, nil)
	case e.broken.Load() != nil:
		return false, fail("prune", "", IO, fmt.Errorf("a move could not be ended; unmount and mount again: %w", *e.broken.Load()))
	case !has || k.Pruned || e.movedSince(swaps):
		return false, nil // the next prune sees to it
	case !k.Sealed && len(e.writers.of(k.Agent)) > 0:
		return false, nil
	}
	if k.Ended.IsZero() {
		k.Ended = k.Active()
	}
	k.Sealed, k.Pruned, k.Files = true, true, files
	var b journal.Batch
	b.Put(key(kTask, uint64(id)), encodeTask(&k))
	im.drop(&b, nil, id)
	for _, s := range shares {
		b.Delete(s)
	}
	if err := e.point("prune"); err != nil {
		return false, storeError("prune", err)
	}
	if err := e.j.CommitFreeing(&b); err != nil {
		return false, storeError("prune", err)
	}
	_, err = t.tree.Update(id, func(was *tasktree.Task) { *was = k })
	t.endRun(id)
	e.pruned.Store(id, struct{}{})
	e.forgetView()
	e.count.pruned.Add(1)
	return true, treeError("prune", err)
}

// isPruned says whether the images of a task were given up. It takes no lock: images are read under any.
func (e *Engine) isPruned(id tasktree.TaskID) bool {
	_, is := e.pruned.Load(id)
	return is
}

func (e *Engine) forgetView() {
	e.views.mu.Lock()
	e.views.view = nil
	e.views.mu.Unlock()
}

// touchTask notes that a task is in use, which keeps it from being pruned for its age. A move that is taken back leaves it.
func (e *Engine) touchTask(b *journal.Batch, id tasktree.TaskID) {
	k, err := e.updateTask(id, func(k *tasktree.Task) { k.Touched = e.clock() })
	if err == nil {
		b.Put(key(kTask, uint64(id)), encodeTask(&k))
	}
}

// touchedEvery is how often it is written down that a task which goes on was written to.
const touchedEvery = 10 * time.Minute

// keepTouched writes down when the tasks that go on were last written to. Losing it makes them look older by touchedEvery.
func (e *Engine) keepTouched() error {
	t := &e.tasks
	var touched []tasktree.TaskID
	t.mu.Lock()
	for a, at := range t.written {
		k, has := t.tree.Get(t.tree.Active(a))
		if !has || k.Sealed || at.Sub(k.Active()) < touchedEvery {
			continue
		}
		if _, err := t.tree.Update(k.ID, func(k *tasktree.Task) { k.Touched = at }); err == nil {
			touched = append(touched, k.ID)
		}
	}
	t.mu.Unlock()
	for _, id := range touched {
		if err := e.recordTask(id); err != nil {
			return err
		}
	}
	return nil
}
