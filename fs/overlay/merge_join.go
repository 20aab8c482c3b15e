package overlay

import "golang.org/x/sys/unix"

// Two directories that were made under one name, one on each side, become one: that of the parent, with its attributes, and
// with the entries of both. What the fork's was to be stays in hold, empty of what was taken, until the next sweep.

// join finds the directories that both sides made, also below one another, and adds the names in the fork's to those that
// are decided about.
func (m *merge) join() error {
	m.joined, m.more = map[OID]OID{}, nil
	forks := make(map[OID]OID, len(m.made))
	for fork, id := range m.made {
		forks[id] = fork
	}
	for _, n := range m.names {
		if err := m.joinName(n, forks, 0); err != nil {
			return err
		}
	}
	return nil
}

func (m *merge) joinName(n mergeName, forks map[OID]OID, depth int) error {
	if !n.new || n.to == 0 || depth > maxDepth {
		return nil
	}
	n.dir = m.dirOf(n.dir)
	theirs := m.objectRef(n.to)
	if theirs == nil || theirs.kind != unix.S_IFDIR || m.joined[n.to] != 0 {
		return nil
	}
	cur, err := m.at(n)
	if err != nil || cur == 0 || cur == n.to || cur == n.base {
		return err
	}
	if mine := m.objectRef(cur); mine == nil || mine.kind != unix.S_IFDIR {
		return nil
	}
	m.joined[n.to] = cur
	names, err := m.now.list(theirs)
	if err != nil {
		return err
	}
	for _, name := range names {
		r, err := m.now.lookup(theirs, name)
		if err != nil {
			return err
		}
		sub := mergeName{at: spot{n.fork, name}, path: joinPath(n.path, name), dir: cur, new: true}
		if sub.to, err = m.now.number(r); err != nil {
			return err
		}
		sub.fork = forks[sub.to]
		m.more = append(m.more, sub)
		if err := m.joinName(sub, forks, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// dirOf is the parent's directory that a name goes into.
func (m *merge) dirOf(id OID) OID {
	if cur := m.joined[id]; cur != 0 {
		return cur
	}
	return id
}

// one makes the fork remember that a directory of its own and one of the parent's are one from now on.
func (m *merge) one(n mergeName, cur OID) error {
	base := mergeBase{parent: cur}
	var err error
	if base.meta, err = m.now.meta(m.objectRef(n.to)); err != nil {
		return err
	}
	m.later.Put(key(kMergedAs, uint64(n.fork)), base.encode())
	m.later.Put(append(key(kMergedAt, uint64(n.at.dir)), n.at.name...), append(encodeNumber(uint64(n.fork)), encodeNumber(uint64(cur))...))
	return nil
}
