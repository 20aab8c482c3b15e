package overlay

import (
	"errors"
	"fmt"

	"github.com/ttfs/ttfs/journal"
	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// step is one task of a move.
type step struct {
	*mover
	task tasktree.TaskID
	// partly: the task has images that are not of this step.
	partly bool
	joint  map[spot][]entryImage // of the step of all entries
	times  map[OID]bool          // directories of which nothing but the times is the task's
	want   *images               // what the workspace is to be
	have   *images               // what it was when the step was prepared
	// kept are objects that stay open (step_open.go), and looks those of them into which is still to be looked.
	kept  map[OID]stepFD
	looks []*looking
	near  nearDir
	last  struct { // the directory that inodeOf was asked for last
		id  OID
		key inoKey
	}
	// sure: the workspace is what have says, where the step has not changed it: it was prepared, and nothing of it has failed.
	sure bool
	// objects are the records read or changed in this step, by number.
	objects map[OID]*object
}

// prepare looks at everything that the step will change and keeps it.
func (s *step) prepare() (err error) {
	e := s.e
	s.have = newImages()
	defer func() {
		if err != nil {
			s.letGo()
			s.e.dropCopies(s.have)
		}
	}()
	var b journal.Batch
	for _, at := range sortedSpots(s.want.entries) {
		id, err := s.occupant(&b, at)
		if err != nil {
			return err
		}
		s.have.entries[at] = id
	}
	if err := s.prepareContents(); err != nil {
		return err
	}
	for _, id := range sortedOIDs(s.want.metas) {
		if _, has := s.have.metas[id]; has {
			continue // it was looked at with the content
		}
		err := s.keep(id, unix.O_PATH, func(fd int, st *Stat) error { return s.prepareMeta(id, fd, st) })
		if err != nil && !s.isLost(id, err) {
			return storeError("prepare a move", err)
		}
	}
	s.leaveAttributes()
	s.have.put(&b, []byte{kNew}, s.number())
	s.comes(&b, true)
	mark, drop, err := s.freezeStep(&b)
	if err != nil {
		return storeError("prepare a move", err)
	}
	if err = e.point("prepare"); err == nil {
		err = e.j.Commit(&b)
	}
	if err != nil {
		drop()
		return storeError("prepare a move", err)
	}
	mark()
	s.sure = true
	return nil
}

func (s *step) prepareMeta(id OID, fd int, st *Stat) error {
	m, err := readMeta(fd, st)
	if err == nil {
		m.at, err = s.e.metaSeq(st)
	}
	s.have.metas[id] = m
	return err
}

// occupant is the object at an entry now, numbered if it was not.
func (s *step) occupant(b *journal.Batch, at spot) (OID, error) {
	fd, done, err := s.e.openDir(at.dir, 0)
	if err != nil {
		if errors.Is(err, Gone) {
			s.lose(fmt.Sprintf("%q in a directory that is gone", at.name))
			delete(s.want.entries, at)
			return 0, nil
		}
		return 0, err
	}
	defer done()
	var st Stat
	if err := statAt(fd, at.name, &st); err == unix.ENOENT {
		return 0, nil
	} else if err != nil {
		return 0, fail("prepare a move", at.name, IO, err)
	}
	id, err := s.e.findOID(keyOf(&st))
	if err != nil || id != 0 {
		return id, err
	}
	if s.e.epochs.newest.Load() != nil {
		return s.e.numberLive(&st, at) // who reads in a fork could number it at the same time
	}
	for _, o := range s.objects {
		if o.key == keyOf(&st) {
			return o.id, nil
		}
	}
	if id, err = s.e.newOID(); err != nil {
		return 0, err
	}
	o := &object{id: id, kind: kindOf(&st), key: keyOf(&st), at: at}
	putObject(b, o)
	s.objects[id] = o
	return id, nil
}

// isLost says that an object is at none of its places, and leaves it out of the step.
func (s *step) isLost(id OID, err error) bool {
	if !errors.Is(err, Gone) {
		return false
	}
	name := fmt.Sprintf("object %d", id)
	if o, found, _ := s.e.getObject(id); found && o.at.name != "" {
		name = fmt.Sprintf("%q", o.at.name)
	}
	s.lose(name)
	delete(s.want.metas, id)
	delete(s.want.contents, id)
	return true
}

func (s *step) lose(what string) {
	s.lost = append(s.lost, what)
	s.e.log.Warn("something was removed or replaced around the mount: it is left as it is", "what", what, "task", s.task)
}

// complete applies the step and settles it. What fails is taken back.
func (s *step) complete() error {
	s.setMoving(true)
	defer s.setMoving(false)
	defer s.letGo()
	err := s.apply(s.want, s.have)
	if err == nil {
		err = s.settle()
	}
	if err == nil {
		return nil
	}
	err = s.failure(err)
	s.e.log.Error("a step of a move failed and is taken back", "task", s.task, "err", err)
	s.half, s.sure = true, false
	if back := s.apply(s.have, s.want); back != nil {
		return fail("move", "", IO, errors.Join(err, back))
	}
	var b journal.Batch
	s.have.drop(&b, []byte{kNew}, s.number())
	s.comes(&b, false)
	if e2 := s.e.j.Commit(&b); e2 != nil {
		return storeError("take a step back", errors.Join(err, e2))
	}
	s.half = false
	s.e.dropCopies(s.have)
	return err
}

func (s *step) failure(err error) error {
	var own *Error
	if errors.As(err, &own) {
		return err
	}
	return storeError("move", err)
}

// apply makes the workspace what want says; have is what it was. Every effect may be there already.
func (s *step) apply(want, have *images) error {
	e := s.e
	done, total := 0, 2*len(want.entries)+len(want.contents)+len(want.metas)
	one := func() {
		done++
		e.far(done, total)
	}
	for _, at := range sortedSpots(want.entries) {
		one()
		if have.entries[at] != 0 && have.entries[at] != want.entries[at] {
			if err := s.park(at, have.entries[at]); err != nil {
				return err
			}
		}
	}
	coming := map[OID]int{}
	for at, id := range want.entries {
		if id != 0 && have.entries[at] != id {
			coming[id]++
		}
	}
	for _, at := range sortedSpots(want.entries) {
		one()
		id := want.entries[at]
		if id == 0 || have.entries[at] == id {
			continue
		}
		coming[id]--
		if err := s.put(at, id, coming[id] > 0); err != nil {
			return err
		}
	}
	if err := s.applyContents(want, have, one); err != nil {
		return err
	}
	for _, id := range sortedOIDs(want.metas) {
		one()
		if err := e.point("restore attributes"); err != nil {
			return err
		}
		m := want.metas[id]
		is, sure := have.metas[id]
		if err := s.open(id, unix.O_PATH, func(fd int) error {
			if sure && s.sure && m.onlyTimes(&is) {
				return m.setTimes(fd)
			}
			return applyMeta(fd, &m)
		}); err != nil {
			return err
		}
	}
	return nil
}

// park moves what is at an entry into hold.
func (s *step) park(at spot, id OID) error {
	e := s.e
	if err := e.point("park"); err != nil {
		return err
	}
	fd, done, err := e.openDir(at.dir, 0)
	if err != nil {
		return err
	}
	defer done()
	o, err := s.object(id)
	if err != nil {
		return err
	}
	var st Stat
	if err := statAt(fd, at.name, &st); err != nil && !absent(err) {
		return fmt.Errorf("move %q aside: %w", at.name, err)
	} else if err != nil || keyOf(&st) != o.key {
		return nil // it is gone already, or what is there came around the mount and is not ours to move
	}
	in, err := s.inodeOf(at.dir)
	if err != nil {
		return err
	}
	defer e.lockMove(in, false).unlock() // who looks for it meanwhile finds it
	err = renameAt(fd, at.name, e.hold, holdName(id), unix.RENAME_NOREPLACE)
	if err == unix.EEXIST && o.kind != unix.S_IFDIR && e.inHold(id, o.key) {
		err = unlinkAt(fd, at.name, 0)
	}
	if err != nil {
		return fmt.Errorf("move %q aside: %w", at.name, err)
	}
	return nil
}

// put brings an object to an entry: from hold, or from where else it is. again says that a later entry wants it too.
func (s *step) put(at spot, id OID, again bool) error {
	e := s.e
	if err := e.point("put"); err != nil {
		return err
	}
	fd, done, err := e.openDir(at.dir, 0)
	if err != nil {
		return err
	}
	defer done()
	o, err := s.object(id)
	if err != nil {
		return err
	}
	var st Stat
	if err := statAt(fd, at.name, &st); err == nil {
		if keyOf(&st) == o.key {
			s.placed(o, at)
			return nil
		}
		return fail("move", at.name, Conflict, errors.New("something came to that name around the mount"))
	}
	from, name, letGo, err := e.locate(id)
	if errors.Is(err, Gone) {
		s.lose(fmt.Sprintf("%q", at.name))
		return nil
	}
	if err != nil {
		return err
	}
	defer letGo()
	in, err := s.inodeOf(at.dir)
	if err != nil {
		return err
	}
	defer e.lockMove(in, o.kind == unix.S_IFDIR && from != e.hold).unlock() // who looks for it meanwhile finds it
	if o.kind == unix.S_IFDIR || from == e.hold && !again {
		err = renameAt(from, name, fd, at.name, unix.RENAME_NOREPLACE)
	} else {
		err = linkAt(from, name, fd, at.name)
	}
	if err != nil {
		return fmt.Errorf("bring back %q: %w", at.name, err)
	}
	s.placed(o, at)
	return nil
}

// settle gives the task its new images. Before that, what has a name in the tree loses its link in hold.
func (s *step) settle() error {
	e := s.e
	if err := e.point("settle"); err != nil {
		return err
	}
	var b journal.Batch
	for _, id := range sortedOIDs(s.objects) {
		putObject(&b, s.objects[id])
	}
	old := *s.want
	s.have.drop(&b, []byte{kNew}, s.number())
	settled := s.settled
	if s.joint != nil {
		settled = s.settleEntries
	}
	moved, err := settled(&b)
	if err != nil {
		return err
	}
	s.e.touchTask(&b, s.task) // who moved it has not done with it
	s.done++
	s.comes(&b, false)
	if err := e.j.Commit(&b); err != nil {
		s.done--
		return storeError("settle a move", err)
	}
	e.own(nil, moved)
	s.e.dropCopies(&old)
	for _, id := range sortedOIDs(s.objects) {
		s.unhold(s.objects[id])
	}
	s.tell(&old)
	return nil
}
