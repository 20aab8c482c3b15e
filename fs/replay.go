package fs

import (
	"cmp"
	"errors"
	"os"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ttfs/ttfs/fs/overlay"
	"golang.org/x/sys/unix"
)

// replay makes moves seen by programs that watch the workspace with inotify(7). The kernel makes no events of what it is
// notified of, only of system calls on the mount. So a child of the daemon makes these calls (ShowMoves): it removes what
// the move removed, makes what it made, touches what it changed; and the daemon, which knows the child by its pid,
// answers without doing anything. What the child is told of a name lasts for nobody else: names that are not there are
// answered with timeouts of 0, names that are, with the truth.
//
// Rejected: calls by the daemon itself (it would wait for itself in the kernel, where nothing can kill it), and file
// notifications of the backing directory, where nobody watches.
//
// Nothing depends on it: a replay that cannot be, or that takes too long, is given up, and the child killed.
type replay struct {
	f       *face
	command []string // starts the child; empty: moves are not shown
	dir     string   // of the mount

	// turn is held by the replay under way.
	turn sync.Mutex
	dev  uint64 // of the mount; 0: not yet known +checklocks:turn
	// found is what the last search found, which began at searched and took so long.
	found    watched       // +checklocks:turn
	searched time.Time     // +checklocks:turn
	took     time.Duration // +checklocks:turn

	// pid is the child's while it replays, 0 else: its requests are the replay's. It is 0 before the pid can be another's.
	pid   atomic.Uint32
	now   atomic.Pointer[showing]
	fakes atomic.Uint64

	// heard: the last time, somebody watched. queued is how many moves are being shown, or wait to be.
	heard  atomic.Bool
	queued atomic.Int32

	mu     sync.Mutex
	child  *shower        // +checklocks:mu
	closed bool           // +checklocks:mu
	under  sync.WaitGroup // replays under way
}

const (
	// showMost is the number of steps of one replay; past it only the directories are told of.
	showMost = 10_000
	// showWait is how long a move waits for its replay, which then goes on without it.
	showWait = 2 * time.Second
	// showQueue is the number of moves that may be ahead of one that does not wait. One search is for all of them.
	showQueue = 64
	// scanShare is how many times what a search took there is none, while nobody watches, but no longer than scanRest.
	scanShare = 9
	scanRest  = 50 * time.Millisecond
	// showLimit is how long a replay may take before its child is killed.
	showLimit = 30 * time.Second
)

// show replays a move if anybody watches, and waits for it, but not for ever. It does not wait at all as long as nobody was
// seen to watch: finding out takes longer than a small move.
func (r *replay) show(sp *space, c overlay.Changes) {
	if len(r.command) == 0 || len(c.Entries)+len(c.Objects) == 0 {
		return
	}
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return
	}
	r.under.Add(1)
	r.mu.Unlock()
	ahead, asked := r.queued.Add(1)-1, time.Now()
	done := make(chan struct{})
	go func() {
		defer r.under.Done()
		defer r.queued.Add(-1)
		defer close(done)
		r.run(sp, c, asked)
	}()
	if !r.heard.Load() && ahead < showQueue {
		return
	}
	wait := time.NewTimer(showWait)
	defer wait.Stop()
	select {
	case <-done:
	case <-wait.C:
		r.f.log.Info("watchers are still being told of a move")
	}
}

func (r *replay) run(sp *space, c overlay.Changes, asked time.Time) {
	r.turn.Lock()
	defer r.turn.Unlock()
	if r.dev == 0 {
		text, err := os.ReadFile("/proc/self/mountinfo")
		dev, ok := mountDevice(string(text), r.dir)
		if !ok {
			r.f.log.Debug("watchers are not told of a move: the mount is not found", "err", err)
			return
		}
		r.dev = dev
	}
	w := r.watchedSince(asked)
	if w.none() {
		return
	}
	steps := r.steps(sp, c, w)
	if len(steps) == 0 {
		return
	}
	child, err := r.start()
	if errors.Is(err, os.ErrClosed) {
		return // the mount has gone, and its watchers with it
	}
	if err != nil {
		r.f.log.Warn("watchers are not told of a move", "err", err)
		return
	}
	if err := r.replay(child, sp, steps); err != nil {
		r.f.log.Warn("watchers were not told of all of a move", "err", err)
		child.end()
	}
}

// watchedSince is what somebody watches who did so at a time that has passed: one search is for all moves that ended before it.
// While nobody is seen to watch, nobody waits for it, and it may take its time: it reads every descriptor of the machine.
// Preconditions: turn is held.
func (r *replay) watchedSince(asked time.Time) watched {
	if r.searched.After(asked) {
		return r.found
	}
	if !r.heard.Load() {
		time.Sleep(min(time.Until(r.searched.Add(scanShare*r.took)), scanRest))
	}
	r.searched = time.Now()
	r.found = findWatched("/proc", r.dev, scanLimit)
	r.took = time.Since(r.searched)
	r.heard.Store(!r.found.none())
	return r.found
}

// steps are what there is to show, in the order in which a program would do it: what is removed first, then what is
// made, a directory before what is in it.
func (r *replay) steps(sp *space, c overlay.Changes, w watched) []*showing {
	var removed, made, changed []*showing
	fresh, busy := map[string]bool{}, map[uint64]bool{}
	for i := range c.Entries {
		ent := &c.Entries[i]
		busy[ent.DirIno] = true
		if ent.Path == "" || ent.Dir == 0 || !ent.Had && !ent.Has || !w.has(ent.DirIno) && !(ent.Had && w.has(ent.WasIno)) {
			continue
		}
		s := showing{sp: sp, dir: ent.Dir, name: ent.Name, was: ent.Was, replaced: ent.Had && ent.Has}
		var kind uint32
		if ent.Has {
			now, err := sp.e.Lookup(ent.Dir, ent.Name)
			if err != nil {
				continue // it has gone again
			}
			sp.e.Forget(now.Node, 1)
			if ent.Had && now.Stat.Ino == ent.WasIno {
				continue // it is what it was
			}
			kind = uint32(now.Stat.Mode) & unix.S_IFMT
			fresh[ent.Path] = true
		}
		if ent.Had {
			s.step = showStep{Op: showDelete, Path: []byte(ent.Path), Kind: unix.S_IFREG}
			if ent.WasDir {
				s.step.Kind = unix.S_IFDIR
			}
			removed = append(removed, s.clone())
		}
		if ent.Has {
			s.step = showStep{Op: showCreate, Path: []byte(ent.Path), Kind: kind}
			made = append(made, s.clone())
		}
	}
	for _, o := range c.Objects {
		// The times of a directory in which something came or went are part of that.
		if fresh[o.Path] || !w.has(o.Ino) && !w.has(o.DirIno) || !o.Content && busy[o.Ino] {
			continue
		}
		if o.Content {
			changed = append(changed, &showing{step: showStep{Op: showModify, Path: []byte(o.Path)}})
		}
		if o.Meta {
			changed = append(changed, &showing{step: showStep{Op: showAttrib, Path: []byte(o.Path)}})
		}
	}
	for _, part := range [][]*showing{removed, made, changed} {
		slices.SortStableFunc(part, func(a, b *showing) int { return cmp.Compare(string(a.step.Path), string(b.step.Path)) })
	}
	return r.bounded(slices.Concat(removed, made, changed))
}

func (s *showing) clone() *showing {
	return &showing{step: s.step, sp: s.sp, dir: s.dir, name: s.name, was: s.was, replaced: s.replaced}
}

// bounded is the steps, or, when they are too many, one for each of their directories.
func (r *replay) bounded(steps []*showing) []*showing {
	if len(steps) <= showMost {
		return steps
	}
	r.f.log.Info("a move is too big to tell watchers of every name: they hear of the directories", "steps", len(steps), "most", showMost)
	var dirs []*showing
	seen := map[string]bool{}
	for _, s := range steps {
		dir := path.Dir(string(s.step.Path))
		if dir == "." {
			dir = ""
		}
		if !seen[dir] && len(dirs) < showMost {
			seen[dir] = true
			dirs = append(dirs, &showing{step: showStep{Op: showAttrib, Path: []byte(dir)}})
		}
	}
	return dirs
}

// replay has the child make the steps. A step that fails is passed over: what it would show has changed meanwhile, or the
// daemon may not make it.
func (r *replay) replay(child *shower, sp *space, steps []*showing) error {
	if err := child.owns(&r.pid); err != nil {
		return err
	}
	defer child.disown(&r.pid)
	defer r.now.Store(nil)
	limit := time.AfterFunc(showLimit, child.kill)
	defer limit.Stop()
	said, err := child.ask(&showStep{Op: showBegin, Path: []byte(path.Join(r.dir, sp.path)), Dev: statDev(r.dev)})
	if err == nil && said != "" {
		err = showFailure(said)
	}
	if err != nil {
		return err
	}
	failed, why := 0, ""
	for _, s := range steps {
		r.now.Store(s)
		if said, err = child.ask(&s.step); err != nil {
			return err
		}
		if said != "" {
			failed, why = failed+1, string(s.step.Op)+" "+string(s.step.Path)+": "+said
		}
	}
	r.now.Store(nil)
	if failed > 0 {
		r.f.log.Debug("some of a move was not shown to watchers", "steps", len(steps), "failed", failed, "last", why)
	}
	_, err = child.ask(&showStep{Op: showEnd})
	return err
}

// statDev is a device as stat(2) says it. dev is as the kernel keeps it.
func statDev(dev uint64) uint64 { return unix.Mkdev(uint32(dev>>20), uint32(dev&(1<<20-1))) }

// start gives the child, started if need be.
func (r *replay) start() (*shower, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, os.ErrClosed
	}
	if r.child != nil && r.child.lives() {
		return r.child, nil
	}
	var err error
	r.child, err = startShower(r.command)
	return r.child, err
}

// end ends the child, so that it holds nothing of the mount. A later move starts it again.
func (r *replay) end() {
	r.mu.Lock()
	child := r.child
	r.child = nil
	r.mu.Unlock()
	if child != nil {
		child.end()
	}
}

// close ends the child and waits for the replays under way; none begins after it.
func (r *replay) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.end()
	r.under.Wait()
}
