package overlay

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ttfs/ttfs/guard"
	"github.com/ttfs/ttfs/journal"
	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// The guard is asked under the lock under which the change is then applied: node.mu for content, the directory's for
// names. What was done is reported under the same lock. So of two agents that read and then write, one is refused.

// rewriteWait is how long an open for writing waits for another agent that is rewriting the file.
const rewriteWait = 5 * time.Second

// guardTable is what agents know. Its lock is a leaf.
type guardTable struct {
	on atomic.Bool
	// used: an agent that is guarded has been seen, so that what everybody does is reported.
	used atomic.Bool

	mu     sync.Mutex
	s      *guard.State          // +checklocks:mu
	stamps map[guard.File]asLeft // +checklocks:mu as we left them: a difference was made around the mount
	closed chan struct{}         // +checklocks:mu closed when a window of rewriting closes
	// unsaved: something was learned since it was last saved. A read is, though it has no number of its own.
	unsaved bool // +checklocks:mu
	// doubt: the stamps are of a daemon that died, and those in it are not confirmed yet (guard_stamps.go).
	doubt map[guard.File]struct{} // +checklocks:mu
	blind guard.BlindRule
}

// kGuard is the key of what the agents knew when it was last saved.
const kGuard = 'G'

func (e *Engine) loadGuard(o *Options) error {
	g := &e.guard
	g.s, g.stamps, g.closed, g.blind = guard.New(), map[guard.File]asLeft{}, make(chan struct{}), o.Blind
	g.on.Store(o.Guard)
	v, found, err := e.j.Get([]byte{kGuard})
	if err != nil || !found {
		return storeError("open", err)
	}
	if err := g.s.Import(v); err != nil {
		// To know nothing is safe: nobody is taken to have read what he has not.
		e.log.Warn("what the agents knew could not be read; they begin anew", "err", err)
		return nil
	}
	g.used.Store(len(g.s.Agents()) > 0)
	return e.loadStamps()
}

// saveGuard keeps what the agents know over a remount; closing says that nothing is learned after it.
func (e *Engine) saveGuard(closing bool) error {
	g := &e.guard
	if !g.used.Load() || e.opt.ReadOnly {
		return nil
	}
	var b journal.Batch
	g.mu.Lock()
	if !g.unsaved && !closing {
		g.mu.Unlock()
		return nil
	}
	if g.unsaved {
		b.Put([]byte{kGuard}, g.s.Export())
	}
	b.Put([]byte{kStamps}, e.stampsLocked(closing))
	g.unsaved = false
	g.mu.Unlock()
	err := e.j.Commit(&b)
	if err != nil {
		g.mu.Lock()
		g.unsaved = true
		g.mu.Unlock()
	}
	return storeError("keep what the agents know", err)
}

// SetGuard switches the guard on or off, at once. What everybody knows is followed also while it is off.
func (e *Engine) SetGuard(on bool) {
	e.guard.on.Store(on)
	e.event("guard on=%t", on)
}

// GuardOn says whether agents are guarded.
func (e *Engine) GuardOn() bool { return e.guard.on.Load() }

// fileOf is the guard's number of an inode.
func fileOf(k inoKey) guard.File {
	h := k.ino*0x9e3779b97f4a7c15 ^ uint64(k.born)*0xc2b2ae3d27d4eb4f
	h ^= h >> 29
	return guard.File(h | 1)
}

// guarded says whether a caller's operations are to be judged; follows, whether they are to be reported.
func (e *Engine) guarded(c *Caller) bool {
	return c.Agent != tasktree.User && c.Agent != "" && e.guard.on.Load()
}

func (e *Engine) follows(c *Caller) bool {
	if e.guard.used.Load() {
		return true
	}
	if c.Agent == tasktree.User || c.Agent == "" || e.opt.ReadOnly {
		return false
	}
	e.guard.used.Store(true)
	return true
}

// Follows says whether what is written must be told at every close of a descriptor.
func (e *Engine) Follows() bool { return e.guard.used.Load() }

func (c *Caller) actor(t tasktree.TaskID) guard.Actor {
	return guard.Actor{Agent: guard.Agent(c.Agent), Task: guard.Task(t), Proc: c.Proc, User: c.Agent == tasktree.User}
}

// pathOfNode is where a node is, as the kernel knows it; "" for one without a place.
func (e *Engine) pathOfNode(n *node) guard.Path {
	e.nodes.mu.Lock()
	defer e.nodes.mu.Unlock()
	return e.pathOfNodeLocked(n)
}

func (e *Engine) pathOfNodeLocked(n *node) guard.Path {
	var parts []string
	for ; n != nil && n != e.nodes.root; n = n.parent {
		if n.parent == nil || len(parts) > maxDepth {
			return ""
		}
		parts = append(parts, n.name)
	}
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return guard.Path(strings.Join(parts, "/"))
}

func (e *Engine) pathAt(dir *node, name string) guard.Path {
	if dir == e.nodes.root {
		return guard.Path(name)
	}
	if up := e.pathOfNode(dir); up != "" {
		return up + "/" + guard.Path(name)
	}
	return ""
}

// judge asks the guard whether a caller may do what destroys content. Errors: Stale, Partial, Busy; it is logged, and
// nothing has changed. Preconditions: the lock is held under which the change is then applied.
func (e *Engine) judge(c *Caller, q guard.Question, n *node, st *Stat) error {
	if err := e.MayChange(q.Op.String(), c.Agent); err != nil {
		return err
	}
	if !e.guarded(c) {
		return nil
	}
	g := &e.guard
	q.Actor = c.actor(0)
	q.File, q.SizeBytes = fileOf(n.ident()), int64(st.Size)
	policy := guard.Policy{Blind: g.blind, Live: e.opt.Live}
	g.mu.Lock()
	e.externalLocked(n, q.Path, st)
	v := g.s.Decide(&q, &policy)
	g.mu.Unlock()
	if v.Allow || e.unguardedClass(c, q.Path, st) || q.Op == guard.Exchange && e.unguardedClass(c, q.Other.Path, st) {
		return nil
	}
	return e.refuse(c, q.Op.String(), v)
}

// refuse makes an error of a verdict, logs it, and keeps it for the caller's `.tt/why`.
func (e *Engine) refuse(c *Caller, op string, v guard.Verdict) error {
	err := v.Err(op)
	writers := make([]string, 0, len(v.Writers))
	for _, w := range v.Writers {
		writers = append(writers, string(w.Agent))
	}
	e.event("refused op=%s agent=%s path=%s writer=%s decision=%s", quoted(op), c.Agent, quoted(v.Path), quoted(strings.Join(writers, ",")), quoted(decision(v.Kind)))
	e.count.guarded.Add(1)
	if e.opt.Refused != nil {
		e.opt.Refused(c.Agent, err.Error())
	}
	kind := Stale
	switch v.Kind {
	case guard.Partial, guard.Blind:
		kind = Partial
	case guard.Busy:
		kind = Busy
	}
	return fail(op, string(v.Path), kind, err)
}

// errRewriting says that another agent is rewriting the file: wait and try again.
var errRewriting = errors.New("another agent is rewriting the file")

// mayWrite says whether a file may be opened for writing now. Preconditions: node.mu is held.
func (e *Engine) mayWrite(c *Caller, n *node, flags uint32) error {
	if flags&unix.O_ACCMODE == unix.O_RDONLY && flags&unix.O_TRUNC == 0 || !e.guarded(c) {
		return nil
	}
	p := e.pathOfNode(n)
	e.guard.mu.Lock()
	v := e.guard.s.MayOpenForWriting(fileOf(n.ident()), p, c.actor(0), flags&unix.O_APPEND != 0 && flags&unix.O_TRUNC == 0)
	e.guard.mu.Unlock()
	if v.Allow || e.unguardedClass(c, p, nil) {
		return nil
	}
	return errRewriting
}

// awaitRewrite waits until a window of rewriting closes. Errors: Busy after rewriteWait, EINTR when the caller gives up.
// Preconditions: no lock is held.
func (e *Engine) awaitRewrite(c *Caller, n *node, flags uint32, deadline <-chan time.Time, cancel <-chan struct{}) error {
	e.guard.mu.Lock()
	closed := e.guard.closed
	e.guard.mu.Unlock()
	p := e.pathOfNode(n)
	e.guard.mu.Lock()
	v := e.guard.s.MayOpenForWriting(fileOf(n.ident()), p, c.actor(0), flags&unix.O_APPEND != 0 && flags&unix.O_TRUNC == 0)
	e.guard.mu.Unlock()
	if v.Allow {
		return nil
	}
	select {
	case <-closed:
		return nil
	case <-cancel:
		return unix.EINTR
	case <-deadline:
		return e.refuse(c, "open", v)
	}
}

// StaleEntry is a path that an agent has read and others have changed since.
type StaleEntry struct {
	Path    string
	Writers []string
}

// StaleOf is what an agent has read and others have changed since, sorted by path; of the guarded classes only.
func (e *Engine) StaleOf(a tasktree.Agent) []StaleEntry {
	e.guard.mu.Lock()
	all := e.guard.s.Stale(guard.Agent(a))
	e.guard.mu.Unlock()
	var out []StaleEntry
	for _, s := range all {
		if e.unguardedClass(&Caller{Agent: a}, s.Path, nil) {
			continue
		}
		ent := StaleEntry{Path: string(s.Path)}
		for _, w := range s.Agents() {
			ent.Writers = append(ent.Writers, string(w))
		}
		out = append(out, ent)
	}
	return out
}

// EndAgent forgets what an agent knew and closes its windows of rewriting; its tasks stay.
func (e *Engine) EndAgent(a tasktree.Agent) {
	g := &e.guard
	g.mu.Lock()
	g.s.End(guard.Agent(a))
	g.unsaved = true
	close(g.closed)
	g.closed = make(chan struct{})
	g.mu.Unlock()
	e.event("end agent=%s", a)
}

// ParseBlind reads --blind.
func ParseBlind(s string) (guard.BlindRule, error) {
	switch s {
	case "", "allow":
		return guard.Allow, nil
	case "contested":
		return guard.Contested, nil
	case "deny":
		return guard.Deny, nil
	}
	return 0, fail("mount", "--blind", Invalid, fmt.Errorf("%q is none of allow, contested, deny", s))
}
