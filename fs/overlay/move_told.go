package overlay

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// tell brings the table of nodes up to date after a step, and remembers what the kernel must hear of.
func (s *step) tell(old *images) {
	e := s.e
	for at := range old.entries {
		if _, seen := s.seen.entries[at]; !seen {
			s.seen.entries[at] = s.have.entries[at]
		}
	}
	for id := range old.contents {
		s.seen.contents[id] = nil
	}
	for id := range old.metas {
		s.seen.metas[id] = meta{}
	}
	for _, id := range sortedOIDs(s.objects) {
		o := s.objects[id]
		n := e.known(o.key)
		if n == nil {
			continue
		}
		s.replace(n, o)
		e.unpin(n)
	}
}

// replace gives a node the place that its object has now.
func (s *step) replace(n *node, o *object) {
	e := s.e
	inHold := e.inHold(o.id, o.key)
	if n.dir != nil {
		n.dir.mu.Lock()
		n.dir.dead = inHold
		n.dir.mu.Unlock()
	}
	var parent *node
	if !inHold && o.at.dir != 0 {
		parent = s.dirNode(o.at.dir, 0)
	}
	defer e.places.lock(nil, parent).unlock()
	e.nodes.mu.Lock()
	defer e.nodes.mu.Unlock()
	n.oid, n.asked, n.held = o.id, true, inHold && n.dir == nil
	if parent != nil {
		n.last = nil
		e.setPlaceLocked(n, parent, o.at.name)
		parent.pins--
	} else {
		e.setPlaceLocked(n, nil, "")
		n.inHold = inHold
		e.keptLocked(n)
	}
	e.setAltLocked(n, nil, "")
}

// dirNode is the node of a directory by its number, pinned, made with the chain above it if the kernel does not know
// it; nil when it is nowhere.
func (s *step) dirNode(id OID, depth int) *node {
	e := s.e
	if id == rootOID {
		e.nodes.mu.Lock()
		e.nodes.root.pins++
		e.nodes.mu.Unlock()
		return e.nodes.root
	}
	o, found, err := e.getObject(id)
	if err != nil || !found || depth > maxDepth {
		return nil
	}
	if n := e.known(o.key); n != nil {
		return n
	}
	fd, done, err := e.openDir(id, 0)
	if err != nil {
		return nil
	}
	defer done()
	var st Stat
	if statAt(fd, "", &st) != nil {
		return nil
	}
	if e.inHold(id, o.key) {
		n := e.intern(nil, "", &st, false)
		n.dir.dead = true
		e.nodes.mu.Lock()
		n.oid, n.asked, n.inHold = id, true, true
		e.nodes.mu.Unlock()
		return n
	}
	up := s.dirNode(o.at.dir, depth+1)
	if up == nil {
		return nil
	}
	defer e.unpin(up)
	return e.intern(up, o.at.name, &st, false)
}

// changes are what the kernel must hear of after the move.
func (m *mover) changes() Changes {
	e := m.e
	var c Changes
	for _, at := range sortedSpots(m.seen.entries) {
		o, found, err := e.getObject(at.dir)
		if err != nil || !found {
			continue
		}
		path, inTree := e.pathOf(at.dir, 0)
		ent := EntryChange{Name: at.name, Had: m.seen.entries[at] != 0, DirIno: e.identOf(o.key).ino}
		m.tellWas(&ent, m.seen.entries[at])
		if inTree {
			ent.Path = joinPath(path, at.name)
		}
		if fd, done, err := e.openDir(at.dir, 0); err == nil {
			var st Stat
			ent.Has = statAt(fd, at.name, &st) == nil
			done()
		}
		n := e.known(o.key)
		if n != nil {
			ent.Dir = n.id
			e.unpin(n)
		}
		c.Entries = append(c.Entries, ent)
	}
	nodes := map[NodeID]bool{}
	add := func(id OID) {
		if o, found, err := e.getObject(id); err == nil && found {
			if n := e.known(o.key); n != nil {
				if !nodes[n.id] {
					nodes[n.id] = true
					c.Nodes = append(c.Nodes, n.id)
				}
				e.unpin(n)
			}
		}
	}
	for _, id := range sortedOIDs(m.seen.contents) {
		add(id)
	}
	for _, id := range sortedOIDs(m.seen.metas) {
		add(id)
	}
	for _, at := range sortedSpots(m.seen.entries) {
		if at.dir != 0 {
			add(at.dir)
		}
		if id := m.seen.entries[at]; id != 0 {
			add(id)
		}
	}
	c.Objects = m.objects()
	return c
}

// tellWas says what was at a name.
func (m *mover) tellWas(ent *EntryChange, id OID) {
	if id == 0 {
		return
	}
	o, found, err := m.e.getObject(id)
	if err != nil || !found {
		return
	}
	ent.WasIno, ent.WasDir = m.e.identOf(o.key).ino, o.kind == unix.S_IFDIR
	if n := m.e.known(o.key); n != nil {
		ent.Was = n.id
		m.e.unpin(n)
	}
}

// objects are those of the tree whose content or metadata the move changed.
func (m *mover) objects() []ObjectChange {
	e := m.e
	all := map[OID]ObjectChange{}
	for id := range m.seen.contents {
		all[id] = ObjectChange{Content: true}
	}
	for id := range m.seen.metas {
		c := all[id]
		c.Meta = true
		all[id] = c
	}
	var out []ObjectChange
	type place struct { // of a directory: most have many of the objects
		path   string
		ino    uint64
		inTree bool
	}
	places := map[OID]place{}
	for _, id := range sortedOIDs(all) {
		o, found, err := e.getObject(id)
		if err != nil || !found {
			continue
		}
		c := all[id]
		c.id, c.Ino = id, e.identOf(o.key).ino
		if id != rootOID {
			up, known := places[o.at.dir]
			if !known {
				if dir, found, err := e.getObject(o.at.dir); err == nil && found {
					up.ino = e.identOf(dir.key).ino
					up.path, up.inTree = e.pathOf(o.at.dir, 0)
				}
				places[o.at.dir] = up
			}
			if !up.inTree || e.inHold(id, o.key) {
				continue
			}
			c.Path, c.DirIno = joinPath(up.path, o.at.name), up.ino
		}
		out = append(out, c)
	}
	return out
}

// paths are what the move changed, sorted: entries that came, went or were replaced, and files that got other bytes.
func (m *mover) paths(c Changes) []Change {
	ops := map[string]string{}
	for _, ent := range c.Entries {
		switch {
		case ent.Path == "" || !ent.Had && !ent.Has:
		case !ent.Had:
			ops[ent.Path] = opCreate
		case !ent.Has:
			ops[ent.Path] = opDelete
		default:
			ops[ent.Path] = opModify
		}
	}
	for _, o := range c.Objects {
		if o.Content && ops[o.Path] == "" {
			ops[o.Path] = opModify
		}
	}
	out := make([]Change, 0, len(ops))
	for path, op := range ops {
		out = append(out, Change{op, path})
	}
	slices.SortFunc(out, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return out
}

func joinPath(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// pathOf is where a directory is in the tree; false when it is in hold or nowhere.
func (e *Engine) pathOf(id OID, depth int) (string, bool) {
	if id == rootOID {
		return "", true
	}
	o, found, err := e.getObject(id)
	if err != nil || !found || depth > maxDepth || o.at.dir == 0 || e.inHold(id, o.key) {
		return "", false
	}
	up, inTree := e.pathOf(o.at.dir, depth+1)
	return joinPath(up, o.at.name), inTree
}

// trimStore says whether a path is inside the store.
func trimStore(path string) bool { return path == StoreName || strings.HasPrefix(path, StoreName+"/") }
