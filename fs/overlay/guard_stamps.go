package overlay

import (
	"github.com/ttfs/ttfs/guard"
	"github.com/ttfs/ttfs/journal"
	"golang.org/x/sys/unix"
)

// asLeft is by what a change around the mount is noticed.
type asLeft struct {
	size  uint64
	mtime unix.StatxTimestamp
}

// maxStamps bounds the stamps; losing them all means that changes around the mount go unnoticed once.
const maxStamps = 1 << 17

func leftAs(st *Stat) asLeft { return asLeft{st.Size, st.Mtime} }

// kStamps is the key of the stamps as they were when what the agents knew was last saved.
//
// Shape: u n, n times (u file, u size, i seconds, u nanoseconds, flag in doubt: the engine was not closed after it).
const kStamps = 'g'

// externalLocked notices that a file is not as we left it. Preconditions: guardTable.mu is held.
//
// What the stamps of a daemon that died do not fit was changed around the mount, or through it in the last 20 seconds before the death. Who
// has read it is not known then, so nobody has.
func (e *Engine) externalLocked(n *node, p guard.Path, st *Stat) {
	g := &e.guard
	f := fileOf(n.ident())
	old, has := g.stamps[f]
	_, doubted := g.doubt[f]
	delete(g.doubt, f)
	if !has || old == leftAs(st) {
		return
	}
	g.stamps[f] = leftAs(st)
	if doubted {
		g.s.Forget(f)
		return
	}
	for h := range n.file.handles {
		if h.how.mode == Passthrough && h.writes() {
			return // the kernel wrote; it is told when that handle is flushed
		}
	}
	g.s.External(f, p)
}

// stampLocked remembers a file as we leave it. Preconditions: guardTable.mu is held.
func (e *Engine) stampLocked(k inoKey, st *Stat) {
	g := &e.guard
	if len(g.stamps) >= maxStamps {
		clear(g.stamps)
	}
	g.stamps[fileOf(k)] = leftAs(st)
	delete(g.doubt, fileOf(k))
}

// stampsLocked are the stamps of the files of which somebody knows something.
//
// +checklocks:e.guard.mu
func (e *Engine) stampsLocked(closing bool) []byte {
	g := &e.guard
	var known []guard.File
	for f := range g.stamps {
		if g.s.Follows(f) {
			known = append(known, f)
		}
	}
	out := encoder(16 + 20*len(known))
	out.u(uint64(len(known)))
	for _, f := range known {
		s := g.stamps[f]
		_, doubted := g.doubt[f]
		out.u(uint64(f))
		out.u(s.size)
		out.i(s.mtime.Sec)
		out.u(uint64(s.mtime.Nsec))
		out.flag(doubted || !closing)
	}
	return out.b
}

// decodeStamps reads what stampsLocked wrote. Errors: errShort.
func decodeStamps(b []byte) (stamps map[guard.File]asLeft, doubt map[guard.File]struct{}, err error) {
	d := dec{b: b}
	stamps, doubt = map[guard.File]asLeft{}, map[guard.File]struct{}{}
	for n := d.u(); n > 0 && d.err == nil; n-- {
		f := guard.File(d.u())
		stamps[f] = asLeft{d.u(), unix.StatxTimestamp{Sec: d.i(), Nsec: uint32(d.u())}}
		if d.flag() {
			doubt[f] = struct{}{}
		}
	}
	if d.err == nil && len(d.b) > 0 {
		d.err = errShort
	}
	return stamps, doubt, d.err
}

// loadStamps takes the stamps in. From then on all that are stored are in doubt, until the engine is closed.
func (e *Engine) loadStamps() error {
	v, found, err := e.j.Get([]byte{kStamps})
	if err != nil || !found {
		return storeError("open", err)
	}
	stamps, doubt, err := decodeStamps(v)
	if err != nil {
		e.log.Warn("how files were left could not be read: what was changed around the mount meanwhile goes unnoticed", "err", err)
		return nil
	}
	g := &e.guard
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stamps, g.doubt = stamps, doubt
	if e.opt.ReadOnly || len(doubt) == len(stamps) {
		return nil
	}
	var b journal.Batch
	b.Put([]byte{kStamps}, e.stampsLocked(false))
	return storeError("open", e.j.Commit(&b))
}
