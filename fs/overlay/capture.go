package overlay

import (
	"os"
	"slices"

	"github.com/ttfs/ttfs/journal"
	"golang.org/x/sys/unix"
)

// change is one operation's record under construction: the first touches that it makes, and what else must be known of
// it after a death. It is committed before the operation is applied.
type change struct {
	e *Engine
	firsts
	// epoch is what is kept for forks; nil when there are none.
	epoch *firsts
	// family is what is kept for tasks of the same family (kin.go).
	family []*firsts
	wrote  []wrote // by others, unseen, before it
	b      journal.Batch

	numbers []numbered
	owns    []thing
	// removes: it takes something away, which must be possible on a full disk, too.
	removes bool

	// lower has the bytes of a hollow file that is to be emptied; nil for any other.
	lower *os.File
	// seen is what the file was when it was looked at, since it was locked; nil: it is looked at.
	seen *Stat
}

// firsts are the first touches by one run.
type firsts struct {
	run      *run
	entries  []spot
	metas    []OID
	contents []touched
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
	ch := &change{e: e, firsts: firsts{run: r}}
	if r := e.epochs.newest.Load(); r != nil {
		ch.epoch = &firsts{run: r}
	}
	return ch, nil
}

// both calls f for the task's first touches, and for the newest epoch's.
func (ch *change) both(f func(t *firsts) error) error {
	if err := f(&ch.firsts); err != nil || ch.epoch == nil {
		return err
	}
	return f(ch.epoch)
}

// all is both, and for the family's first touches too.
func (ch *change) all(f func(t *firsts) error) error {
	for _, t := range ch.family {
		if err := f(t); err != nil {
			return err
		}
	}
	return ch.both(f)
}

// made says that a node was made within the run: of what it was before there is nothing to keep.
func (t *firsts) made(n *node) bool {
	if t.run.id&epochBit != 0 {
		return n.epoch.Load() == uint64(t.run.id)
	}
	return n.bornIn(t.run.id)
}

// entry keeps what is at a name, before that changes; n is the node of what is there, nil for nothing, and comes the
// node of what will be there if that is older than the change. In a directory that the task itself made nothing is kept
// of what the task made as well: it goes and comes with the directory. In one that is younger than every fork nothing is
// kept for forks. Preconditions: dir.dir.mu is held; of a file also n.mu.
func (ch *change) entry(dir *node, name string, n, comes *node) error {
	own := func(n *node) bool { return n == nil || ch.made(n) }
	task := !(ch.made(dir) && own(n) && own(comes))
	epoch := ch.epoch != nil && !ch.epoch.made(dir)
	if ch.epoch != nil {
		for _, n := range []*node{n, comes} {
			if err := ch.links(n); err != nil {
				return err
			}
		}
	}
	if !task && !epoch {
		return nil
	}
	d, err := ch.e.dirOID(dir)
	if err != nil {
		return err
	}
	s := spot{d, name}
	if task {
		if err := ch.touch(thing{at: s}); err != nil {
			return err
		}
	}
	task = task && !ch.run.hasEntry(d, name)
	epoch = epoch && !ch.epoch.run.hasEntry(d, name)
	var id OID
	// Before the task there was nothing in a directory that it made. What it made itself has no other record of its places:
	// it must not be told to have been here.
	told := task && !ch.made(dir)
	if n != nil && (told || epoch) {
		if id, err = ch.number(n, d, name); err != nil {
			return err
		}
	}
	if task {
		was := id
		if !told {
			was = 0
		}
		ch.b.Put(entryKey(ch.run.id, s), encodeNumber(uint64(was)))
		ch.entries = append(ch.entries, s)
	}
	if epoch {
		ch.b.Put(entryKey(ch.epoch.run.id, s), encodeNumber(uint64(id)))
		ch.epoch.entries = append(ch.epoch.entries, s)
	}
	if dir.from != nil && (task || epoch) {
		ch.b.Put(takenKey(d, name), nil)
	}
	if task {
		if err := ch.meta(&ch.firsts, dir, d); err != nil {
			return err
		}
	}
	if epoch {
		return ch.meta(ch.epoch, dir, d)
	}
	return nil
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
func (ch *change) meta(t *firsts, n *node, id OID) error {
	if id == 0 || t.hasMeta(id) {
		return nil
	}
	fd, err := ch.e.openNode(n, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return ch.metaFD(t, fd, id)
}

func (t *firsts) hasMeta(id OID) bool { return t.run.hasMeta(id) || slices.Contains(t.metas, id) }

func (ch *change) metaFD(t *firsts, fd int, id OID) error {
	var st Stat
	if err := statAt(fd, "", &st); err != nil {
		return err
	}
	return ch.metaSeen(t, fd, &st, id)
}

// metaSeen is metaFD of what has just been looked at.
func (ch *change) metaSeen(t *firsts, fd int, st *Stat, id OID) error {
	m, err := readMeta(fd, st)
	if err != nil {
		return storeError("read the attributes before", err)
	}
	if m.at, err = ch.e.metaSeq(st); err != nil {
		return err
	}
	ch.b.Put(metaKey(t.run.id, id), m.encode())
	t.metas = append(t.metas, id)
	return nil
}

// blockBytes is a multiple of every unit in which filesystems have content and holes, as far as that matters.
const blockBytes = 16 << 10

// aheadFrom is how many bytes right before a change must be kept for the change to be taken for one that goes on, and
// aheadMost how many bytes are then kept ahead of it.
const (
	aheadFrom = 16 << 10
	aheadMost = 1 << 20
)

// widened is what is kept of a file where [from, to) of it is overwritten: whole units of the filesystem. Who goes on
// where bytes end that are kept will go on: as many again are kept at once, so that a file that is rewritten from its
// beginning is kept in few, ever larger pieces, and never more of it than twice what is overwritten.
func widened(cov *covered, from, to, size, unit int64) []span {
	from, to = from/unit*unit, min((min(to, size)+unit-1)/unit*unit, size)
	gaps := cov.gaps(from, to)
	if len(gaps) == 0 {
		return nil
	}
	first := gaps[0].from
	if run := cov.before(first); run >= aheadFrom {
		if ahead := min(first+min(run, aheadMost), size); ahead > to {
			return cov.gaps(from, min((ahead+unit-1)/unit*unit, size))
		}
	}
	return gaps
}

// holeBytes is the smallest hole.
const holeBytes = 4 << 10

// content keeps the bytes [from, to) of a file, and its metadata, before they change; from >= to keeps only that the
// content changes, and its size. fd is open for reading. Preconditions: n.mu is held.
func (ch *change) content(n *node, fd int, from, to int64) error {
	kept := len(ch.contents)
	if err := ch.unseen(n, from, to); err != nil {
		return ch.unkept(err)
	}
	n.shared(ch.run.id)
	err := ch.both(func(t *firsts) error { return ch.contentOf(t, n, fd, from, to) })
	if err == nil && len(ch.contents) > kept {
		err = ch.kin(n, fd, from, to)
	}
	if err != nil {
		return ch.unkept(err)
	}
	return nil
}

func (ch *change) contentOf(t *firsts, n *node, fd int, from, to int64) error {
	if t.made(n) {
		return nil
	}
	id, err := ch.e.oidOf(n)
	if err != nil {
		return err
	}
	if id != 0 && t == &ch.firsts {
		if err := ch.touch(thing{obj: id}); err != nil {
			return err
		}
	}
	cov := t.run.coverage(id)
	first := cov == nil
	if !first && cov.has(from, to) {
		return nil
	}
	if first {
		// Later its record tells where it is: every rename sees to that.
		if id, err = ch.self(n); err != nil || id == 0 {
			return err
		}
		if t == &ch.firsts {
			if err := ch.touch(thing{obj: id}); err != nil {
				return err
			}
		}
	}
	own := fd
	if ch.lower != nil {
		fd = int(ch.lower.Fd())
	}
	var st Stat
	if ch.seen != nil && own == fd {
		st = *ch.seen
	} else if err := statAt(fd, "", &st); err != nil {
		return err
	}
	if first {
		cov = &covered{size: int64(st.Size)}
		ch.b.Put(contentKey(t.run.id, id), encodeNumber(st.Size))
		if !t.hasMeta(id) {
			if own == fd {
				err = ch.metaSeen(t, fd, &st, id)
			} else {
				err = ch.metaFD(t, own, id)
			}
			if err != nil {
				return err
			}
		}
	}
	var gaps []span
	if first && (from > 0 || to < int64(st.Size)) {
		// The last block, when it is a hole, would be filled by what is written behind it. All of the file has it anyway.
		tail := span{int64(st.Size) / holeBytes * holeBytes, int64(st.Size)}
		if _, err := unix.Seek(fd, tail.from, unix.SEEK_DATA); tail.from < tail.to && err == unix.ENXIO {
			gaps = append(gaps, tail)
		}
	}
	if size := int64(st.Size); from < min(to, size) {
		unit := min(max(int64(st.Blksize), holeBytes), blockBytes)
		if wide := widened(cov, from, to, size, unit); len(gaps) == 0 {
			gaps = wide
		} else {
			all := covered{size: size}
			for _, g := range append(wide, gaps...) {
				all.add(g.from, g.to)
			}
			gaps = slices.Collect(all.all(0))
		}
	}
	pieces, err := ch.e.capture(fd, gaps)
	if err != nil {
		return err
	}
	for i := range pieces {
		pieces[i].put(&ch.b, pieceKey(t.run.id, id, pieces[i].off))
	}
	t.contents = append(t.contents, touched{id, cov, pieces})
	return nil
}
