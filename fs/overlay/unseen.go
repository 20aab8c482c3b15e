package overlay

import (
	"sync"

	"github.com/ttfs/ttfs/journal"
	"github.com/ttfs/ttfs/tasktree"
)

// What the kernel writes by itself (writers.go) loses nothing within its agent's task. But others have tasks, too, and for them
// it counts who touched a file last (share.go). So of each handle through which a file may be written to unseen it is known
// how the file was when all that was written through it had been told. When somebody else is about to change the file, before
// a move, and when the handle or its agent's task ends, a difference was made through the handle: its task has touched
// the file again, after all that was done before. While one agent may write to a file unseen, all others are served so that they
// are seen (opening.beside), so that a difference is the one's.
//
// A file that is open so when a task begins is kept for that task although nothing may come of it. If nothing has when the
// handle ends, the task did not touch the file, and its image goes: a program's last close comes late. Until then it is in nobody's
// way; who moves it has it kept anew.

// unseenState is what is known of what a handle may have written. Its lock is a leaf.
type unseenState struct {
	mu   sync.Mutex
	left asLeft // +checklocks:mu the file when all that was written was told
	// wrote is when it showed that something was written after a move, while no task of the agent's could be written to.
	wrote uint64 // +checklocks:mu
	// idle is the task which has an image of the file only because it was open when the task began; 0: none.
	idle tasktree.TaskID // +checklocks:mu
}

func (u *unseenState) differs(st *Stat) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.left != leftAs(st)
}

func (u *unseenState) settled(st *Stat) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.left = leftAs(st)
}

// armed is settled for a file as a move left it.
func (u *unseenState) armed(st *Stat) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.left, u.wrote, u.idle = leftAs(st), 0, 0
}

func (u *unseenState) idleIn() tasktree.TaskID {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.idle
}

func (u *unseenState) setIdle(id tasktree.TaskID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.idle = id
}

// unseenOn are the handles by which a file may be written to unseen, also those that are released and mapped. Preconditions:
// n.mu is held.
func (e *Engine) unseenOn(n *node) (all []*Handle) {
	if n.file.passing > 0 {
		for h := range n.file.handles {
			if h.unseen() {
				all = append(all, h)
			}
		}
	}
	t := &e.writers
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.mapped) > 0 {
		for k, h := range t.mapped {
			if k.n == n {
				all = append(all, h)
			}
		}
	}
	return all
}

// unseenByOther says whether an agent other than one may write to a file unseen. Preconditions: n.mu is held.
func (e *Engine) unseenByOther(n *node, a tasktree.Agent) bool {
	for _, h := range e.unseenOn(n) {
		if h.agent != a {
			return true
		}
	}
	return false
}

// openRun is what the agent's active task has touched; nil when a task would begin for a change.
func (e *Engine) openRun(a tasktree.Agent) (*run, error) {
	t := &e.tasks
	t.mu.Lock()
	defer t.mu.Unlock()
	k, has := t.tree.Get(t.tree.Active(a))
	if !has || k.Sealed {
		return nil, nil
	}
	return e.runLocked(k.ID, a)
}

// wrote is a handle through which something was found written, and how the file was then.
type wrote struct {
	h  *Handle
	r  *run // of the task that has a share for it; nil: it needs none
	t  thing
	st Stat
}

// unseen puts into the record what others have written to the file unseen until now: their tasks touched it before this
// change does. Of what [from, to) of it is now, their tasks have an image then, if they had none. Preconditions: n.mu is held.
func (ch *change) unseen(n *node, from, to int64) error {
	for _, h := range ch.e.unseenOn(n) {
		if h.agent == ch.run.agent {
			h.watch.setIdle(0)
			continue
		}
		if err := ch.unseenBy(n, h, from, to); err != nil {
			return err
		}
	}
	return nil
}

func (ch *change) unseenBy(n *node, h *Handle, from, to int64) error {
	var st Stat
	if err := statAt(h.fd, "", &st); err != nil {
		return err
	}
	if !h.watch.differs(&st) {
		return nil
	}
	r, err := ch.e.openRun(h.agent)
	if err != nil {
		return err
	}
	if r == nil {
		return ch.e.wroteLater(h, &st)
	}
	if n.bornIn(r.id) { // nobody else has touched it so far
		ch.wrote = append(ch.wrote, wrote{h: h, st: st})
		return nil
	}
	id, err := ch.self(n)
	if err != nil || id == 0 {
		return err
	}
	w := wrote{h, r, thing{obj: id}, st}
	ch.wrote = append(ch.wrote, w)
	if own, _ := ch.e.owns(r, w.t); own {
		return nil // and after it touched it, nobody else has
	}
	t := &firsts{run: r}
	ch.family = append(ch.family, t)
	if err := ch.contentOf(t, n, h.fd, from, to); err != nil {
		return err
	}
	ch.e.owners.leave(w.t, ch.run.id)
	return ch.e.touchAgain(&ch.b, r.id, w.t)
}

// wroteLater keeps when it first showed that something was written through a handle after a move.
func (e *Engine) wroteLater(h *Handle, st *Stat) error {
	seq, err := e.nextSeq()
	if err != nil {
		return err
	}
	h.watch.mu.Lock()
	defer h.watch.mu.Unlock()
	if h.watch.left = leftAs(st); h.watch.wrote == 0 {
		h.watch.wrote = seq
	}
	return nil
}

// touchAgain puts into a record that a task touches a thing now.
func (e *Engine) touchAgain(b *journal.Batch, id tasktree.TaskID, t thing) error {
	seq, err := e.nextSeq()
	if err != nil {
		return err
	}
	s := share{seq, seq, seq, seq}
	v, found, err := e.j.Get(t.key(id))
	if err != nil {
		return storeError("number a change", err)
	}
	if found {
		was, err := decodeShare(v)
		if err != nil {
			return fail("number a change", "", Damaged, err)
		}
		s.first, s.madeFirst = was.first, was.madeFirst
	}
	b.Put(t.key(id), s.encode())
	return nil
}

// told is called when the record is committed.
func (w *wrote) told() {
	w.h.watch.settled(&w.st)
	w.h.watch.setIdle(0)
	if w.r != nil {
		w.r.shares(w.t)
	}
}

// accord says that a file is now as seen changes left it. Preconditions: n.mu is held.
func (e *Engine) accord(n *node) {
	all := e.unseenOn(n)
	if len(all) == 0 {
		return
	}
	var st Stat
	if statAt(all[0].fd, "", &st) != nil {
		return
	}
	e.accordAs(n, &st)
}

// accordAs is accord for who has just looked.
func (e *Engine) accordAs(n *node, st *Stat) {
	for _, h := range e.unseenOn(n) {
		h.watch.settled(st)
	}
}

// settling says why it is asked what was written.
type settling uint8

const (
	handleEnds settling = iota
	taskEnds            // the next one begins
	taskMoves           // it is taken back, or left
)

// settleUnseen tells what was written unseen through a handle which ends, or whose agent's task does, if anybody else has
// touched the file since its agent did. Where nothing was written and the task has the file for that handle alone, it is
// not the task's any more; but for a handle that ends, others of the agent may still write to it. Preconditions: as of enter,
// for the handle's agent; no node's lock is held.
func (e *Engine) settleUnseen(h *Handle, when settling) error {
	if e.closed.Load() || !h.unseen() {
		return nil
	}
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	r, err := e.openRun(h.agent)
	if err != nil || r == nil || h.n.bornIn(r.id) {
		return err
	}
	id, err := e.oidOf(h.n)
	if err != nil || id == 0 {
		return err
	}
	own, _ := e.owns(r, thing{obj: id})
	idle := h.watch.idleIn() == r.id
	if own && !idle {
		return nil
	}
	var st Stat
	if err := statAt(h.fd, "", &st); err != nil {
		return err
	}
	switch {
	case h.watch.differs(&st):
		for _, o := range e.unseenOn(h.n) {
			if o.agent == h.agent {
				o.watch.settled(&st)
				o.watch.setIdle(0)
			}
		}
		if own {
			return nil
		}
		ch, err := e.begin(Caller{Agent: h.agent})
		if err != nil {
			return err
		}
		if err := ch.content(h.n, h.fd, 0, 0); err != nil {
			return err
		}
		return ch.commit()
	case idle && when != taskMoves:
		for _, o := range e.unseenOn(h.n) {
			if when == handleEnds && o != h && o.agent == h.agent {
				return nil
			}
		}
		return e.untouch(h, r, id)
	}
	return nil
}
