package overlay

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// ref is something in a view: an object, or what nobody ever touched, by its live directory and name, or what a fork has
// nothing of its own of, by what it is in the lower.
type ref struct {
	id   OID
	up   *ref
	name string
	kind uint32
	key  inoKey // of the inode, where id is 0
	low  *ref
}

func (v *view) root() *ref { return &ref{id: rootOID, kind: unix.S_IFDIR} }

// oid is the object of what is in the view; 0: nobody has touched it yet. At an epoch it may have been touched since it
// was looked up.
func (v *view) oid(r *ref) (OID, error) {
	if r.id != 0 || v.epoch == 0 || r.low != nil {
		return r.id, nil
	}
	return v.e.findOID(r.key)
}

// openLive opens what is on disk of something in the view, with O_PATH.
func (v *view) openLive(r *ref, flags int) (int, error) {
	flags |= unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY
	if v.epoch == 0 {
		return v.tryLive(r, flags)
	}
	if fd, ok := v.openBeside(r, flags); ok {
		return fd, nil
	}
	for try := 0; ; try++ {
		if try == lookTries-1 {
			v.e.places.still()
			defer v.e.places.move()
		}
		fd, err := v.tryLive(r, flags)
		if err == nil || try == lookTries-1 || !absent(err) && !errors.Is(err, Gone) && err != unix.ESTALE {
			return fd, err
		}
	}
}

// openBeside opens something in the view at the name by which it was found, if it is there still.
func (v *view) openBeside(r *ref, flags int) (int, bool) {
	if v.dirs == nil || r.up == nil || r.key == (inoKey{}) {
		return -1, false
	}
	dir, done, err := v.useDir(r.up)
	if err != nil {
		return -1, false
	}
	defer done()
	fd, err := openAt(dir, r.name, flags, 0)
	if err != nil {
		return -1, false
	}
	fd, err = checked(fd, r.key)
	return fd, err == nil
}

// lookTries is how often something is looked for that may be renamed meanwhile.
const lookTries = 4

func (v *view) tryLive(r *ref, flags int) (int, error) {
	id, err := v.oid(r)
	switch {
	case err != nil:
		return -1, err
	case r.low != nil && id == 0:
		return -1, fail("look into a fork", r.name, Damaged, errors.New("what is not raised is not in its own tree"))
	case id != 0:
		dir, name, done, err := v.e.locate(id)
		if err != nil {
			return -1, err
		}
		defer done()
		fd, err := openAt(dir, name, flags, 0)
		if err != nil || v.epoch == 0 {
			return fd, err
		}
		o, _, err := v.e.getObject(id)
		if err != nil {
			unix.Close(fd)
			return -1, err
		}
		return checked(fd, o.key)
	}
	up, err := v.tryLive(r.up, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return -1, err
	}
	defer unix.Close(up)
	fd, err := openAt(up, r.name, flags, 0)
	if err != nil || v.epoch == 0 {
		return fd, err
	}
	return checked(fd, r.key)
}

// checked is a descriptor, if it is of an inode. Errors: ESTALE.
func checked(fd int, k inoKey) (int, error) {
	var st Stat
	if err := statAt(fd, "", &st); err != nil || keyOf(&st) != k {
		unix.Close(fd)
		return -1, unix.ESTALE
	}
	return fd, nil
}

// lookup finds a name in a directory of the view. Errors: ENOENT.
func (v *view) lookup(dir *ref, name string) (*ref, error) {
	f, err := v.find(dir, name)
	return f.r, err
}

// lookupStat is lookup and stat in one, which looks at an inode once.
func (v *view) lookupStat(dir *ref, name string) (*ref, Stat, error) {
	f, err := v.find(dir, name)
	if err != nil {
		return nil, Stat{}, err
	}
	switch {
	case f.live:
		err = v.asItWas(f.r, &f.st)
	case !f.whole:
		f.st, err = v.stat(f.r)
	}
	return f.r, f.st, err
}

// found is what find has found, and what it has seen of its state on the way.
type found struct {
	r     *ref
	st    Stat
	live  bool // st is of what is on disk
	whole bool // st is of the view
}

func (v *view) find(dir *ref, name string) (found, error) {
	if dir.kind != unix.S_IFDIR {
		return found{}, unix.ENOTDIR
	}
	if dir.id == rootOID && name == StoreName {
		return found{}, unix.ENOENT
	}
	if dir.low != nil {
		low, st, err := v.e.lower.lookup(dir.low, name)
		if err != nil {
			return found{}, err
		}
		return v.above(dir, name, low, st)
	}
	if v.epoch == 0 {
		if r, has, err := v.imaged(dir, name); has || err != nil {
			return found{r: r}, err
		}
		return v.findLive(dir, name)
	}
	for try := 0; ; try++ {
		live, err := v.findLive(dir, name)
		if r, has, err := v.imaged(dir, name); has || err != nil {
			return found{r: r}, err
		}
		if err == nil || err == unix.ENOENT || try == lookTries {
			return live, err
		}
	}
}

// imaged is what the images say of a name; has says whether they do. Errors: ENOENT, when they say that nothing was there.
func (v *view) imaged(dir *ref, name string) (r *ref, has bool, err error) {
	d, err := v.oid(dir)
	if err != nil || d == 0 {
		return nil, false, err
	}
	id, has := v.entries[spot{d, name}]
	if !has && v.epoch != 0 {
		id, has, err = v.e.entryAt(v.epoch, spot{d, name})
	}
	if !has || err != nil {
		return nil, false, err
	}
	if id == 0 {
		return nil, true, unix.ENOENT
	}
	o, found, err := v.e.getObject(id)
	if err != nil {
		return nil, true, err
	}
	if !found {
		return nil, true, fail("look up", name, Damaged, nil)
	}
	return &ref{id: id, up: dir, name: name, kind: o.kind, key: o.key}, true, nil
}

func (v *view) findLive(dir *ref, name string) (found, error) {
	fd, done, err := v.useDir(dir)
	if err != nil {
		return found{}, err
	}
	defer done()
	f := found{live: true}
	err = statAt(fd, name, &f.st)
	if err == unix.ENOENT && v.e.lower != nil {
		return v.findBelow(dir, name)
	}
	if err != nil {
		return found{}, err
	}
	id, err := v.e.findOID(keyOf(&f.st))
	if err != nil {
		return found{}, err
	}
	f.r = &ref{id: id, up: dir, name: name, kind: kindOf(&f.st), key: keyOf(&f.st)}
	return f, nil
}

// useDir is an open descriptor of a directory of the view.
func (v *view) useDir(dir *ref) (fd int, done func(), err error) {
	k := dirKey{id: dir.id}
	if dir.id == 0 {
		k.ino = dir.key
	}
	if v.dirs != nil {
		if fd, done, ok := v.dirs.get(k); ok {
			return fd, done, nil
		}
	}
	if fd, err = v.openLive(dir, unix.O_PATH|unix.O_DIRECTORY); err != nil {
		return -1, nil, err
	}
	if v.dirs != nil {
		return fd, v.dirs.put(k, fd), nil
	}
	return fd, func() { unix.Close(fd) }, nil
}

// findBelow finds a name in what a directory of the upper was made of.
func (v *view) findBelow(dir *ref, name string) (found, error) {
	d, err := v.oid(dir)
	if err != nil {
		return found{}, err
	}
	low, st, err := v.e.below(d, name)
	if err != nil {
		return found{}, err
	}
	return v.above(dir, name, low, st)
}

// below is what the lower has at a name of a directory of the upper, where it shows. Errors: ENOENT.
func (e *Engine) below(d OID, name string) (*ref, Stat, error) {
	o, _, err := e.originOf(d)
	if err != nil {
		return nil, Stat{}, err
	}
	if o == nil {
		return nil, Stat{}, unix.ENOENT
	}
	if taken, err := e.taken(d, name); err != nil || taken {
		if err == nil {
			err = unix.ENOENT
		}
		return nil, Stat{}, err
	}
	return e.lower.lookup(o.ref, name)
}

// above is something in the lower, with its state there, as the view has it: one of its other names may have been raised,
// and all are one inode.
func (v *view) above(dir *ref, name string, low *ref, st Stat) (found, error) {
	f := found{r: &ref{low: low, up: dir, name: name, kind: low.kind}, st: st, whole: true}
	if low.kind == unix.S_IFDIR || st.Nlink < 2 {
		return f, nil
	}
	id, err := v.e.raisedAs(keyOf(&st))
	if err == nil && id != 0 {
		f.r.low, f.r.id, f.whole = nil, id, false
	}
	return f, err
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
