package overlay

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/ttfs/ttfs/journal"
	"golang.org/x/sys/unix"
)

// What a fork has of its own is in its own tree, the upper; the rest it sees in the lower: the frozen tree of the engine
// that it is a fork of. A name in a directory of the fork is what the upper has there; else nothing, if it is taken; else
// what the lower has in the directory's origin. What the fork is about to change is raised first: made in the upper, as it
// is in the lower. To raise something is not to change it, for no task, no guard and no time.

// The letters of the keys that only a fork has.
const (
	kOrigin  = 'o' // object           -> what it is in the lower
	kRaised  = 'r' // inode as it shows -> the object that it was raised to
	kFilling = 'f' // object           -> its attributes, while it is given the bytes of the lower
	kTaken   = 't' // directory, name  -> nothing: the lower's does not show there
)

// origin is what an inode of a fork is in the lower. Its number and birth time are the lower's for ever: programs tell it
// by them.
type origin struct {
	ref   *ref // in the lower
	ident inoKey
	// links are the names that it has in the lower and not yet in the upper. last is the name that came to the upper last:
	// a death may have come before it did, and then it is one of links, though the record does not count it.
	links atomic.Int32
	last  spot // +checklocks:Engine.raising
	many  bool // it has several names in the lower; else links is 0
	// hollow: the bytes of the file are still the lower's, and size is how many they are.
	hollow atomic.Bool
	size   int64
}

// lowID tells something in the lower for ever: an object of the engine that is level forks down.
type lowID struct {
	level int
	id    OID
}

func (o *origin) encode(at lowID) []byte {
	var e enc
	e.u(uint64(at.level))
	e.u(uint64(at.id))
	e.u(o.ident.ino)
	e.i(o.ident.born)
	e.flag(o.hollow.Load())
	e.i(int64(o.links.Load()))
	e.i(o.size)
	e.flag(o.many)
	e.u(uint64(o.last.dir))
	e.s(o.last.name)
	return e.b
}

func takenKey(d OID, name string) []byte { return append(key(kTaken, uint64(d)), name...) }
func originKey(id OID) []byte            { return key(kOrigin, uint64(id)) }
func raisedKey(k inoKey) []byte          { return key(kRaised, k.ino, uint64(k.born)) }

// low says that there is nothing of a node in the fork's own tree yet.
func (n *node) low() bool { return n.from != nil && !n.raised.Load() }

// hollow says that the bytes of a file are the lower's.
func (n *node) hollow() bool { return n.from != nil && (n.low() || n.from.hollow.Load()) }

// ident is how programs tell the inode of a node.
func (n *node) ident() inoKey {
	if n.from != nil {
		return n.from.ident
	}
	return n.key
}

// shows turns the state of a raised inode into what programs see.
func (o *origin) shows(st *Stat) {
	st.Ino = o.ident.ino
	if o.ident.born != 0 {
		st.Btime = unix.StatxTimestamp{Sec: o.ident.born / 1e9, Nsec: uint32(o.ident.born % 1e9)}
	}
	if kindOf(st) == unix.S_IFDIR {
		st.Nlink = 1 // how many directories are in it is not known without looking
		return
	}
	st.Nlink += uint32(max(0, o.links.Load()))
	if o.hollow.Load() {
		st.Size = uint64(o.size)
		st.Blocks = (st.Size + 511) / 512
	}
}

// originOf reads what an object is in the lower; nil for what is the fork's own.
func (e *Engine) originOf(id OID) (*origin, lowID, error) {
	if e.lower == nil || id == 0 {
		return nil, lowID{}, nil
	}
	if id == rootOID {
		return e.nodes.root.from, lowID{id: rootOID}, nil
	}
	v, found, err := e.j.Get(originKey(id))
	if err != nil || !found {
		return nil, lowID{}, storeError("find what a fork was made of", err)
	}
	d := dec{b: v}
	at := lowID{int(d.u()), OID(d.u())}
	o := &origin{ident: inoKey{d.u(), d.i()}}
	o.hollow.Store(d.flag())
	o.links.Store(int32(d.i()))
	o.size = d.i()
	o.many = d.flag()
	o.last = spot{OID(d.u()), d.s()}
	if d.err != nil {
		return nil, at, fail("find what a fork was made of", "", Damaged, d.err)
	}
	k, found, err := e.getObject(id)
	if err != nil || !found {
		return nil, at, fail("find what a fork was made of", "", Damaged, err)
	}
	o.ref = &ref{id: at.id, kind: k.kind}
	for range at.level {
		o.ref = &ref{low: o.ref, kind: k.kind}
	}
	if o.many && o.last.dir != 0 && !e.isAt(o.last, k.key) {
		if taken, err := e.taken(o.last.dir, o.last.name); err != nil {
			return nil, at, err
		} else if !taken {
			o.links.Add(1)
		}
	}
	return o, at, nil
}

// originOfNew is what an inode that the kernel does not know is in the lower.
func (e *Engine) originOfNew(k inoKey) *origin {
	e.nodes.mu.Lock()
	known := e.nodes.byIno[k] != nil
	e.nodes.mu.Unlock()
	if known {
		return nil
	}
	id, err := e.findOID(k)
	if err != nil {
		e.log.Error("an object of a fork could not be found", "err", err)
		return nil
	}
	o, _, err := e.originOf(id)
	if err != nil {
		e.log.Error("what an object of a fork was made of could not be found", "object", id, "err", err)
	}
	return o
}

// identOf is how programs tell an inode of the upper.
func (e *Engine) identOf(k inoKey) inoKey {
	if e.lower == nil {
		return k
	}
	if n := e.known(k); n != nil {
		defer e.unpin(n)
		return n.ident()
	}
	if o := e.originOfNew(k); o != nil {
		return o.ident
	}
	return k
}

// taken says whether a name of a directory of the upper hides what the lower has there.
func (e *Engine) taken(d OID, name string) (bool, error) {
	_, found, err := e.j.Get(takenKey(d, name))
	return found, storeError("look into a fork", err)
}

// takenIn is the taken names of a directory.
func (e *Engine) takenIn(d OID) (map[string]bool, error) {
	out := map[string]bool{}
	err := e.j.Scan(key(kTaken, uint64(d)), func(k, _ []byte) error {
		out[string(k[9:])] = true
		return nil
	})
	return out, storeError("list in a fork", err)
}

// raisedAs is the object that an inode of the lower was raised to; 0: it is not.
func (e *Engine) raisedAs(k inoKey) (OID, error) {
	v, found, err := e.j.Get(raisedKey(k))
	if err != nil || !found {
		return 0, storeError("look into a fork", err)
	}
	d := dec{b: v}
	id := OID(d.u())
	if d.err != nil {
		return 0, fail("look into a fork", "", Damaged, d.err)
	}
	return id, nil
}

// putRaised records that an object is something of the lower.
func putRaised(b *journal.Batch, id OID, o *origin, at lowID) {
	b.Put(originKey(id), o.encode(at))
	b.Put(raisedKey(o.ident), binary.AppendUvarint(nil, uint64(id)))
}

// loadRoot ties the root of a fork to that of the lower.
func (e *Engine) loadRoot() error {
	if e.lower == nil {
		return nil
	}
	r := e.lower.v.root()
	st, err := e.lower.stat(r)
	if err != nil {
		return storeError("open a fork", err)
	}
	root := e.nodes.root
	root.from = &origin{ref: r, ident: keyOf(&st)}
	root.raised.Store(true)
	e.nodes.byIno[root.from.ident] = root
	return nil
}
