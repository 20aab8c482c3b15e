package overlay

import (
	"io"
	"sort"
	"strings"

	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// view is the workspace as it would be after a plan: what is on disk, with the images of the plan's tasks over it.
// It is read while gate is held, and is right until the next change is recorded.
type view struct {
	e        *Engine
	entries  map[spot]OID
	byDir    map[OID]map[string]OID
	metas    map[OID]meta
	contents map[OID][]*content // to be put over the live bytes, in this order
	names    map[OID][]spot     // where the entries say that an object is
}

// newView reads the images of a plan. An empty plan is the live tree.
func (e *Engine) newView(p tasktree.Plan) (*view, error) {
	v := &view{e: e, entries: map[spot]OID{}, byDir: map[OID]map[string]OID{}, metas: map[OID]meta{}, contents: map[OID][]*content{}, names: map[OID][]spot{}}
	for _, s := range p.Steps {
		im, err := e.readImages(s.Task)
		if err != nil {
			return nil, err
		}
		for at, id := range im.entries {
			v.entries[at] = id
		}
		for id, m := range im.metas {
			v.metas[id] = m
		}
		for id, c := range im.contents {
			v.contents[id] = append(v.contents[id], c)
		}
	}
	for _, at := range sortedSpots(v.entries) {
		id := v.entries[at]
		if v.byDir[at.dir] == nil {
			v.byDir[at.dir] = map[string]OID{}
		}
		v.byDir[at.dir][at.name] = id
		if id != 0 {
			v.names[id] = append(v.names[id], at)
		}
	}
	return v, nil
}

// viewAt is the workspace as it was at the end of a task of an agent.
func (e *Engine) viewAt(a tasktree.Agent, id tasktree.TaskID) (*view, error) {
	e.tasks.mu.Lock()
	p, err := e.tasks.tree.PlanSwitch(a, id)
	e.tasks.mu.Unlock()
	if err != nil {
		return nil, treeError("view", err)
	}
	return e.newView(p)
}

// ref is something in a view: an object, or what nobody ever touched, by its live directory and name.
type ref struct {
	id   OID
	up   *ref
	name string
	kind uint32
}

func (v *view) root() *ref { return &ref{id: rootOID, kind: unix.S_IFDIR} }

// openLive opens what is on disk of something in the view, with O_PATH.
func (v *view) openLive(r *ref, flags int) (int, error) {
	flags |= unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY
	if r.id != 0 {
		dir, name, done, err := v.e.locate(r.id)
		if err != nil {
			return -1, err
		}
		defer done()
		return openAt(dir, name, flags, 0)
	}
	up, err := v.openLive(r.up, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return -1, err
	}
	defer unix.Close(up)
	return openAt(up, r.name, flags, 0)
}

// lookup finds a name in a directory of the view. Errors: ENOENT.
func (v *view) lookup(dir *ref, name string) (*ref, error) {
	if dir.kind != unix.S_IFDIR {
		return nil, unix.ENOTDIR
	}
	if dir.id == rootOID && name == StoreName {
		return nil, unix.ENOENT
	}
	if dir.id != 0 {
		if id, has := v.entries[spot{dir.id, name}]; has {
			if id == 0 {
				return nil, unix.ENOENT
			}
			o, found, err := v.e.getObject(id)
			if err != nil {
				return nil, err
			}
			if !found {
				return nil, fail("look up", name, Damaged, nil)
			}
			return &ref{id: id, up: dir, name: name, kind: o.kind}, nil
		}
	}
	fd, err := v.openLive(dir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var st Stat
	if err := statAt(fd, name, &st); err != nil {
		return nil, err
	}
	id, err := v.e.findOID(keyOf(&st))
	if err != nil {
		return nil, err
	}
	return &ref{id: id, up: dir, name: name, kind: kindOf(&st)}, nil
}

// resolve walks a path, "" for the root.
func (v *view) resolve(path string) (*ref, error) {
	at := v.root()
	for _, name := range strings.Split(path, "/") {
		if name == "" {
			continue
		}
		var err error
		if at, err = v.lookup(at, name); err != nil {
			return nil, err
		}
	}
	return at, nil
}

// list is the names in a directory of the view, sorted.
func (v *view) list(dir *ref) ([]string, error) {
	names := map[string]bool{}
	fd, err := v.openLive(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	b := make([]byte, 32<<10)
	for {
		n, err := unix.Getdents(fd, b)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n == 0 {
			break
		}
		for at := b[:n]; len(at) > 0; {
			ent, size := parseDirent(at)
			at = at[size:]
			if ent.Name != "." && ent.Name != ".." && !(dir.id == rootOID && ent.Name == StoreName) {
				names[ent.Name] = true
			}
		}
	}
	if dir.id != 0 {
		for name, id := range v.byDir[dir.id] {
			if id == 0 {
				delete(names, name)
			} else {
				names[name] = true
			}
		}
	}
	out := make([]string, 0, len(names))
	for name := range names {
		out = append(out, name)
	}
	sort.Strings(out)
	return out, nil
}

// stat is the state of something in the view.
func (v *view) stat(r *ref) (Stat, error) {
	var st Stat
	fd, err := v.openLive(r, unix.O_PATH)
	if err != nil {
		return st, err
	}
	defer unix.Close(fd)
	if err := statAt(fd, "", &st); err != nil {
		return st, err
	}
	if r.id == 0 {
		return st, nil
	}
	if m, has := v.metas[r.id]; has {
		st.Mode, st.Uid, st.Gid = uint16(m.mode), m.uid, m.gid
		st.Atime, st.Mtime = statxTime(m.atime), statxTime(m.mtime)
	}
	if cs := v.contents[r.id]; len(cs) > 0 {
		st.Size = uint64(cs[len(cs)-1].size)
	}
	return st, nil
}

func statxTime(ns int64) unix.StatxTimestamp {
	t := unix.NsecToTimespec(ns)
	return unix.StatxTimestamp{Sec: t.Sec, Nsec: uint32(t.Nsec)}
}

// meta is the metadata of something in the view.
func (v *view) meta(r *ref) (meta, error) {
	if r.id != 0 {
		if m, has := v.metas[r.id]; has {
			return m, nil
		}
	}
	fd, err := v.openLive(r, unix.O_PATH)
	if err != nil {
		return meta{}, err
	}
	defer unix.Close(fd)
	var st Stat
	if err := statAt(fd, "", &st); err != nil {
		return meta{}, err
	}
	return readMeta(fd, &st)
}

// reader reads a file of the view.
func (v *view) reader(r *ref) (io.ReaderAt, int64, func(), error) {
	fd, err := v.openLive(r, unix.O_RDONLY)
	if err != nil {
		return nil, 0, nil, err
	}
	var st Stat
	if err := statAt(fd, "", &st); err != nil {
		unix.Close(fd)
		return nil, 0, nil, err
	}
	l := &layer{e: v.e, live: fd, size: int64(st.Size)}
	if r.id != 0 {
		for _, c := range v.contents[r.id] {
			l = &layer{e: v.e, below: l, live: -1, c: c, size: c.size}
		}
	}
	return l, l.size, func() { unix.Close(fd) }, nil
}

// layer is the bytes of a file with an image over them.
type layer struct {
	e     *Engine
	below *layer
	live  int
	c     *content
	size  int64
}

// ReadAt is io.ReaderAt.
func (l *layer) ReadAt(b []byte, off int64) (int, error) {
	if off >= l.size {
		return 0, io.EOF
	}
	short := false
	if int64(len(b)) > l.size-off {
		b, short = b[:l.size-off], true
	}
	if err := l.fill(b, off); err != nil {
		return 0, err
	}
	if short {
		return len(b), io.EOF
	}
	return len(b), nil
}

func (l *layer) fill(b []byte, off int64) error {
	if l.live >= 0 {
		n, err := preadFull(l.live, b, off)
		clear(b[n:])
		return err
	}
	n, err := l.below.ReadAt(b, off)
	if err != nil && err != io.EOF {
		return err
	}
	clear(b[n:])
	for i := range l.c.pieces {
		p := &l.c.pieces[i]
		from, to := max(off, p.off), min(off+int64(len(b)), p.off+p.size)
		if from >= to {
			continue
		}
		r, err := l.e.openPiece(p)
		if err != nil {
			return err
		}
		_, err = r.ReadAt(b[from-off:to-off], from-p.off)
		r.close()
		if err != nil && err != io.EOF {
			return storeError("read the bytes before", err)
		}
	}
	return nil
}

// readlink is the target of a link in the view; no task can change it.
func (v *view) readlink(r *ref) ([]byte, error) {
	fd, err := v.openLive(r, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return readlink(fd)
}

// pathOf is where a directory is in the view; false when it is not in its tree.
func (v *view) pathOf(id OID, depth int) (string, bool) {
	if id == rootOID {
		return "", true
	}
	if depth > maxDepth {
		return "", false
	}
	var at spot
	if names := v.names[id]; len(names) > 0 {
		at = names[0]
	} else {
		o, found, err := v.e.getObject(id)
		if err != nil || !found || o.at.dir == 0 || v.e.inHold(id, o.key) {
			return "", false
		}
		if other, overridden := v.entries[o.at]; overridden && other != id {
			return "", false
		}
		at = o.at
	}
	up, inTree := v.pathOf(at.dir, depth+1)
	if !inTree {
		return "", false
	}
	return joinPath(up, at.name), true
}

// pathsOf is every place of an object in the view that is known: a file may have several names.
func (v *view) pathsOf(id OID) []string {
	if id == rootOID {
		return []string{""}
	}
	spots := v.names[id]
	if o, found, err := v.e.getObject(id); err == nil && found {
		for _, at := range []spot{o.at, o.was} {
			if _, told := v.entries[at]; !told && at.dir != 0 && v.e.isAt(at, o.key) {
				spots = append(spots[:len(spots):len(spots)], at)
			}
		}
	}
	var paths []string
	for _, at := range spots {
		if up, inTree := v.pathOf(at.dir, 0); inTree {
			paths = append(paths, joinPath(up, at.name))
		}
	}
	return paths
}

// isAt says whether an inode has a name.
func (e *Engine) isAt(at spot, k inoKey) bool {
	fd, done, err := e.openDir(at.dir, 0)
	if err != nil {
		return false
	}
	defer done()
	var st Stat
	return statAt(fd, at.name, &st) == nil && keyOf(&st) == k
}
