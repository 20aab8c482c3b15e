package overlay

import (
	"slices"
	"sync"

	"github.com/ttfs/ttfs/journal"
	"github.com/ttfs/ttfs/tasktree"
)

// The kernel writes to a file that is open for passthrough without asking. Within a task that loses nothing: all of the
// file was kept before. So whenever an agent's active task changes, its files that are open so are kept once more: when
// a task begins, as images of the new task; after a move, for the task that the next write will begin, without one yet
// (the handle is armed). When the handle is closed, or the task begins, it shows whether anything was written.

// writerTable is the handles through which the kernel may write without the daemon seeing it.
type writerTable struct {
	mu     sync.Mutex
	all    map[*Handle]struct{}  // +checklocks:mu
	mapped map[mappedKey]*Handle // +checklocks:mu those of all that are released
	sweep  int                   // +checklocks:mu at how many of these to look whether they are mapped still

	sweeping sync.Mutex // held by the one who looks; above node.mu
}

func (t *writerTable) add(h *Handle) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[*Handle]struct{}{}
	}
	t.all[h] = struct{}{}
}

func (t *writerTable) drop(h *Handle) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, h)
}

// of is the handles of an agent.
func (t *writerTable) of(a tasktree.Agent) []*Handle {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []*Handle
	for h := range t.all {
		if h.agent == a {
			out = append(out, h)
		}
	}
	return out
}

// armed is a file as a move left it.
type armed struct {
	id   OID
	was  content
	meta meta
	seq  uint64 // when that was: who touches it later has touched what is written after the move
}

// captureWriters keeps, for the agent's new task, what it could change without being seen. Preconditions: the agent is
// claimed.
func (e *Engine) captureWriters(a tasktree.Agent) error {
	var first error
	e.sweepMapped(a, true)
	for _, h := range e.writers.of(a) {
		if err := e.captureWriter(h); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// captureAgain is captureWriters for who goes on all the same.
func (e *Engine) captureAgain(a tasktree.Agent) {
	if err := e.captureWriters(a); err != nil {
		e.log.Warn("files open for writing across the beginning of a task", "agent", a, "err", err)
	}
}

func (e *Engine) captureWriter(h *Handle) error {
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	ch, err := e.begin(Caller{Agent: h.agent})
	if err != nil {
		return err
	}
	id, err := e.oidOf(h.n)
	if err != nil || h.watch.idleIn() == ch.run.id { // by another handle
		return err
	}
	first := id == 0 || ch.run.coverage(id) == nil
	if err := ch.content(h.n, h.fd, 0, 1<<62); err != nil {
		return err
	}
	if err := ch.commitFor(h); err != nil || !first {
		return err
	}
	for _, o := range e.unseenOn(h.n) {
		if o.agent == h.agent {
			o.watch.setIdle(ch.run.id)
		}
	}
	e.accord(h.n)
	return nil
}

// armWriters keeps the files that an agent has open for passthrough writing as a move left them. Preconditions: the agent
// is claimed.
func (e *Engine) armWriters(a tasktree.Agent) {
	// First of all: what was kept before the move is of before it. To one that is found closed now, the move itself would look
	// like something written, and a task would begin for it that has the old bytes for images.
	e.tasks.turn.Lock()
	for _, h := range e.writers.of(a) {
		e.disarmed(h)
	}
	e.tasks.turn.Unlock()
	e.sweepMapped(a, true)
	for _, h := range e.writers.of(a) {
		if err := e.arm(h); err != nil {
			e.log.Warn("what is written through a file that was open across a move counts as of the task moved to", "err", err)
		}
	}
}

func (e *Engine) arm(h *Handle) error {
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	ch := &change{e: e}
	id, err := ch.self(h.n)
	if err != nil || id == 0 {
		return err
	}
	for _, k := range ch.numbers {
		if err := e.j.Commit(&ch.b); err != nil {
			return storeError("number a file", err)
		}
		e.setOID(k.n, k.id)
	}
	var st Stat
	if err := statAt(h.fd, "", &st); err != nil {
		return err
	}
	m, err := readMeta(h.fd, &st)
	if err != nil {
		return err
	}
	seq, err := e.nextSeq()
	if err != nil {
		return err
	}
	pieces, err := e.capture(h.fd, []span{{0, int64(st.Size)}})
	if err != nil {
		return err
	}
	e.tasks.turn.Lock()
	defer e.tasks.turn.Unlock()
	h.armed.Store(&armed{id: id, was: content{size: int64(st.Size), pieces: pieces}, meta: m, seq: seq})
	h.watch.armed(&st)
	return nil
}

// disarmed drops what was kept of a file that nobody wrote to. Preconditions: turn is held.
func (e *Engine) disarmed(h *Handle) {
	was := h.armed.Swap(nil)
	if was == nil {
		return
	}
	for i := range was.was.pieces {
		if p := &was.was.pieces[i]; p.kind == pieceCopy {
			e.dropCopy(p.copy)
		}
	}
}

// armedCopies are the copies that no record names yet, for a sweep.
func (e *Engine) armedCopies() map[copyID]bool {
	e.tasks.turn.Lock()
	defer e.tasks.turn.Unlock()
	e.writers.mu.Lock()
	defer e.writers.mu.Unlock()
	out := map[copyID]bool{}
	for h := range e.writers.all {
		kept := h.armed.Load()
		if kept == nil {
			continue
		}
		for _, p := range kept.was.pieces {
			if p.kind == pieceCopy {
				out[p.copy] = true
			}
		}
	}
	return out
}

// written says when an armed file was written to; 0: it was not. Preconditions: turn is held.
func (e *Engine) written(h *Handle) uint64 {
	var st Stat
	kept := h.armed.Load()
	if kept == nil || statAt(h.fd, "", &st) != nil {
		return 0
	}
	if h.watch.differs(&st) {
		if err := e.wroteLater(h, &st); err != nil {
			return kept.seq
		}
	}
	h.watch.mu.Lock()
	defer h.watch.mu.Unlock()
	return h.watch.wrote
}

// attachArmed makes what was kept of the agent's armed files images of the task that begins. It returns them.
// Preconditions: turn is held.
func (e *Engine) attachArmed(b *journal.Batch, a tasktree.Agent, id tasktree.TaskID) []*Handle {
	var out []*Handle
	seen := map[OID]bool{}
	for _, h := range e.writers.of(a) {
		kept := h.armed.Load()
		if kept == nil {
			continue
		}
		if seen[kept.id] {
			e.disarmed(h) // it was kept twice; in a later task it would be of an older time
			continue
		}
		seen[kept.id] = true
		im := newImages()
		im.contents[kept.id], im.metas[kept.id] = &kept.was, kept.meta
		im.put(b, nil, id)
		s := share{kept.seq, kept.seq, kept.seq, kept.seq}
		if at := e.written(h); at != 0 {
			s.last, s.madeLast = at, at
			h.watch.setIdle(0)
		} else {
			h.watch.setIdle(id)
		}
		b.Put(thing{obj: kept.id}.key(id), s.encode())
		out = append(out, h)
	}
	return out
}

// disarm marks in a run what attachArmed gave it.
func disarm(r *run, all []*Handle) {
	for _, h := range all {
		kept := h.armed.Swap(nil)
		cov := &covered{size: kept.was.size}
		cov.add(0, cov.size)
		r.setCoverage(kept.id, cov)
		r.markMeta(kept.id)
		r.shares(thing{obj: kept.id})
	}
}

// settleArmed begins tasks for what agents that move have written since their last move. Preconditions: the agents are claimed.
func (e *Engine) settleArmed(own *claim) error {
	for a := range own.agents {
		e.tasks.turn.Lock()
		written := slices.ContainsFunc(e.writers.of(a), func(h *Handle) bool { return e.written(h) != 0 })
		e.tasks.turn.Unlock()
		if !written {
			continue
		}
		if _, err := e.enter(Caller{Agent: a}); err != nil {
			return err
		}
	}
	return nil
}

// settleWriter ends an armed handle: what was written through it after the move begins a task by itself. Preconditions:
// as of enter, for the handle's agent.
func (e *Engine) settleWriter(h *Handle) {
	if e.closed.Load() || h.armed.Load() == nil {
		return
	}
	e.tasks.turn.Lock()
	written := e.written(h)
	e.tasks.turn.Unlock()
	if written != 0 {
		if _, err := e.enter(Caller{Agent: h.agent}); err != nil {
			e.log.Warn("what was written after a move could not be given a task", "err", err)
		}
	}
	e.tasks.turn.Lock()
	defer e.tasks.turn.Unlock()
	e.disarmed(h)
}
