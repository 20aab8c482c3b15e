package overlay

import (
	"io"

	"golang.org/x/sys/unix"
)

// text is the bytes of a file that can be merged by line.
func (m *merge) text(v *view, r *ref) ([]byte, bool, error) {
	rd, size, done, err := v.reader(r)
	if err != nil {
		return nil, false, err
	}
	defer done()
	if size > mergedText {
		return nil, false, nil
	}
	b := make([]byte, size)
	if _, err := rd.ReadAt(b, 0); err != nil && err != io.EOF {
		return nil, false, err
	}
	return b, true, nil
}

// baseText is what a file of the parent was at the last merge, or when the fork was made.
func (m *merge) baseText(parent OID) ([]byte, bool, error) {
	if m.recorded[parent] != nil {
		return m.baseBytes(parent)
	}
	r := m.objectRef(parent)
	if r == nil || r.kind != unix.S_IFREG {
		return nil, false, nil
	}
	return m.text(m.f.lower.v, r)
}

// parentSame says whether the bytes of a file of the parent are what they were at the last merge, or when the fork was
// made.
func (m *merge) parentSame(id OID) (bool, error) {
	r := m.objectRef(id)
	if r == nil || r.kind != unix.S_IFREG {
		return true, nil
	}
	if base := m.recorded[id]; base != nil {
		sum, err := sumOf(m.now, r)
		return sum == base.sum, err
	}
	if _, touched, err := m.p.sizeAt(m.info.epoch, id); err != nil || !touched && m.f.lower.v.contents[id] == nil {
		return true, err
	}
	c := &comparer{a: m.now, b: m.f.lower.v}
	return c.sameBytes(r, r)
}

// changedWithin says whether something that goes, or anything below it, is not as the fork knew it.
func (m *merge) changedWithin(r *ref, depth int) (bool, error) {
	if depth > maxDepth {
		return true, nil
	}
	id, err := m.p.findOID(r.key)
	if err != nil {
		return false, err
	}
	if r.kind != unix.S_IFDIR {
		if id == 0 || m.comes[id] {
			return false, nil
		}
		same, err := m.parentSame(id)
		return !same, err
	}
	names, err := m.now.list(r)
	if err != nil {
		return false, err
	}
	for _, name := range names {
		sub, err := m.now.lookup(r, name)
		if err != nil {
			return false, err
		}
		if id != 0 {
			if known, err := m.knew(id, name, sub); err != nil || !known {
				return true, err
			}
		}
		if changed, err := m.changedWithin(sub, depth+1); err != nil || changed {
			return changed, err
		}
	}
	return false, nil
}

// knew says whether the fork had something at a name of a directory of the parent.
func (m *merge) knew(dir OID, name string, is *ref) (bool, error) {
	id, err := m.p.findOID(is.key)
	if err != nil {
		return false, err
	}
	if fork := m.of[dir]; fork != 0 {
		v, merged, err := m.f.j.Get(append(key(kMergedAt, uint64(fork)), name...))
		if err != nil {
			return false, err
		}
		if merged {
			d := dec{b: v}
			d.u()
			return OID(d.u()) == id && id != 0, d.err
		}
		if from, _, err := m.f.originOf(fork); err != nil || from == nil && fork != rootOID {
			return false, err // the fork made the directory: it knows of what it has brought there, and of nothing else
		}
	}
	was, touched, err := m.p.entryAt(m.info.epoch, spot{dir, name})
	if over, has := m.f.lower.v.entries[spot{dir, name}]; has {
		was, touched = over, true
	}
	return !touched || was == id && id != 0, err
}
