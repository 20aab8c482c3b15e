package overlay

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Keep is what the kernel may do with the names that it has, and reads, of a directory that it opens.
type Keep uint8

const (
	// KeepNothing: what it has is to go, and it asks for each listing by this handle.
	KeepNothing Keep = iota
	// KeepNew: what it has is to go; what it reads by this handle may be told to whoever opens the directory next.
	KeepNew
	// KeepAll: what it has is true.
	KeepAll
)

// heard is what the kernel has of the names in a directory. It keeps them as it reads them (FOPEN_CACHE_DIR), whole or a beginning, until
// an open without KeepAll. What it has was read since the directory was in a state, and is true if the directory still is: the
// state is the inode's time of change, which no program and no move can set back. So it does not matter who has changed what: the
// kernel itself, a move, another view, a merge, or somebody around the mount. A directory that a fork has not touched has one state for
// ever.
//
// What was answered and has not come to the kernel yet is the rest of the matter. The state is not believed
//
//   - before the kernel has done as the open that noted it says: it has when it reads by that handle, or closes it;
//   - when somebody reads the directory by a handle from before: names from then may come into what the kernel keeps.
//
// A lock of its own, a leaf.
type heard struct {
	mu      sync.Mutex
	state   int64 // +checklocks:mu 0: not known
	since   int64 // +checklocks:mu when it was noted
	obeyed  bool  // +checklocks:mu the kernel has let go of what it had before
	readers int   // +checklocks:mu handles that were read by, and are open
	// told is when the attributes of what the first part of the listing names were told with it; 0: they were not, or the kernel
	// has forgotten one since.
	told atomic.Int64
	// opened is how many files in it were opened since: what the kernel knew of their attributes it does not any more when they
	// were read or written. names is how many there were.
	opened, names atomic.Int32
}

const (
	// unchanging is the state of a directory of which a fork has nothing of its own.
	unchanging = 1
	// tooYoung is how old a time of change must be to tell states apart. Before Linux 6.13 times have the grain of the kernel's
	// clock, 10 ms at most: a change in the same grain would not show.
	tooYoung = 50 * time.Millisecond
)

// OpenListing is OpenDir by the one inode that the kernel keeps names of a directory with, and believes names and attributes for so
// long; 0: it may not keep anything.
func (e *Engine) OpenListing(id NodeID, kept time.Duration) (*Dir, Keep, error) {
	n, err := e.pin(id)
	if err != nil {
		return nil, KeepNothing, err
	}
	state, keep := int64(0), KeepNothing
	if kept > 0 && n.dir != nil {
		now := e.clock()
		if state, err = e.listState(n, now); err == nil && state != 0 {
			keep = n.dir.heard.open(state, now.UnixNano(), kept)
		}
	}
	if err == nil {
		var d *Dir
		if d, err = e.newDir(n, keep == KeepAll); err == nil {
			d.keep, d.state = keep, state
			return d, keep, nil
		}
	}
	e.unpin(n)
	return nil, KeepNothing, err
}

// listState is the state that the entries of a directory are in; 0: they may change without its changing.
func (e *Engine) listState(n *node, now time.Time) (int64, error) {
	if n.low() {
		return unchanging, nil
	}
	if e.lower != nil {
		return 0, nil // the cookies of a mixed listing are of that listing alone
	}
	pass, err := e.enterOn("", target{n: n})
	if err != nil {
		return 0, err
	}
	defer pass.leave()
	f, err := e.useDir(n)
	if err != nil {
		return 0, err
	}
	defer e.putDir(f)
	var st Stat
	if err := statAt(f.fd, "", &st); err != nil {
		return 0, err
	}
	changed := time.Unix(st.Ctime.Sec, int64(st.Ctime.Nsec))
	if age := now.Sub(changed); age < tooYoung {
		return 0, nil
	}
	return changed.UnixNano(), nil
}

// open decides at an open of the directory in a state.
func (h *heard) open(state, now int64, kept time.Duration) Keep {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == state && h.obeyed && now >= h.since && now-h.since < int64(kept) && h.cheap() {
		return KeepAll
	}
	h.told.Store(0)
	h.opened.Store(0)
	same := h.state == state
	h.state, h.since, h.obeyed = state, now, same && h.obeyed
	if !same && h.readers > 0 {
		h.state = 0
		return KeepNothing
	}
	return KeepNew
}

// cheap says whether to ask for the attributes of the files that were opened, one by one, costs less than to list the directory again with
// those of all: a listing is two requests, and a quarter of one for each name.
func (h *heard) cheap() bool { return 4*h.opened.Load() <= 8+h.names.Load() }

// openedIn counts an open of a file in the directory in which it is.
func (e *Engine) openedIn(n *node) {
	e.nodes.mu.Lock()
	defer e.nodes.mu.Unlock()
	if n.parent != nil {
		n.parent.dir.heard.opened.Add(1)
	}
}

// hear notes that something is read by a handle. Preconditions: d.mu is held.
func (d *Dir) hear() {
	if d.heard || d.keep == KeepNothing {
		return
	}
	d.heard = true
	h := &d.n.dir.heard
	h.mu.Lock()
	defer h.mu.Unlock()
	h.readers++
	h.obeyed = h.obeyed || d.keep == KeepNew && h.state == d.state
}

// unhear is called at the end of a handle.
func (d *Dir) unhear() {
	if d.keep == KeepNothing {
		return
	}
	h := &d.n.dir.heard
	h.mu.Lock()
	defer h.mu.Unlock()
	if d.heard {
		h.readers--
		h.names.Store(d.names)
	}
	h.obeyed = h.obeyed || d.keep == KeepNew && h.state == d.state
}

// Attributes says whether a listing is to tell the attributes of what it names. They are not told again at the beginning of a listing when they have
// just been with the same names: rm(1) opens each directory twice. How long the kernel believes them is kept; then a listing
// is cheaper than asking for each.
func (e *Engine) Attributes(d *Dir, after uint64, kept time.Duration) bool {
	if after != 0 || d.keep == KeepNothing {
		return true
	}
	now, told := e.clock().UnixNano(), &d.n.dir.heard.told
	if at := told.Load(); d.keep == KeepAll && at != 0 && now >= at && now-at < int64(kept)/2 {
		return false
	}
	told.Store(now)
	return true
}

// later opens a directory that was not, since the kernel was thought to have its names. Preconditions: d.mu and the gate are held.
func (e *Engine) later(d *Dir) error {
	if !d.unopened {
		return nil
	}
	fd, err := e.openEntered(d.n)
	if err == nil {
		d.fd, d.unopened = fd, false
	}
	return err
}

// laterOn is later for who holds nothing.
func (e *Engine) laterOn(d *Dir) error {
	pass, err := e.enterOn("", target{n: d.n})
	if err != nil {
		return err
	}
	defer pass.leave()
	d.mu.Lock()
	defer d.mu.Unlock()
	return e.later(d)
}

// vanished says whether an error is that of a directory that is nowhere any more: it has no names, and nothing of it is to be made durable.
func vanished(err error) bool { return err == unix.ESTALE || err == unix.ENOENT }
