package overlay

import (
	"errors"
	"sync"

	"github.com/ttfs/ttfs/journal"
	"golang.org/x/sys/unix"
)

// OID names an object: one inode that a task touched, for ever. 0: none. The root of the workspace is 1.
type OID uint64

const rootOID OID = 1

// spot is a name in a directory.
type spot struct {
	dir  OID
	name string
}

// object is what is stored of one. Its place in hold goes before its places in the tree: if hold/OID is there, it is the
// object.
type object struct {
	id   OID
	kind uint32 // S_IFMT bits
	key  inoKey
	at   spot // where it is, or is about to be
	was  spot // where it was before that
}

func (o *object) encode() []byte {
	e := encoder(64 + len(o.at.name) + len(o.was.name))
	e.u(uint64(o.kind))
	e.u(o.key.ino)
	e.i(o.key.born)
	for _, s := range []spot{o.at, o.was} {
		e.u(uint64(s.dir))
		e.s(s.name)
	}
	return e.b
}

func decodeObject(id OID, b []byte) (object, error) {
	d := dec{b: b}
	o := object{id: id, kind: uint32(d.u())}
	o.key.ino, o.key.born = d.u(), d.i()
	for _, s := range []*spot{&o.at, &o.was} {
		s.dir, s.name = OID(d.u()), d.s()
	}
	return o, d.err
}

// objTable gives numbers to objects.
type objTable struct {
	mu sync.Mutex
	// next is the number that the next object has; numbers below limit are reserved in the journal.
	next, limit uint64 // +checklocks:mu
}

// reserve is how many numbers one record of the journal reserves: a death wastes at most these.
const reserve = 4096

func (e *Engine) loadObjects() error {
	v, found, err := e.j.Get([]byte{kCounter, 'o'})
	if err != nil {
		return storeError("open", err)
	}
	next := uint64(rootOID) + 1
	if found {
		d := dec{b: v}
		if next = d.u(); d.err != nil {
			return fail("open", "object counter", Damaged, d.err)
		}
	}
	e.objs.next, e.objs.limit = next, next
	return nil
}

// newOID gives a number that was never given before.
func (e *Engine) newOID() (OID, error) {
	e.objs.mu.Lock()
	defer e.objs.mu.Unlock()
	return e.newOIDLocked()
}

func (e *Engine) newOIDLocked() (OID, error) {
	if e.objs.next == e.objs.limit {
		var b journal.Batch
		var v enc
		v.u(e.objs.limit + reserve)
		b.Put([]byte{kCounter, 'o'}, v.b)
		if err := e.j.CommitFreeing(&b); err != nil { // of a removal, it may be
			return 0, storeError("number an object", err)
		}
		e.objs.limit += reserve
	}
	id := OID(e.objs.next)
	e.objs.next++
	return id, nil
}

func inodeKey(k inoKey) []byte { return key(kInode, k.ino, uint64(k.born)) }

// findOID is the number of an inode that was touched before; 0: it never was.
func (e *Engine) findOID(k inoKey) (OID, error) {
	v, found, err := e.j.Get(inodeKey(k))
	if err != nil || !found {
		return 0, storeError("find an object", err)
	}
	d := dec{b: v}
	id := OID(d.u())
	if d.err != nil {
		return 0, fail("find an object", "", Damaged, d.err)
	}
	return id, nil
}

// getObject reads an object's record; found is false for a number that was never given.
func (e *Engine) getObject(id OID) (o object, found bool, err error) {
	if id == rootOID {
		return object{id: rootOID, kind: unix.S_IFDIR, key: e.nodes.root.key}, true, nil
	}
	e.movingMu.RLock()
	for s := range e.movingOf {
		if m := s.objects[id]; m != nil {
			o = *m
			e.movingMu.RUnlock()
			return o, true, nil
		}
	}
	e.movingMu.RUnlock()
	if o, has := e.astray[id]; has {
		return o, true, nil
	}
	v, found, err := e.j.Get(key(kObject, uint64(id)))
	if err != nil || !found {
		return object{}, false, storeError("read an object", err)
	}
	o, err = decodeObject(id, v)
	if err != nil {
		return object{}, false, fail("read an object", "", Damaged, err)
	}
	return o, true, nil
}

// setMoving makes the records of the step's objects those that everybody reads, or no more.
func (s *step) setMoving(on bool) {
	s.e.movingMu.Lock()
	defer s.e.movingMu.Unlock()
	if on {
		s.e.movingOf[s] = struct{}{}
	} else {
		delete(s.e.movingOf, s)
	}
}

func putObject(b *journal.Batch, o *object) {
	b.Put(key(kObject, uint64(o.id)), o.encode())
	b.Put(inodeKey(o.key), encodeNumber(uint64(o.id)))
}

// oidOf is the number of a node's inode, 0 when it has none yet.
func (e *Engine) oidOf(n *node) (OID, error) {
	e.nodes.mu.Lock()
	id, asked := n.oid, n.asked
	e.nodes.mu.Unlock()
	if id != 0 || asked {
		return id, nil
	}
	id, err := e.findOID(n.key)
	if err != nil {
		return 0, err
	}
	e.nodes.mu.Lock()
	defer e.nodes.mu.Unlock()
	if n.oid == 0 {
		n.oid = id
	}
	n.asked = true
	return n.oid, nil
}

// dirOID is the number of a directory, given now if it has none, with the chain of directories that leads to it.
// The record is in the journal when it returns. Preconditions: no lock above Engine.objs.mu is needed.
func (e *Engine) dirOID(n *node) (OID, error) {
	if n == e.nodes.root {
		return rootOID, nil
	}
	id, err := e.oidOf(n)
	if err != nil {
		return 0, err
	}
	p := e.placeOf(n)
	if id != 0 && p.parent == nil {
		return id, nil // in hold
	}
	if p.parent == nil {
		return 0, fail("number a directory", p.name, Gone, nil)
	}
	up, err := e.dirOID(p.parent)
	if err != nil {
		return 0, err
	}
	e.objs.mu.Lock()
	defer e.objs.mu.Unlock()
	if id, err = e.oidOf(n); err != nil {
		return 0, err
	}
	if id != 0 && n.told.Load() {
		return id, nil
	}
	o := object{id: id, kind: unix.S_IFDIR, key: n.key, at: spot{up, p.name}}
	if id != 0 {
		old, found, err := e.getObject(id)
		if err != nil {
			return 0, err
		}
		if found && old.at == o.at {
			n.told.Store(true)
			return id, nil
		}
		o.was = old.at
	} else if o.id, err = e.newOIDLocked(); err != nil {
		return 0, err
	}
	var b journal.Batch
	putObject(&b, &o)
	if err := e.j.CommitFreeing(&b); err != nil { // of a removal, it may be
		return 0, storeError("number a directory", err)
	}
	e.setOID(n, o.id)
	n.told.Store(true)
	return o.id, nil
}

func (e *Engine) setOID(n *node, id OID) {
	e.nodes.mu.Lock()
	n.oid, n.asked = id, true
	e.nodes.mu.Unlock()
}

// locate finds an object as it is now: a descriptor of its directory, to be closed by done, and its name there.
// Errors: Gone, when it is at none of its places; IO, when it could not be looked for at one of them and is at no other.
// Preconditions: the object is a move's own, or is in hold.
func (e *Engine) locate(id OID) (dir int, name string, done func(), err error) {
	if id == rootOID {
		return e.root, ".", func() {}, nil
	}
	o, found, err := e.getObject(id)
	if err != nil {
		return -1, "", nil, err
	}
	if !found {
		return -1, "", nil, fail("locate", "", Damaged, errors.New("an image names an object without a record"))
	}
	var st Stat
	if err := statAt(e.hold, holdName(id), &st); err == nil && keyOf(&st) == o.key {
		return e.hold, holdName(id), func() {}, nil
	} else if err != nil && !absent(err) {
		return -1, "", nil, storeError("locate", err)
	}
	var unknown error
	for _, s := range []spot{o.at, o.was} {
		if s.dir == 0 {
			continue
		}
		fd, done, err := e.openDir(s.dir, 0)
		if err != nil {
			unknown = firstUnknown(unknown, s.name, err)
			continue
		}
		if err := statAt(fd, s.name, &st); err == nil && keyOf(&st) == o.key {
			return fd, s.name, done, nil
		} else if err != nil {
			unknown = firstUnknown(unknown, s.name, err)
		}
		done()
	}
	if unknown != nil {
		return -1, "", nil, unknown
	}
	return -1, "", nil, fail("locate", o.at.name, Gone, nil)
}

// absent says whether an error tells that there is nothing at a name, and not that it could not be looked at.
func absent(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// firstUnknown keeps the first error by which it is unknown whether something is at a name. What only could not be looked
// at, for want of descriptors or of permission, must not be taken for gone: its images would be dropped.
func firstUnknown(first error, name string, err error) error {
	if first != nil || errors.Is(err, Gone) || absent(err) {
		return first
	}
	var own *Error
	if errors.As(err, &own) {
		return err
	}
	return fail("locate", name, IO, err)
}

// maxDepth bounds the chains of directories that are followed; a longer one is a loop in damaged records.
const maxDepth = 4096

// openDir opens a directory by its number. Errors: Gone; IO as of locate.
func (e *Engine) openDir(id OID, depth int) (fd int, done func(), err error) {
	if id == rootOID {
		return e.root, func() {}, nil
	}
	if fd, done, ok := e.dirs.get(dirKey{id: id}); ok {
		var st Stat
		if statAt(fd, "", &st) == nil && st.Nlink > 0 {
			return fd, done, nil
		}
		done()
		e.dirs.drop(dirKey{id: id})
	}
	o, found, err := e.getObject(id)
	if err != nil {
		return -1, nil, err
	}
	if !found || depth > maxDepth {
		return -1, nil, fail("open a directory", "", Damaged, nil)
	}
	var unknown error
	try := func(dir int, name string) int {
		fd, err := openAt(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			unknown = firstUnknown(unknown, name, err)
			return -1
		}
		var st Stat
		if err = statAt(fd, "", &st); err != nil || keyOf(&st) != o.key {
			unix.Close(fd)
			if err != nil {
				unknown = firstUnknown(unknown, name, err)
			}
			return -1
		}
		return fd
	}
	if fd := try(e.hold, holdName(id)); fd >= 0 {
		return fd, e.dirs.put(dirKey{id: id}, fd), nil
	}
	for _, s := range []spot{o.at, o.was} {
		if s.dir == 0 {
			continue
		}
		up, done, err := e.openDir(s.dir, depth+1)
		if err != nil {
			unknown = firstUnknown(unknown, s.name, err)
			continue
		}
		fd := try(up, s.name)
		done()
		if fd >= 0 {
			return fd, e.dirs.put(dirKey{id: id}, fd), nil
		}
	}
	if unknown != nil {
		return -1, nil, unknown
	}
	return -1, nil, fail("open a directory", o.at.name, Gone, nil)
}
