package overlay

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ttfs/ttfs/journal"
	"github.com/ttfs/ttfs/tasktree"
)

// An epoch is a moment at which forks were made. What is touched first after it keeps its before-image for it, in the
// same record as for the task: an epoch is a run, whose images have its number, with epochBit, where those of a task have
// the task's. Only the newest epoch gets images. So what a thing was at an epoch is told by the first image from that
// epoch on, and where there is none, by the thing itself.
//
// An epoch that no fork needs goes (epoch_trim.go). With no fork there is none, and nothing is kept.

// epochBit tells the number of an epoch from that of a task.
const epochBit = tasktree.TaskID(1) << 63

// kEpoch is the letter of the keys of epochs: number -> nothing yet.
const kEpoch = 'e'

// kLinks is the letter of the keys of numbers of links: epoch, object -> how many names a file had.
const kLinks = 'l'

// epoch numbers an epoch; it rises.
type epoch uint64

func (n epoch) run() tasktree.TaskID { return tasktree.TaskID(n) | epochBit }

type epochTable struct {
	// newest is where images go; nil when there is no fork.
	newest atomic.Pointer[run]

	mu     sync.RWMutex
	live   []epoch        // +checklocks:mu ascending
	last   epoch          // +checklocks:mu the greatest number that was ever given
	dead   []epoch        // +checklocks:mu those whose images nobody needs any more
	needed map[epoch]bool // +checklocks:mu by forks
}

// current is the run of the newest epoch; 0: there is none.
func (t *epochTable) current() uint64 {
	if r := t.newest.Load(); r != nil {
		return uint64(r.id)
	}
	return 0
}

// from is the epochs from one on, oldest first.
func (t *epochTable) from(first epoch) []epoch {
	t.mu.RLock()
	defer t.mu.RUnlock()
	i, _ := slices.BinarySearch(t.live, first)
	return t.live[i:]
}

func (e *Engine) loadEpochs() error {
	t := &e.epochs
	t.mu.Lock()
	defer t.mu.Unlock()
	err := e.j.Scan([]byte{kEpoch}, func(k, _ []byte) error {
		t.live = append(t.live, epoch(keyNum(k, 0)))
		return nil
	})
	if err != nil || len(t.live) == 0 {
		return storeError("open", err)
	}
	t.last = t.live[len(t.live)-1]
	r, err := e.readRun(t.last.run(), "")
	if err != nil {
		return err
	}
	t.newest.Store(r)
	return nil
}

// newEpoch makes what is there now an epoch, or finds that the newest is: nothing has changed since. What fails, or is of
// no use in the end, is taken back by trimEpochs. Preconditions: exclusive.
func (e *Engine) newEpoch() (epoch, error) {
	t := &e.epochs
	if was := t.newest.Load(); was != nil && was.untouched() {
		return epoch(was.id &^ epochBit), nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.last + 1
	var b journal.Batch
	b.Put(key(kEpoch, uint64(n)), nil)
	if err := e.j.Commit(&b); err != nil {
		return 0, storeError("fork", err)
	}
	t.last = n
	t.live = append(slices.Clone(t.live), n)
	t.newest.Store(newRun(n.run(), ""))
	return n, nil
}

// untouched says whether a run has no images.
func (r *run) untouched() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.entries) == 0 && len(r.metas) == 0 && len(r.contents) == 0
}

// freeze keeps, for the newest epoch, all that a program could change without being seen. Preconditions: exclusive.
func (e *Engine) freeze() error {
	for _, a := range e.writers.agents() {
		e.sweepMapped(a, true)
	}
	for _, h := range e.writers.everybody() {
		if err := e.freezeWriter(h); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) freezeWriter(h *Handle) error {
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	r := e.epochs.newest.Load()
	// No task has touched anything by this: only the epoch gets an image.
	ch := &change{e: e, firsts: firsts{run: r}, epoch: &firsts{run: r}}
	if err := ch.contentOf(ch.epoch, h.n, h.fd, 0, 1<<62); err != nil {
		return err
	}
	return ch.commit()
}

// imageOf is the first image of an entry or of metadata from an epoch on.
func (e *Engine) imageOf(since epoch, keyOf func(tasktree.TaskID) []byte) ([]byte, bool, error) {
	for _, n := range e.epochs.from(since) {
		v, found, err := e.j.Get(keyOf(n.run()))
		if err != nil {
			return nil, false, storeError("look into a fork", err)
		}
		if found {
			return v, true, nil
		}
	}
	return nil, false, nil
}

// entryAt is what was at a name at an epoch, if it was touched since.
func (e *Engine) entryAt(since epoch, at spot) (OID, bool, error) {
	v, found, err := e.imageOf(since, func(t tasktree.TaskID) []byte { return entryKey(t, at) })
	if err != nil || !found {
		return 0, false, err
	}
	d := dec{b: v}
	id := OID(d.u())
	if d.err != nil {
		return 0, false, fail("look into a fork", at.name, Damaged, d.err)
	}
	return id, true, nil
}

// metaAt is the metadata of an object at an epoch, if it was touched since.
func (e *Engine) metaAt(since epoch, id OID) (meta, bool, error) {
	v, found, err := e.imageOf(since, func(t tasktree.TaskID) []byte { return metaKey(t, id) })
	if err != nil || !found {
		return meta{}, false, err
	}
	m, err := decodeMeta(v)
	if err != nil {
		return meta{}, false, fail("look into a fork", "", Damaged, err)
	}
	return m, true, nil
}

// sizeAt is the size of a file at an epoch, if its content was touched since.
func (e *Engine) sizeAt(since epoch, id OID) (int64, bool, error) {
	v, found, err := e.imageOf(since, func(t tasktree.TaskID) []byte { return contentKey(t, id) })
	if err != nil || !found {
		return 0, false, err
	}
	d := dec{b: v}
	size := int64(d.u())
	if d.err != nil {
		return 0, false, fail("look into a fork", "", Damaged, d.err)
	}
	return size, true, nil
}

// linksAt is how many names a file had at an epoch, if one came or went since; over is a run that knows better.
func (e *Engine) linksAt(since epoch, over tasktree.TaskID, id OID) (uint32, bool, error) {
	v, found, err := e.j.Get(linksKey(over, id))
	if err == nil && !found {
		v, found, err = e.imageOf(since, func(t tasktree.TaskID) []byte { return linksKey(t, id) })
	}
	if err != nil || !found {
		return 0, false, err
	}
	d := dec{b: v}
	n := uint32(d.u())
	if d.err != nil {
		return 0, false, fail("look into a fork", "", Damaged, d.err)
	}
	return n, true, nil
}

func linksKey(t tasktree.TaskID, id OID) []byte { return key(kLinks, uint64(t), uint64(id)) }

// links keeps for the newest epoch how many names a file has, before one comes or goes. Preconditions: of what loses a name,
// n.mu is held.
func (ch *change) links(n *node) error {
	if n == nil || n.dir != nil || ch.epoch.made(n) {
		return nil
	}
	id, err := ch.e.oidOf(n)
	for _, k := range ch.numbers {
		if k.n == n {
			id = k.id
		}
	}
	if err == nil && id == 0 {
		id, err = ch.self(n)
	}
	if err != nil || id == 0 {
		return err
	}
	k := linksKey(ch.epoch.run.id, id)
	if _, has, err := ch.e.j.Get(k); has || err != nil {
		return storeError("count the links before", err)
	}
	var st Stat
	if err := ch.e.statNode(n, &st); err != nil {
		return err
	}
	if ch.e.inHold(id, n.key) && st.Nlink > 0 {
		st.Nlink--
	}
	if n.from != nil {
		n.from.shows(&st)
	}
	ch.b.Put(k, encodeNumber(uint64(st.Nlink)))
	return nil
}

// entriesAt calls f for every entry of a directory that was touched since an epoch, with what was there then.
func (e *Engine) entriesAt(since epoch, dir OID, f func(name string, id OID)) error {
	seen := map[string]bool{}
	for _, n := range e.epochs.from(since) {
		prefix := key(kEntry, uint64(n.run()), uint64(dir))
		err := e.j.Scan(prefix, func(k, v []byte) error {
			name := string(k[len(prefix):])
			d := dec{b: v}
			if id := OID(d.u()); d.err == nil && !seen[name] {
				seen[name] = true
				f(name, id)
			}
			return d.err
		})
		if err != nil {
			return storeError("list in a fork", err)
		}
	}
	return nil
}

// contentsAt is the images of a file's content from an epoch on, newest first: each laid over the one before gives what
// the file was then. Only pieces that have bytes of [from, to).
func (e *Engine) contentsAt(since epoch, id OID, from, to int64) ([]*content, error) {
	var out []*content
	epochs := e.epochs.from(since)
	for i := len(epochs) - 1; i >= 0; i-- {
		t := epochs[i].run()
		v, found, err := e.j.Get(contentKey(t, id))
		if err != nil {
			return nil, storeError("read in a fork", err)
		}
		if !found {
			continue
		}
		d := dec{b: v}
		c := &content{size: int64(d.u())}
		if d.err != nil {
			return nil, fail("read in a fork", "", Damaged, d.err)
		}
		err = e.j.Scan(key(kPiece, uint64(t), uint64(id)), func(k, v []byte) error {
			if len(k) < 25 {
				return errShort
			}
			off := int64(binary.BigEndian.Uint64(k[17:]))
			d := dec{b: v}
			d.u()
			if size := int64(d.u()); d.err == nil && (off >= to || off+size <= from) {
				return nil
			}
			p, err := decodePiece(off, v)
			c.pieces = append(c.pieces, p)
			return err
		})
		if err != nil {
			return nil, fail("read in a fork", fmt.Sprintf("object %d", id), Damaged, err)
		}
		out = append(out, c)
	}
	return out, nil
}

// agents that have handles that stay.
func (t *writerTable) agents() []tasktree.Agent {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []tasktree.Agent
	for k := range t.mapped {
		if !slices.Contains(out, k.agent) {
			out = append(out, k.agent)
		}
	}
	return out
}

// everybody's handles.
func (t *writerTable) everybody() []*Handle {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]*Handle, 0, len(t.all))
	for h := range t.all {
		out = append(out, h)
	}
	return out
}
