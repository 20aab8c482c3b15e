package overlay

import (
	"github.com/ttfs/ttfs/journal"
	"golang.org/x/sys/unix"
)

// change is one operation's record under construction: the first touches that it makes, and what else must be known of
// it after a death. It is committed before the operation is applied.
type change struct {
	e   *Engine
	run *run
	b   journal.Batch

	entries  []spot
	metas    []OID
	numbers  []numbered
	contents []touched
	owns     []thing
}

type numbered struct {
	n  *node
	id OID
}

type touched struct {
	id     OID
	cov    *covered
	pieces []piece
}

// begin starts the record of a change by a caller. Errors: Fenced, those of the journal.
func (e *Engine) begin(c Caller) (*change, error) {
	r, err := e.enter(c)
	if err != nil {
		return nil, err
	}
	return &change{e: e, run: r}, nil
}

// entry keeps what is at a name, before that changes; n is the node of what is there, nil for nothing, and comes the
// node of what will be there if that is older than the change. In a directory that the task itself made nothing is kept
// of what the task made as well: it goes and comes with the directory. Preconditions: dir.dir.mu is held; of a file also
// n.mu.
func (ch *change) entry(dir *node, name string, n, comes *node) error {
	own := func(n *node) bool { return n == nil || n.bornIn(ch.run.id) }
	if dir.bornIn(ch.run.id) && own(n) && own(comes) {
		return nil
	}
	d, err := ch.e.dirOID(dir)
	if err != nil {
		return err
	}
	if err := ch.touch(thing{at: spot{d, name}}); err != nil {
		return err
	}
	if ch.run.hasEntry(d, name) {
		return nil
	}
	var id OID
	// Before the task there was nothing in a directory that it made. What it made itself has no other record of its places:
	// it must not be told to have been here.
	if n != nil && !dir.bornIn(ch.run.id) {
		if id, err = ch.number(n, d, name); err != nil {
			return err
		}
	}
	s := spot{d, name}
	ch.b.Put(entryKey(ch.run.id, s), encodeNumber(uint64(id)))
	ch.entries = append(ch.entries, s)
	return ch.meta(dir, d)
}

// number is the object of a node that is at a name, numbered now if it was not, with its record telling that place.
// Preconditions: n.mu is held, but for a directory.
func (ch *change) number(n *node, d OID, name string) (OID, error) {
	if n.dir != nil {
		return ch.e.dirOID(n)
	}
	for _, k := range ch.numbers {
		if k.n == n {
			return k.id, nil
		}
	}
	id, err := ch.e.oidOf(n)
	if err != nil {
		return 0, err
	}
	o := object{id: id, kind: n.kind, key: n.key, at: spot{d, name}}
	if id != 0 {
		old, found, err := ch.e.getObject(id)
		if err != nil {
			return 0, err
		}
		if found && old.at == o.at {
			return id, nil
		}
		o.was = old.at
	} else if o.id, err = ch.e.newOID(); err != nil {
		return 0, err
	}
	putObject(&ch.b, &o)
	ch.numbers = append(ch.numbers, numbered{n, o.id})
	return o.id, nil
}

// self is the object of a node that is not about to lose a name, numbered now if need be.
func (ch *change) self(n *node) (OID, error) {
	if n.dir != nil {
		return ch.e.dirOID(n)
	}
	p := ch.e.placeOf(n)
	if p.inHold {
		return p.oid, nil
	}
	if p.parent == nil {
		return 0, nil // it has no name: nobody can have it back
	}
	d, err := ch.e.dirOID(p.parent)
	if err != nil {
		return 0, err
	}
	if ch.run != nil && ch.run.hasEntry(d, p.name) {
		// The name may be one of this task's: another, which is there without it as well, tells more.
		if alt, has := ch.e.otherPlace(n, p.parent, p.name); has {
			if up, err := ch.e.dirOID(alt.parent); err == nil && !ch.run.hasEntry(up, alt.name) {
				d, p.name = up, alt.name
			}
		}
	}
	return ch.number(n, d, p.name)
}

// meta keeps the metadata of a node before it changes. Preconditions: for a file n.mu, for a directory dir.mu is held.
func (ch *change) meta(n *node, id OID) error {
	if id == 0 || ch.run.hasMeta(id) || ch.hasMeta(id) {
		return nil
	}
	fd, err := ch.e.openNode(n, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return ch.metaFD(fd, id)
}

func (ch *change) metaFD(fd int, id OID) error {
	var st Stat
	if err := statAt(fd, "", &st); err != nil {
		return err
	}
	m, err := readMeta(fd, &st)
	if err != nil {
		return storeError("read the attributes before", err)
	}
	ch.b.Put(metaKey(ch.run.id, id), m.encode())
	ch.metas = append(ch.metas, id)
	return nil
}

// blockBytes is the unit in which content that is overwritten is kept.
const blockBytes = 16 << 10

// holeBytes is the smallest hole.
const holeBytes = 4 << 10

// content keeps the bytes [from, to) of a file, and its metadata, before they change; from >= to keeps only that the
// content changes, and its size. fd is open for reading. Preconditions: n.mu is held.
func (ch *change) content(n *node, fd int, from, to int64) error {
	if n.bornIn(ch.run.id) {
		return nil
	}
	id, err := ch.e.oidOf(n)
	if err != nil {
		return err
	}
	if id != 0 {
		if err := ch.touch(thing{obj: id}); err != nil {
			return err
		}
	}
	if cov := ch.run.coverage(id); cov != nil && len(cov.gaps(from, to)) == 0 {
		return nil
	}
	if id, err = ch.self(n); err != nil || id == 0 {
		return err
	}
	if err := ch.touch(thing{obj: id}); err != nil {
		return err
	}
	cov := ch.run.coverage(id)
	first := cov == nil
	var st Stat
	if err := statAt(fd, "", &st); err != nil {
		return err
	}
	if first {
		cov = &covered{size: int64(st.Size)}
		ch.b.Put(contentKey(ch.run.id, id), encodeNumber(st.Size))
		if !ch.run.hasMeta(id) {
			if err := ch.metaFD(fd, id); err != nil {
				return err
			}
		}
	}
	var gaps []span
	if first {
		// The last block, when it is a hole, would be filled by what is written behind it.
		tail := span{int64(st.Size) / holeBytes * holeBytes, int64(st.Size)}
		if _, err := unix.Seek(fd, tail.from, unix.SEEK_DATA); tail.from < tail.to && err == unix.ENXIO {
			gaps = append(gaps, tail)
		}
	}
	if from < min(to, int64(st.Size)) {
		from = from / blockBytes * blockBytes
		to = min((min(to, int64(st.Size))+blockBytes-1)/blockBytes*blockBytes, int64(st.Size))
		for _, g := range gaps {
			if from < g.from {
				to = min(to, g.from)
			} else {
				to = from
			}
		}
		gaps = append(cov.gaps(from, to), gaps...)
	}
	pieces, err := ch.e.capture(fd, gaps)
	if err != nil {
		return err
	}
	for i := range pieces {
		ch.b.Put(pieceKey(ch.run.id, id, pieces[i].off), pieces[i].encode())
	}
	ch.contents = append(ch.contents, touched{id, cov, pieces})
	return nil
}

// commit hands the record to the kernel. When it returns nil the change may be applied. When it fails nothing was
// recorded and the change is to be refused, unless the engine was told to let it pass.
func (ch *change) commit() error {
	e := ch.e
	if err := e.point("record"); err != nil {
		return ch.refused(err)
	}
	if !ch.b.Empty() {
		if err := e.j.Commit(&ch.b); err != nil {
			return ch.refused(err)
		}
		e.count.records.Add(1)
	}
	e.own(ch.run, ch.owns)
	for _, s := range ch.entries {
		ch.run.markEntry(s.dir, s.name)
	}
	for _, o := range ch.metas {
		ch.run.markMeta(o)
	}
	for _, k := range ch.numbers {
		e.setOID(k.n, k.id)
	}
	for _, t := range ch.contents {
		for _, p := range t.pieces {
			t.cov.add(p.off, p.off+p.size)
		}
		ch.run.setCoverage(t.id, t.cov)
	}
	return nil
}

// refused says why the change cannot be recorded. It drops the copies made for it.
func (ch *change) refused(err error) error {
	for _, t := range ch.contents {
		for _, p := range t.pieces {
			if p.kind == pieceCopy {
				ch.e.dropCopy(p.copy)
			}
		}
	}
	err = storeError("record", err)
	ch.e.count.refused.Add(1)
	if ch.e.opt.Pass {
		ch.e.markIncomplete(ch.run.id)
		ch.e.log.Error("a change passes without its before-image", "task", ch.run.id, "err", err)
		return nil
	}
	return err
}
