package overlay

import (
	"crypto/sha256"
	"errors"
	"io"
	"slices"

	"golang.org/x/sys/unix"
)

// mergeObject is an object that both trees have and whose bytes or attributes the fork changed.
type mergeObject struct {
	fork, parent OID
	path         string
	at           spot     // where the fork has it
	bytes        *content // the fork's, whole; nil: not changed
	meta         meta     // the fork's
	base         meta
	remember     []byte // what the fork is to remember of it
}

// gather finds what the fork changed.
func (m *merge) gather() error {
	defer m.f.exclusive()()
	m.of, m.parent, m.recorded = map[OID]OID{}, map[OID]OID{}, map[OID]*mergeBase{}
	objects, err := m.bases()
	if err != nil {
		return err
	}
	live, err := m.f.viewOf(nil, 0)
	if err != nil {
		return err
	}
	if err := m.f.j.Scan([]byte{kTaken}, func(k, _ []byte) error {
		return m.gatherName(live, spot{OID(keyNum(k, 0)), string(k[9:])})
	}); err != nil {
		return err
	}
	for _, id := range objects {
		if err := m.gatherMade(live, id); err != nil {
			return err
		}
	}
	for _, id := range objects {
		if err := m.gatherObject(live, id); err != nil {
			return err
		}
	}
	return nil
}

// bases reads what each object of the fork is in the parent, and what it was at the last merge.
func (m *merge) bases() (objects []OID, err error) {
	add := func(fork, parent OID) {
		m.of[parent] = fork
		if _, seen := m.parent[fork]; !seen {
			objects = append(objects, fork)
		}
		m.parent[fork] = parent // what was merged goes before what it was raised from
	}
	err = m.f.j.Scan([]byte{kOrigin}, func(k, v []byte) error {
		d := dec{b: v}
		d.u()
		add(OID(keyNum(k, 0)), OID(d.u()))
		return d.err
	})
	if err != nil {
		return nil, err
	}
	err = m.f.j.Scan([]byte{kMergedAs}, func(k, v []byte) error {
		base, err := decodeMergeBase(v)
		add(OID(keyNum(k, 0)), base.parent)
		m.recorded[base.parent] = base
		return err
	})
	slices.Sort(objects)
	return objects, err
}

// inParent is the parent's object of one of the fork's; 0: it is new.
func (m *merge) inParent(fork OID) (OID, error) {
	if fork == rootOID || fork == 0 {
		return fork, nil
	}
	if id := m.made[fork]; id != 0 {
		return id, nil
	}
	if id, has := m.parent[fork]; has {
		return id, nil
	}
	v, found, err := m.f.j.Get(key(kMergedAs, uint64(fork)))
	if err != nil {
		return 0, err
	}
	if found {
		base, err := decodeMergeBase(v)
		return base.parent, err
	}
	_, at, err := m.f.originOf(fork)
	return at.id, err
}

// gatherName looks at a name that some task of the fork touched.
func (m *merge) gatherName(live *view, at spot) error {
	up, inTree := m.f.pathOf(at.dir, 0)
	if !inTree {
		return nil // the directory went, and with it this
	}
	n := mergeName{at: at, path: joinPath(up, at.name)}
	var err error
	if n.dir, err = m.inParent(at.dir); err != nil || n.dir == 0 {
		return err // it comes with its directory
	}
	o, found, err := m.f.getObject(at.dir)
	if err != nil || !found {
		return err
	}
	now, err := optional(live.lookup(&ref{id: at.dir, kind: o.kind, key: o.key}, at.name))
	if err != nil {
		return err
	}
	if now != nil {
		if n.fork, err = live.number(now); err != nil {
			return err
		}
		if n.to, err = m.inParent(n.fork); err != nil {
			return err
		}
		n.new = m.made[n.fork] != 0
	}
	was, merged, err := m.f.j.Get(append(key(kMergedAt, uint64(at.dir)), at.name...))
	if err != nil {
		return err
	}
	if merged {
		d := dec{b: was}
		fork := OID(d.u())
		n.base = OID(d.u())
		if d.err != nil || fork == n.fork {
			return d.err
		}
	} else if n.base, err = m.baseAt(at.dir, n.dir, at.name); err != nil || n.base == n.to && (n.to != 0 || now == nil) {
		return err
	}
	if now != nil && n.to == 0 {
		n.new = true
		if n.to, err = m.make(live, now, n.fork); err != nil {
			return err
		}
	}
	m.names = append(m.names, n)
	m.b.Put(append(key(kMergedAt, uint64(at.dir)), at.name...), append(encodeNumber(uint64(n.fork)), encodeNumber(uint64(n.to))...))
	return nil
}

// gatherMade looks at the names in a directory that the fork has made and merged: nothing is recorded of what comes and goes
// in it since.
func (m *merge) gatherMade(live *view, id OID) error {
	o, found, err := m.f.getObject(id)
	if err != nil || !found || o.kind != unix.S_IFDIR || m.f.inHold(id, o.key) {
		return err
	}
	if from, _, err := m.f.originOf(id); err != nil || from != nil {
		return err
	}
	names, err := live.list(&ref{id: id, kind: o.kind, key: o.key})
	if err != nil {
		return err
	}
	there := make(map[string]bool, len(names))
	for _, name := range names {
		there[name] = true
	}
	prefix := key(kMergedAt, uint64(id))
	err = m.f.j.Scan(prefix, func(k, _ []byte) error {
		if name := string(k[len(prefix):]); !there[name] {
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := m.gatherName(live, spot{id, name}); err != nil {
			return err
		}
	}
	return nil
}

// baseAt is what the fork was made of has at a name of one of its directories; 0 for nothing. dir is what the parent has of
// the directory.
func (m *merge) baseAt(fork, dir OID, name string) (id OID, err error) {
	err = m.f.lower.with(func() error { id, err = m.baseIn(fork, dir, name); return err })
	return id, err
}

// baseIn is baseAt where the parent's past is held.
func (m *merge) baseIn(fork, dir OID, name string) (OID, error) {
	if from, _, err := m.f.originOf(fork); err != nil || from == nil {
		return 0, err // the fork made it
	}
	v := m.f.lower.v
	low, err := v.lookup(&ref{id: dir, kind: unix.S_IFDIR}, name)
	if errors.Is(err, Gone) || err == unix.ENOENT || err == unix.ENOTDIR {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return v.number(low)
}

// gatherObject looks at an object that both trees have.
func (m *merge) gatherObject(live *view, id OID) error {
	o, found, err := m.f.getObject(id)
	if err != nil || !found || m.f.inHold(id, o.key) {
		return err
	}
	paths := live.pathsOf(id)
	if len(paths) == 0 {
		return nil
	}
	parent, err := m.inParent(id)
	if err != nil {
		return err
	}
	r := &ref{id: id, kind: o.kind, key: o.key}
	c := mergeObject{fork: id, parent: parent, path: paths[0], at: o.at}
	if c.meta, err = live.meta(r); err != nil {
		return err
	}
	base := m.recorded[parent]
	from, _, err := m.f.originOf(id)
	if err != nil {
		return err
	}
	if base != nil {
		c.base = base.meta
	} else if c.base, err = m.f.lower.meta(from.ref); err != nil {
		return err
	}
	var bytes *mergeBytes
	if o.kind == unix.S_IFREG && (from == nil || !from.hollow.Load()) {
		if bytes, err = m.read(live, r); err != nil {
			return err
		}
		changed, err := m.bytesChanged(live, r, bytes, from, base)
		if err != nil {
			return err
		}
		if changed {
			if c.bytes, err = m.keep(live, r, bytes); err != nil {
				return err
			}
		}
	}
	same := c.base
	same.atime, same.mtime = c.meta.atime, c.meta.mtime
	if c.bytes == nil && same.equal(&c.meta) {
		return nil
	}
	c.remember, err = m.remember(live, r, c.meta, bytes, id, parent)
	m.objects = append(m.objects, c)
	return err
}

// bytesChanged says whether a file of the fork is not what it was.
func (m *merge) bytesChanged(live *view, r *ref, is *mergeBytes, from *origin, base *mergeBase) (bool, error) {
	if base != nil {
		sum, err := is.sum(live, r)
		return sum != base.sum, err
	}
	b, nb, doneB, err := m.f.lower.reader(from.ref)
	if err != nil {
		return false, err
	}
	defer doneB()
	if is.size != nb {
		return true, nil
	}
	a := io.ReaderAt(bytesReader(is.data))
	if is.data == nil {
		rd, _, doneA, err := live.reader(r)
		if err != nil {
			return false, err
		}
		defer doneA()
		a = rd
	}
	same, err := sameReaders(a, b, nb)
	return !same, err
}

func sumOf(v *view, r *ref) (sum [32]byte, err error) {
	rd, size, done, err := v.reader(r)
	if err != nil {
		return sum, err
	}
	defer done()
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(rd, 0, size)); err != nil {
		return sum, err
	}
	copy(sum[:], h.Sum(nil))
	return sum, nil
}

// keepReader is content as it is recorded: small content in the record itself, until there is much of it.
func (m *merge) keepReader(rd io.ReaderAt, size int64) (*content, error) {
	c := &content{size: size}
	if size == 0 {
		return c, nil
	}
	p := piece{size: size}
	if size <= smallBytes && m.inline+size <= mergeInline {
		m.inline += size
		b := make([]byte, size)
		if _, err := rd.ReadAt(b, 0); err != nil && err != io.EOF {
			return nil, err
		}
		p = keepData(0, b)
	} else {
		ref, n, err := m.p.blobs.PutReader(io.NewSectionReader(rd, 0, size))
		if err != nil {
			return nil, err
		}
		if n != size {
			return nil, io.ErrUnexpectedEOF
		}
		p.kind, p.ref = pieceBlob, ref
		m.put = true
	}
	c.pieces = []piece{p}
	return c, nil
}
