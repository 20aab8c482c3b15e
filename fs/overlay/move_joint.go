package overlay

import (
	"cmp"
	"errors"
	"slices"

	"github.com/ttfs/ttfs/journal"
	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// A move of several agents swaps files, content and metadata, part by part (tasktree.Weave): one has nothing to do with
// another. Of entries and directories that is not so.
//
// An object comes to one entry from another. If a task that renamed it were swapped at the one name, and later at the other,
// something else could have been swapped between, and the object be gone from where it was to be kept. So the entries of all
// tasks of the move are swapped at once, in one step, of task 0: what is there after it is known from the images alone, and
// each image gets what the next one had, the first what was there.
//
// The times of a directory change with every entry that comes or goes, also by the steps of a move. So the move keeps what
// directories are when it is recorded, as images of a number of its own, and swaps them at its end, in the record that ends it.

// moveBit tells the number of the images of a move under way from those of tasks.
const moveBit = tasktree.TaskID(1) << 61

// scratch is the number of the move's own images: of the entries of all its tasks, and of directories. Moves of before these
// had numbers had 0.
func (m *mover) scratch() tasktree.TaskID {
	if m.num == 0 {
		return 0
	}
	return moveBit | tasktree.TaskID(m.num)
}

// moveKey is the key of the record of a move under way.
func moveKey(num uint64) []byte {
	if num == 0 {
		return []byte{kMove}
	}
	return key(kMove, num)
}

// farKey is the key of how far a move under way has come.
func farKey(num uint64) []byte { return append(moveKey(num), 'f') }

// comes records how far the move is, and that alone: the record of a move over many tasks is long, and has two of these for each.
// A move of before moves had numbers has nothing but its record.
func (m *mover) comes(b *journal.Batch, prepared bool) {
	if m.num == 0 {
		b.Put(moveKey(0), m.encode(prepared))
		return
	}
	var far enc
	far.u(uint64(m.done))
	far.flag(prepared)
	b.Put(farKey(m.num), far.b)
}

// forgetMove puts into a record that a move is not under way any more.
func forgetMove(b *journal.Batch, num uint64) {
	b.Delete(moveKey(num))
	b.Delete(farKey(num))
}

// dirMeta is a task's image of a directory's metadata.
type dirMeta struct {
	task tasktree.TaskID
	redo bool
	was  meta
}

func isDirMeta(m *meta) bool { return m.mode&unix.S_IFMT == unix.S_IFDIR }

// leaveJoint takes entries, and the metadata of directories, out of images.
func (im *images) leaveJoint() {
	clear(im.entries)
	for id, m := range im.metas {
		if isDirMeta(&m) {
			delete(im.metas, id)
		}
	}
}

// dirMetas are the images of directories in the order in which they are to be swapped: what is taken back first, and there
// what was touched last.
func (m *mover) dirMetas() (map[OID][]dirMeta, error) {
	out := map[OID][]dirMeta{}
	for _, s := range m.plan.Steps {
		im, err := m.e.readImages(s.Task)
		if err != nil {
			return nil, err
		}
		im.leaveOut(m.skip[s.Task])
		for id, mt := range im.metas {
			if isDirMeta(&mt) {
				out[id] = append(out[id], dirMeta{s.Task, s.Redo, mt})
			}
		}
	}
	for _, all := range out {
		slices.SortStableFunc(all, func(a, b dirMeta) int { return m.before(a.redo, b.redo, a.was.at, b.was.at) })
	}
	return out, nil
}

// before orders two swaps of one thing: what is taken back before what is done again, and what was touched last first. On the
// way back only the second counts: the move itself touched them.
func (m *mover) before(aRedo, bRedo bool, a, b uint64) int {
	switch {
	case aRedo == bRedo || m.backward:
		return cmp.Compare(b, a)
	case bRedo:
		return -1
	}
	return 1
}

// entryImage is a task's image of an entry.
type entryImage struct {
	task tasktree.TaskID
	redo bool
	at   uint64
	was  OID
}

// entryImages are the images of entries in the order in which they are to be swapped.
func (m *mover) entryImages() (map[spot][]entryImage, error) {
	out := map[spot][]entryImage{}
	for _, s := range m.plan.Steps {
		im, err := m.e.readImages(s.Task)
		if err != nil {
			return nil, err
		}
		im.leaveOut(m.skip[s.Task])
		for at, was := range im.entries {
			v, found, err := m.e.j.Get(thing{at: at}.key(s.Task))
			if err != nil {
				return nil, storeError("order a move", err)
			}
			i := entryImage{task: s.Task, redo: s.Redo, was: was}
			if found {
				sh, err := decodeShare(v)
				if err != nil {
					return nil, fail("order a move", "", Damaged, err)
				}
				i.at = sh.first
			}
			out[at] = append(out[at], i)
		}
	}
	for _, all := range out {
		slices.SortStableFunc(all, func(a, b entryImage) int { return m.before(a.redo, b.redo, a.at, b.at) })
	}
	return out, nil
}

// entriesStep is the step that swaps all entries.
func (m *mover) entriesStep() (*step, error) {
	all, err := m.entryImages()
	if err != nil {
		return nil, err
	}
	want := newImages()
	for at, chain := range all {
		want.entries[at] = chain[len(chain)-1].was
	}
	return &step{mover: m, want: want, joint: all, objects: map[OID]*object{}}, nil
}

// settleEntries gives each task the entries that it has now.
func (s *step) settleEntries(b *journal.Batch) ([]thing, error) {
	var out []thing
	for _, at := range sortedSpots(s.want.entries) {
		is := s.have.entries[at]
		for _, i := range s.joint[at] {
			b.Put(entryKey(i.task, at), encodeNumber(uint64(is)))
			is = i.was
			if _, err := s.e.renew(b, i.task, thing{at: at}); err != nil {
				return nil, err
			}
		}
		out = append(out, thing{at: at})
	}
	return out, nil
}

// keepDirs puts into the record of the move what the directories are now.
func (m *mover) keepDirs() error {
	all, err := m.dirMetas()
	if err != nil {
		return err
	}
	s := &step{mover: m}
	for _, id := range sortedOIDs(all) {
		err := s.open(id, unix.O_PATH, func(fd int) error {
			var st Stat
			if err := statAt(fd, "", &st); err != nil {
				return err
			}
			now, err := readMeta(fd, &st)
			if err == nil {
				m.first.Put(metaKey(m.scratch(), id), now.encode())
			}
			return err
		})
		if err != nil && !errors.Is(err, Gone) {
			return storeError("prepare a move", err)
		}
	}
	return nil
}

// swapDirs makes the directories what the move leads to, and puts into its last record what the tasks have of them then.
func (m *mover) swapDirs(b *journal.Batch) error {
	all, err := m.dirMetas()
	if err != nil {
		return err
	}
	kept, err := m.e.readImages(m.scratch())
	if err != nil {
		return err
	}
	for _, id := range sortedOIDs(all) {
		is, found := kept.metas[id]
		if !found {
			continue // it is gone, around the mount
		}
		for _, d := range all[id] {
			if is.at, err = m.e.nextSeq(); err != nil {
				return err
			}
			b.Put(metaKey(d.task, id), is.encode())
			is = d.was
		}
		if err := m.setDir(id, &is); err != nil {
			return err
		}
	}
	kept.forget(b, m.scratch())
	return nil
}

// restoreDirs makes the directories what they were before the move.
func (m *mover) restoreDirs(b *journal.Batch) error {
	kept, err := m.e.readImages(m.scratch())
	if err != nil {
		return err
	}
	for _, id := range sortedOIDs(kept.metas) {
		is := kept.metas[id]
		if err := m.setDir(id, &is); err != nil {
			return err
		}
	}
	kept.forget(b, m.scratch())
	return nil
}

func (m *mover) setDir(id OID, is *meta) error {
	if err := m.e.point("restore a directory"); err != nil {
		return storeError("move", err)
	}
	m.seen.metas[id] = meta{}
	err := (&step{mover: m}).open(id, unix.O_PATH, func(fd int) error { return applyMeta(fd, is) })
	if errors.Is(err, Gone) {
		return nil
	}
	return storeError("move", err)
}
