package overlay

import (
	"errors"
	"strconv"

	"github.com/ttfs/ttfs/journal"
	"golang.org/x/sys/unix"
)

// After a power cut the tree can be ahead of the journal. A filesystem commits what became of names in their order, every few seconds and with
// every fsync of anybody; the bytes of the journal's last records, which are with the kernel but were not synced, it may not have written by then.
// So an object can have been moved by an operation of which there is no record any more. It is where its inode is, not gone: it is
// looked for in the whole tree, once, when the store is opened for the first time after the cut. Objects that were set aside need not
// be looked for: their name in hold is their number. The other way around, records of what the tree has not got, cannot be where the journal
// is on the workspace's filesystem: a record is read as far as its file's size says, and that is committed like a name.

// strayDir is a directory on the way of a search.
type strayDir struct {
	up   *strayDir
	name string
	key  inoKey
	id   OID // 0: it was not looked up
}

// search is one for objects that are not where their records say.
type search struct {
	e      *Engine
	wanted map[uint64][]object // by inode number
	found  map[OID]object
	b      journal.Batch
}

// findAstray finds the objects that images name and that are at none of the places that their records tell. Their records are made
// anew; of an engine that may only read, in memory. What is not found is left to who looks for it. Preconditions: the engine is being opened.
func (e *Engine) findAstray() error {
	if err := e.passNumbers(); err != nil {
		return err
	}
	refs, err := e.references(true)
	if err != nil {
		e.log.Warn("what the power cut has left of the records cannot be looked through; `ttfs fsck` says more", "err", err)
		return nil
	}
	s := search{e: e, wanted: map[uint64][]object{}, found: map[OID]object{}}
	n := 0
	for _, id := range sortedOIDs(refs.objects) {
		if id == 0 || id == rootOID {
			continue
		}
		_, _, done, err := e.locate(id)
		if err == nil {
			done()
			continue
		}
		if o, has, _ := e.getObject(id); has && errors.Is(err, Gone) {
			s.wanted[o.key.ino] = append(s.wanted[o.key.ino], o)
			n++
		}
	}
	if n == 0 {
		return nil
	}
	if err := s.everywhere(); err != nil {
		return err
	}
	e.log.Info("after a power cut: objects were not where their records say", "sought", n, "found", len(s.found))
	if e.opt.ReadOnly {
		e.astray = s.found
		return nil
	}
	return storeError("open", e.j.CommitFreeing(&s.b))
}

// everywhere looks in the tree, and below the directories in hold.
func (s *search) everywhere() error {
	e := s.e
	if err := s.in(e.root, &strayDir{id: rootOID}); err != nil {
		return err
	}
	names, err := e.listHold()
	if err != nil {
		return err
	}
	for _, name := range names {
		id, err := strconv.ParseUint(name[1:], 16, 64)
		if err != nil || name != holdName(OID(id)) {
			continue
		}
		fd, err := openAt(e.hold, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			continue // no directory
		}
		err = s.in(fd, &strayDir{id: OID(id)})
		unix.Close(fd)
		if err != nil {
			return err
		}
	}
	return nil
}

// in looks in one directory and below it. What cannot be opened, also for want of descriptors as deep as it is, is passed over.
func (s *search) in(dir int, d *strayDir) error {
	fd, err := openAt(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	var dirs []string
	var seen error
	err = eachDirent(fd, listBytes, func(ent Dirent) bool {
		if d.id == rootOID && ent.Name == StoreName {
			return true
		}
		if ent.Type == unix.S_IFDIR || ent.Type == 0 {
			dirs = append(dirs, ent.Name)
		}
		for _, o := range s.wanted[ent.Ino] {
			var st Stat
			if statAt(fd, ent.Name, &st) == nil && keyOf(&st) == o.key {
				o.at, o.was = spot{name: ent.Name}, spot{}
				if o.at.dir, seen = s.number(d); seen == nil {
					s.put(&o)
				}
			}
		}
		return seen == nil
	})
	unix.Close(fd)
	if err != nil || seen != nil {
		return seen
	}
	for _, name := range dirs {
		sub, err := openAt(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		var st Stat
		if statAt(sub, "", &st) == nil && s.e.sameDevice(&st) {
			err = s.in(sub, &strayDir{up: d, name: name, key: keyOf(&st)})
		}
		unix.Close(sub)
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *search) put(o *object) {
	s.found[o.id] = *o
	putObject(&s.b, o)
}

// number is that of a directory, given now with those above it if it has none.
func (s *search) number(d *strayDir) (OID, error) {
	if d.id != 0 {
		return d.id, nil
	}
	id, err := s.e.findOID(d.key)
	if err != nil || id != 0 {
		d.id = id
		return id, err
	}
	o := object{kind: unix.S_IFDIR, key: d.key, at: spot{name: d.name}}
	if o.at.dir, err = s.number(d.up); err != nil {
		return 0, err
	}
	if o.id, err = s.e.astrayOID(); err != nil {
		return 0, err
	}
	s.put(&o)
	d.id = o.id
	return d.id, nil
}

// astrayOID is a number that is not in use; of an engine that may only read, for its own time.
func (e *Engine) astrayOID() (OID, error) {
	e.objs.mu.Lock()
	defer e.objs.mu.Unlock()
	if e.opt.ReadOnly {
		e.objs.next++
		return OID(e.objs.next - 1), nil
	}
	return e.newOIDLocked()
}

// passNumbers has the numbers of objects and copies go on beyond those in hold: with its last records the journal may have lost that they were given.
func (e *Engine) passNumbers() error {
	names, err := e.listHold()
	if err != nil {
		return err
	}
	var o, c uint64
	for _, name := range names {
		id, err := strconv.ParseUint(name[1:], 16, 64)
		switch {
		case err != nil:
		case name == holdName(OID(id)):
			o = max(o, id)
		case name == copyName(copyID(id)):
			c = max(c, id)
		}
	}
	e.objs.mu.Lock()
	if o >= e.objs.next {
		e.objs.next, e.objs.limit = o+1, o+1
	}
	e.objs.mu.Unlock()
	v, found, err := e.j.Get([]byte{kCounter, 'c'})
	d := dec{b: v}
	if err != nil || c == 0 || e.opt.ReadOnly || found && d.u() > c {
		return storeError("open", err)
	}
	var b journal.Batch
	b.Put([]byte{kCounter, 'c'}, encodeNumber(c+1))
	return storeError("open", e.j.CommitFreeing(&b))
}
