package overlay

import (
	"errors"
	"io"

	"golang.org/x/sys/unix"
)

// name decides about one name.
func (m *merge) name(n mergeName) error {
	n.dir = m.dirOf(n.dir)
	if m.goes[n.dir] && n.to == 0 {
		return nil // it goes with its directory
	}
	cur, err := m.at(n)
	if err != nil {
		return err
	}
	if cur == n.to {
		return nil
	}
	if cur != 0 && m.joined[n.to] == cur {
		return m.one(n, cur)
	}
	dir, found, err := m.p.getObject(n.dir)
	if err != nil || !found {
		return err
	}
	at := spot{n.dir, n.name()}
	if inTree := m.inTree(n.dir, 0); !inTree {
		if n.to != 0 {
			m.conflict(n.path, "its directory is gone here", n.dir, spot{})
		}
		return nil
	}
	if n.to != 0 && !n.new && m.moved(n.to) {
		m.conflict(n.path, "moved in the fork, moved or removed here", n.to, spot{})
		return nil
	}
	to := n.to
	if cur != n.base {
		to, err = m.bothNames(n, cur)
	} else if cur != 0 && m.goes[cur] {
		to, err = m.going(n, cur)
	}
	if err != nil || to == cur {
		return err
	}
	m.images.entries[at] = to
	return keepMeta(m.images, m.now, &ref{id: n.dir, kind: unix.S_IFDIR, key: dir.key})
}

// moved says whether something that the fork gave a name is no more where the fork had it from.
func (m *merge) moved(id OID) bool {
	for _, n := range m.names {
		if n.base != id || n.to == id {
			continue
		}
		if cur, err := m.at(n); err != nil || cur != id {
			return true
		}
	}
	if _, inTree := m.p.pathOf(id, 0); inTree {
		return false
	}
	return len(m.now.pathsOf(id)) == 0
}

func (n *mergeName) name() string { return n.at.name }

// at is what the parent has at a name now.
func (m *merge) at(n mergeName) (OID, error) {
	o, found, err := m.p.getObject(n.dir)
	if err != nil || !found {
		return 0, err
	}
	r, err := optional(m.now.lookup(&ref{id: n.dir, kind: unix.S_IFDIR, key: o.key}, n.name()))
	if errors.Is(err, Gone) {
		return 0, nil
	}
	if err != nil || r == nil {
		return 0, err
	}
	return m.now.number(r)
}

// inTree says whether a directory of the parent is in its tree, or comes into it by the merge.
func (m *merge) inTree(dir OID, depth int) bool {
	if _, inTree := m.p.pathOf(dir, 0); inTree || m.comes[dir] {
		return true
	}
	o, found, err := m.p.getObject(dir)
	return err == nil && found && o.at.dir != 0 && depth < maxDepth && m.inTree(o.at.dir, depth+1)
}

// going decides about what the fork has removed, or replaced by something new, and the parent has as it was there: it may
// have changed within.
func (m *merge) going(n mergeName, cur OID) (OID, error) {
	o, found, err := m.p.getObject(cur)
	if err != nil || !found {
		return n.to, err
	}
	if o.kind == unix.S_IFREG && n.to != 0 {
		return m.bothFiles(n, cur, cur)
	}
	r := &ref{id: cur, kind: o.kind, key: o.key}
	changed, err := m.changedWithin(r, 0)
	if err != nil || !changed {
		return n.to, err
	}
	if m.conflict(n.path, "removed in the fork, changed here", cur, spot{n.dir, n.name()}) {
		return n.to, nil
	}
	return cur, nil
}

// bothNames decides about a name that the parent has given something else since.
func (m *merge) bothNames(n mergeName, cur OID) (OID, error) {
	if cur != 0 && n.to != 0 {
		return m.bothFiles(n, cur, n.base)
	}
	if cur == 0 && n.to == 0 {
		return 0, nil
	}
	what := "changed in the fork, removed here"
	if n.to == 0 {
		what = "removed in the fork, replaced here"
	} else if n.base == 0 {
		what = "made on both sides"
	}
	if m.conflict(n.path, what, cur, spot{n.dir, n.name()}) {
		return n.to, nil
	}
	return cur, nil
}

// bothFiles decides between two objects at one name; base is what was there.
func (m *merge) bothFiles(n mergeName, cur, base OID) (OID, error) {
	take := func() (OID, error) {
		if m.conflict(n.path, "changed on both sides", cur, spot{n.dir, n.name()}) {
			return n.to, nil
		}
		return cur, nil
	}
	a, b := m.objectRef(cur), m.objectRef(n.to)
	if a == nil || b == nil {
		return take()
	}
	c := &comparer{a: m.now, b: m.now}
	if same, err := c.same(a, b); err != nil || same && a.kind != unix.S_IFDIR {
		return cur, err
	}
	if base == cur && a.kind == unix.S_IFREG {
		same, err := m.parentSame(cur)
		if err != nil {
			return 0, err
		}
		if same && !n.new {
			return n.to, nil
		}
		if same {
			mt, clean, err := m.bothMeta(a, b, base)
			if err != nil {
				return 0, err
			}
			if !clean {
				return take()
			}
			if mt != nil {
				m.images.metas[n.to] = *mt
			}
			return n.to, nil
		}
	}
	if a.kind != unix.S_IFREG || b.kind != unix.S_IFREG || !n.new || base == 0 {
		return take()
	}
	was, ok, err := m.baseText(base)
	if err != nil || !ok {
		if err != nil {
			return 0, err
		}
		return take()
	}
	mine, ok1, err := m.text(m.now, a)
	if err != nil {
		return 0, err
	}
	theirs, ok2, err := m.text(m.now, b)
	if err != nil {
		return 0, err
	}
	text, clean := merge3(was, mine, theirs)
	if !ok1 || !ok2 || !clean {
		return take()
	}
	mt, err := m.now.meta(b)
	if err != nil {
		return 0, err
	}
	if both, clean, err := m.bothMeta(a, b, base); err != nil {
		return 0, err
	} else if !clean {
		return take()
	} else if both != nil {
		mt = *both
	}
	if m.images.contents[n.to], err = m.keepReader(bytesReader(text), int64(len(text))); err != nil {
		return 0, err
	}
	mt.mtime = m.p.clock().UnixNano()
	m.images.metas[n.to] = mt
	return n.to, nil
}

// bothMeta is the attributes of a file that the fork has put in the place of one that the parent has as well: what the parent has
// changed of those of the old one since stays changed. nil: they are the new file's. clean is false where both changed one.
func (m *merge) bothMeta(mine, theirs *ref, base OID) (out *meta, clean bool, err error) {
	a, err := m.now.meta(mine)
	if err != nil {
		return nil, false, err
	}
	b, err := m.now.meta(theirs)
	if err != nil {
		return nil, false, err
	}
	var was meta
	if known := m.recorded[base]; known != nil {
		was = known.meta
	} else if was, err = m.f.lower.v.meta(m.objectRef(base)); err != nil {
		return nil, false, err
	}
	mt, clean := meta3(&was, &a, &b)
	mt.atime, mt.mtime = b.atime, b.mtime
	if !clean || mt.equal(&b) {
		return nil, clean, nil
	}
	return &mt, true, nil
}

func (m *merge) objectRef(id OID) *ref {
	o, found, err := m.p.getObject(id)
	if err != nil || !found {
		return nil
	}
	return &ref{id: id, kind: o.kind, key: o.key}
}

// object decides about the bytes and attributes of what both trees have.
func (m *merge) object(c *mergeObject) error {
	if m.goes[c.parent] {
		return nil
	}
	r := m.objectRef(c.parent)
	if r == nil {
		return nil
	}
	target, gone := c.parent, len(m.now.pathsOf(c.parent)) == 0 && !m.comes[c.parent]
	if gone && r.kind == unix.S_IFREG {
		other, err := m.target(c)
		if err != nil {
			return err
		}
		if other != nil {
			r, target, gone = other, other.id, false
		}
	}
	if gone {
		m.conflict(c.path, "changed in the fork, removed here", c.parent, spot{})
		return nil
	}
	mine, err := m.now.meta(r)
	if err != nil {
		return err
	}
	mt, clean := meta3(&c.base, &mine, &c.meta)
	if !clean {
		if m.conflict(c.path, "its attributes changed on both sides", c.parent, spot{}) {
			mt = c.meta
		} else {
			mt = mine
		}
	}
	mt.atime, mt.mtime = mine.atime, mine.mtime
	if c.bytes != nil {
		take, err := m.bytes(c, target, r)
		if err != nil {
			return err
		}
		if take != nil {
			m.images.contents[target] = take
			mt.mtime = c.meta.mtime
			if take != c.bytes {
				mt.mtime = m.p.clock().UnixNano()
			}
		}
	}
	if m.images.contents[target] != nil || !mt.equal(&mine) {
		m.images.metas[target] = mt
	}
	return nil
}

// wasAt is what the parent had at a name of the fork's at the last merge, or when the fork was made.
func (m *merge) wasAt(at spot, dir OID) (OID, error) {
	v, merged, err := m.f.j.Get(append(key(kMergedAt, uint64(at.dir)), at.name...))
	if err != nil {
		return 0, err
	}
	if merged {
		d := dec{b: v}
		d.u()
		return OID(d.u()), d.err
	}
	return m.baseIn(at.dir, dir, at.name)
}

// target is what a change of the fork's to a file that is gone goes to: the new file that the parent has put in its place, as
// editors do. From then on the two are one. nil: there is none.
func (m *merge) target(c *mergeObject) (*ref, error) {
	dir, err := m.inParent(c.at.dir)
	if err != nil || dir == 0 {
		return nil, err
	}
	if was, err := m.wasAt(c.at, dir); err != nil || was != c.parent {
		return nil, err
	}
	cur, err := m.at(mergeName{at: c.at, dir: dir})
	if err != nil || cur == 0 {
		return nil, err
	}
	r := m.objectRef(cur)
	if r == nil || r.kind != unix.S_IFREG {
		return nil, nil
	}
	v, found, err := m.f.j.Get(key(kMergedAs, uint64(c.fork)))
	if err != nil {
		return nil, err
	}
	if c.remember != nil {
		v, found = c.remember, true
	}
	if found {
		base, err := decodeMergeBase(v)
		if err != nil {
			return nil, err
		}
		base.parent = cur
		m.later.Put(key(kMergedAs, uint64(c.fork)), base.encode())
		m.later.Put(append(key(kMergedAt, uint64(c.at.dir)), c.at.name...), append(encodeNumber(uint64(c.fork)), encodeNumber(uint64(cur))...))
	}
	return r, nil
}

// bytes decides about the bytes of a file that the fork changed; nil: they stay.
func (m *merge) bytes(c *mergeObject, target OID, r *ref) (*content, error) {
	if target == c.parent {
		if same, err := m.parentSame(target); err != nil || same {
			return c.bytes, err
		}
	}
	rd, size, done, err := m.now.reader(r)
	if err != nil {
		return nil, err
	}
	defer done()
	theirs := &layer{e: m.p, live: zeros{}, size: c.bytes.size}
	theirs = &layer{e: m.p, below: theirs, c: c.bytes, size: c.bytes.size}
	if size == c.bytes.size {
		if same, err := sameReaders(rd, theirs, size); err != nil || same {
			return nil, err
		}
	}
	was, ok, err := m.baseText(c.parent)
	if err != nil {
		return nil, err
	}
	if ok && size <= mergedText && c.bytes.size <= mergedText {
		a, b := make([]byte, size), make([]byte, c.bytes.size)
		if _, err := rd.ReadAt(a, 0); err != nil && err != io.EOF {
			return nil, err
		}
		if _, err := theirs.ReadAt(b, 0); err != nil && err != io.EOF {
			return nil, err
		}
		if text, clean := merge3(was, a, b); clean {
			return m.keepReader(bytesReader(text), int64(len(text)))
		}
	}
	if m.conflict(c.path, "changed on both sides", c.parent, spot{}) {
		return c.bytes, nil
	}
	return nil, nil
}
