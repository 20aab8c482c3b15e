package overlay

import (
	"io"
	"sync"

	"github.com/ttfs/ttfs/journal"
	"golang.org/x/sys/unix"
)

// lower is the frozen tree that a fork was made of: a view, at an epoch, of the engine that it was made in. Each call holds
// that engine's past by itself, so that the order of the gates is fork before parent. Moves go on meanwhile, as every change does:
// what they are about to change has an image of the epoch before.
type lower struct{ v *view }

func (l *lower) with(f func() error) error {
	if err := l.v.e.enterPast(); err != nil {
		return err
	}
	defer l.v.e.leavePast()
	return f()
}

// lookup finds a name in a directory. Errors: ENOENT, ENOTDIR.
func (l *lower) lookup(dir *ref, name string) (r *ref, st Stat, err error) {
	err = l.with(func() error { r, st, err = l.v.lookupStat(dir, name); return err })
	return r, st, err
}

// dirents is the entries of a directory.
func (l *lower) dirents(dir *ref) (all map[string]Dirent, err error) {
	err = l.with(func() error { all, err = l.v.dirents(dir); return err })
	return all, err
}

func (l *lower) stat(r *ref) (st Stat, err error) {
	err = l.with(func() error { st, err = l.v.stat(r); return err })
	return st, err
}

func (l *lower) meta(r *ref) (m meta, err error) {
	err = l.with(func() error { m, err = l.v.meta(r); return err })
	return m, err
}

func (l *lower) readlink(r *ref) (target []byte, err error) {
	err = l.with(func() error { target, err = l.v.readlink(r); return err })
	return target, err
}

// copyTo makes an empty file what r is.
func (l *lower) copyTo(r *ref, to int) error {
	return l.with(func() error { return l.v.copyTo(r, to) })
}

// reader reads a file; done lets it go.
func (l *lower) reader(r *ref) (rd io.ReaderAt, size int64, done func(), err error) {
	err = l.with(func() error { rd, size, done, err = l.v.reader(r); return err })
	if err == nil && r.low == nil {
		rd = gated{l, rd}
	}
	return rd, size, done, err
}

// gated reads with past held.
type gated struct {
	l *lower
	r io.ReaderAt
}

func (g gated) ReadAt(b []byte, off int64) (n int, err error) {
	if e := g.l.with(func() error { n, err = g.r.ReadAt(b, off); return nil }); e != nil {
		return 0, e
	}
	return n, err
}

// number is what tells r for ever. An object that has no number gets one now; it is in the journal when it returns.
func (l *lower) number(r *ref) (at lowID, err error) {
	err = l.with(func() error { at.id, err = l.v.number(r); return err })
	return at, err
}

func (v *view) number(r *ref) (OID, error) {
	if r.low != nil {
		return v.raised(r)
	}
	id, err := v.oid(r)
	if err != nil || id != 0 {
		return id, err
	}
	d, err := v.number(r.up)
	if err != nil {
		return 0, err
	}
	fd, err := v.openLive(r, unix.O_PATH)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	var st Stat
	if err := statAt(fd, "", &st); err != nil {
		return 0, err
	}
	return v.e.numberLive(&st, spot{d, r.name})
}

// numberLive numbers an inode that was just seen at a place, unless it has a number. It is in the journal when it returns.
func (e *Engine) numberLive(st *Stat, at spot) (OID, error) {
	// The node is what all who number a file lock.
	n := e.intern(nil, "", st, false)
	defer e.unpin(n)
	var mu sync.Locker = &e.objs.mu
	give := e.newOIDLocked
	if n.dir == nil {
		mu, give = &n.mu, e.newOID
	}
	mu.Lock()
	defer mu.Unlock()
	id, err := e.findOID(n.key)
	if err != nil || id != 0 {
		return id, err
	}
	if id, err = give(); err != nil {
		return 0, err
	}
	var b journal.Batch
	putObject(&b, &object{id: id, kind: n.kind, key: n.key, at: at})
	if err := e.j.Commit(&b); err != nil {
		return 0, storeError("number an object", err)
	}
	e.setOID(n, id)
	return id, nil
}

// raised is the object of something that a fork has nothing of its own of, raised now: so what is made of the fork names
// nothing below it.
func (v *view) raised(r *ref) (OID, error) {
	e := v.e
	st, err := e.lower.stat(r.low)
	if err != nil {
		return 0, err
	}
	if id, err := e.raisedAs(keyOf(&st)); err != nil || id != 0 {
		return id, err
	}
	d, err := v.number(r.up)
	if err != nil {
		return 0, err
	}
	// It is not raised, so nobody has moved it: it still is where the view has it.
	up := (&step{mover: &mover{e: e}}).dirNode(d, 0)
	if up == nil {
		return 0, fail("number an object", r.name, Gone, nil)
	}
	defer e.unpin(up)
	n := e.internLow(up, r.name, r.low, &st)
	defer e.unpin(n)
	if err := e.raise(n); err != nil {
		return 0, err
	}
	return e.oidOf(n)
}
