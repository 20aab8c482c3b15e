package overlay

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// always is after every number of the sequence of changes.
const always = uint64(math.MaxUint64)

// occupant is what is at a place: nothing, an object, or something without a number, which nobody but its maker touched.
type occupant struct {
	id         OID
	there, dir bool
}

func (o occupant) is(other occupant) bool { return o.there == other.there && o.id == other.id }

// turn is what a task did to who is at a place. Of a task that is there, its image is what was before it; of one that is
// undone, it is what was after it. Of a task that came back to a place after another one, all from its first change of it to its
// last counts as one. What cannot be read so follows from the turns after it: those of undone tasks came and
// went, so that what a task left is the image of the next one that is there, or what is at the place now.
type turn struct {
	task     tasktree.TaskID
	undone   bool
	at, last uint64 // of an undone task: when it was taken back
	image    occupant
	then     occupant // what was there after the task was done, or taken back
}

// before and after are those of the task.
func (t *turn) before() occupant {
	if t.undone {
		return t.then
	}
	return t.image
}

func (t *turn) after() occupant {
	if t.undone {
		return t.image
	}
	return t.then
}

// turns are those of a place, oldest first, and what is there now. Only records of this place are read.
func (b *blamer) turns(at spot) (all []turn, now occupant, err error) {
	err = b.shares(thing{at: at}, func(id tasktree.TaskID, s share) error {
		v, found, err := b.e.j.Get(entryKey(id, at))
		if err != nil || !found {
			return err // without an image: it was skipped, for good
		}
		d := dec{b: v}
		o := OID(d.u())
		if d.err != nil {
			return d.err
		}
		t := turn{task: id, undone: b.e.StatusOf(id) == tasktree.Undone, at: s.first, last: s.last}
		if t.image, err = b.object(o); err == nil {
			all = append(all, t)
		}
		return err
	})
	if err != nil {
		return nil, now, storeError("blame", err)
	}
	if now, err = b.now(at.dir, []string{at.name}); err != nil {
		return nil, now, err
	}
	slices.SortFunc(all, func(x, y turn) int { return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.task, y.task)) })
	for i := range all {
		all[i].then = now
		for j := range all[i+1:] {
			next := &all[i+1+j]
			if next.at <= all[i].last {
				continue // the task came back to the place after that
			}
			if !next.undone || all[i].undone && b.wasThere(next.task, all[i].task) {
				all[i].then = next.image
				break
			}
		}
	}
	return all, now, nil
}

// wasThere says whether one undone task was still there when another was taken back before it.
func (b *blamer) wasThere(id, when tasktree.TaskID) bool {
	x, _ := b.e.Task(id)
	y, _ := b.e.Task(when)
	if x.Agent != y.Agent {
		return id < when
	}
	for when > id {
		k, _ := b.e.Task(when)
		when = k.Parent
	}
	return when == id
}

// shares calls f for every task that is there and has a share in a thing.
func (b *blamer) shares(t thing, f func(id tasktree.TaskID, s share) error) error {
	type one struct {
		id tasktree.TaskID
		s  share
	}
	var all []one
	if err := b.e.eachShare(t, func(id tasktree.TaskID, s share) { all = append(all, one{id, s}) }); err != nil {
		return err
	}
	for _, o := range all {
		if _, has := b.e.Task(o.id); !has || b.e.isPruned(o.id) || slices.Contains(b.idle[o.id], t) { // of what was pruned nothing is told
			continue
		}
		if err := f(o.id, o.s); err != nil {
			return err
		}
	}
	return nil
}

// object is the occupant that an image names.
func (b *blamer) object(id OID) (occupant, error) {
	if id == 0 {
		return occupant{}, nil
	}
	o, found, err := b.e.getObject(id)
	if err == nil && !found {
		err = fail("blame", "", Damaged, errors.New("an image names an object without a record"))
	}
	return occupant{id: id, there: true, dir: o.kind == unix.S_IFDIR}, err
}

// now is what is below a directory, wherever that is: in the tree or in hold.
func (b *blamer) now(dir OID, names []string) (occupant, error) {
	fd, done, err := b.e.openDir(dir, 0)
	if errors.Is(err, Gone) {
		return occupant{}, nil
	}
	if err != nil {
		return occupant{}, err
	}
	defer done()
	for _, name := range names[:len(names)-1] {
		sub, err := openAt(fd, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if absent(err) {
			return occupant{}, nil
		}
		if err != nil {
			return occupant{}, fail("blame", name, IO, err)
		}
		defer unix.Close(sub)
		fd = sub
	}
	name := names[len(names)-1]
	var st Stat
	if err := statAt(fd, name, &st); absent(err) {
		return occupant{}, nil
	} else if err != nil {
		return occupant{}, fail("blame", name, IO, err)
	}
	id, err := b.e.findOID(keyOf(&st))
	return occupant{id: id, there: true, dir: kindOf(&st) == unix.S_IFDIR}, err
}

// stay is how long something was at a place.
type stay struct {
	who      occupant
	from, to uint64
}

// staysOf are the stays at a place that its turns tell: those that tasks which are there made, oldest first, and then what
// undone tasks had brought.
func staysOf(turns []turn, now occupant) []stay {
	var out, undone []stay
	from := uint64(0)
	for i := range turns {
		t := &turns[i]
		if t.undone {
			undone = append(undone, stay{t.image, t.at, t.at})
			continue
		}
		out = append(out, stay{t.image, from, t.at})
		from = t.at
	}
	return append(append(out, stay{now, from, always}), undone...)
}

// other finds, among the other places that a turn's task touched, the one where something was before the task, or after
// it: where it came from, or went to.
func (b *blamer) other(t *turn, at spot, id OID, before bool) (spot, bool, error) {
	if id == 0 {
		return spot{}, false, nil
	}
	o, found, err := b.e.getObject(id)
	if err != nil || !found {
		return spot{}, false, err
	}
	for _, s := range []spot{o.at, o.was} { // it is mostly there
		if ok, err := b.heldAt(t.task, s, at, id, before); ok || err != nil {
			return s, ok, err
		}
	}
	var all []spot
	prefix := key(kEntry, uint64(t.task))
	err = b.e.j.Scan(prefix, func(k, v []byte) error {
		s := spot{OID(keyNum(k, 1)), string(k[17:])}
		d := dec{b: v}
		// The image is what is asked for, or it takes the turns of the place to tell.
		if image := OID(d.u()); before != t.undone && image != id || s == at {
			return d.err
		}
		all = append(all, s)
		return d.err
	})
	if err != nil {
		return spot{}, false, storeError("blame", err)
	}
	for _, s := range all {
		if ok, err := b.heldAt(t.task, s, at, id, before); ok || err != nil {
			return s, ok, err
		}
	}
	return spot{}, false, nil
}

// heldAt says whether an object was at a place before a task, or after it, and the other way round was not.
func (b *blamer) heldAt(task tasktree.TaskID, s, but spot, id OID, before bool) (bool, error) {
	if s == but || s.dir == 0 {
		return false, nil
	}
	if _, found, err := b.e.j.Get(entryKey(task, s)); err != nil || !found {
		return false, storeError("blame", err)
	}
	turns, _, err := b.turns(s)
	if err != nil {
		return false, err
	}
	for i := range turns {
		if t := &turns[i]; t.task == task {
			if before {
				return t.before().id == id && t.after().id != id, nil
			}
			return t.after().id == id && t.before().id != id, nil
		}
	}
	return false, nil
}

// pathOf is the path of a place, as it is now or, in what is deleted, as it was last.
func (b *blamer) pathOf(at spot) string {
	path := at.name
	for depth := 0; at.dir != rootOID && at.dir != 0 && depth < maxDepth; depth++ {
		o, found, err := b.e.getObject(at.dir)
		if err != nil || !found {
			break
		}
		at = b.place(&o)
		path = joinPath(at.name, path)
	}
	return path
}

// place is where an object is, or was before it was set aside. A rename that failed has told the place it did not get to.
func (b *blamer) place(o *object) spot {
	if o.was.dir != 0 && (o.at.dir == o.id || !b.e.isAt(o.at, o.key) && b.e.isAt(o.was, o.key)) {
		return o.was
	}
	return o.at
}

// metaNow is the metadata of an object as it is; nil when it cannot be had.
func (b *blamer) metaNow(id OID) *meta {
	v, err := b.e.newView(nil, tasktree.Plan{})
	if err != nil {
		return nil
	}
	m, err := v.meta(&ref{id: id})
	if err != nil {
		return nil
	}
	return &m
}

// deedsOf is what a task did to an object, by its metadata before and after, or after and before.
func deedsOf(content bool, was, is *meta) []Deed {
	var out []Deed
	if content {
		out = append(out, DeedModified)
	}
	if was != nil && is != nil {
		if was.mode&0o7777 != is.mode&0o7777 {
			out = append(out, DeedMode)
		}
		if was.uid != is.uid || was.gid != is.gid {
			out = append(out, DeedOwner)
		}
	}
	if len(out) == 0 {
		out = append(out, DeedAttributes)
	}
	return out
}
