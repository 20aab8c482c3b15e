package overlay

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// disputed is a workspace of a few paths over which two agents dispute, and what is to be told of them: by path and task, when
// it was changed last.
type disputed struct {
	*stand
	clock int
	last  map[string]map[tasktree.TaskID]int
	// made is the task that made a path last. It does not remove it again: what others did to a file between its creation and
	// its removal by one task has no place, and is not told.
	made map[string]tasktree.TaskID
	log  string
}

// changes notes which paths an act changed, as changes of a task.
func (d *disputed) changes(paths []string, id tasktree.TaskID) {
	d.clock++
	for _, p := range paths {
		if d.last[p] == nil {
			d.last[p] = map[tasktree.TaskID]int{}
		}
		d.last[p][id] = d.clock
	}
}

func (d *disputed) note(format string, args ...any) { d.log += fmt.Sprintf(format, args...) + "\n" }

// work does one thing to one path. Creating and removing are there as well as what changes a file.
func (d *disputed) work(a tasktree.Agent, path string) {
	d.agent = a
	_, err := d.walk(path)
	what := d.rng.IntN(3)
	switch {
	case err != nil:
		d.must(d.create(path, fmt.Sprint("made by ", a), 0o644))
	case what == 0 && d.made[path] != d.e.Active(a):
		d.must(d.unlink(path))
	case what == 1:
		d.must(d.rewrite(path, fmt.Sprint("of ", a, d.clock)))
	default:
		d.must(d.append(path, fmt.Sprint(" ", a)))
	}
	if err != nil {
		d.made[path] = d.e.Active(a)
	}
	d.note("%s in task %d: %d of %s, %v", a, d.e.Active(a), what, path, err)
	d.changes([]string{path}, d.e.Active(a))
}

// move makes a move; forced only where it is refused. What a task has changed, its redo changes again.
func (d *disputed) move(a tasktree.Agent, op string, f func(MoveOptions) (MoveResult, error)) {
	from := d.e.Active(a)
	n := len(d.e.Tasks())
	res, err := f(MoveOptions{})
	if err != nil && d.rng.IntN(2) == 0 {
		res, err = f(MoveOptions{Force: true})
	}
	d.note("%s of %s: %d to %d, %v", op, a, from, res.To, err)
	if err != nil {
		return
	}
	if len(d.e.Tasks()) > n { // it was forced
		var paths []string
		im, err := d.e.readImages(res.To)
		d.must(err)
		for at := range im.entries {
			paths = append(paths, at.name)
		}
		for _, p := range []string{"f", "g"} { // of what is at no name any more nobody is told
			if o := d.at(p); o != 0 && im.contents[o] != nil && !slices.Contains(paths, p) {
				paths = append(paths, p)
			}
		}
		d.changes(paths, res.To)
		return
	}
	if op == "redo" {
		for p, all := range d.last {
			if _, has := all[res.To]; has {
				d.changes([]string{p}, res.To)
			}
		}
	}
}

// at is the object at a path; 0: nothing is there.
func (d *disputed) at(path string) OID {
	var st Stat
	if err := statAt(unix.AT_FDCWD, filepath.Join(d.dir, path), &st); err != nil {
		return 0
	}
	id, err := d.e.findOID(keyOf(&st))
	d.must(err)
	return id
}

// TestBlameOfForces: two agents change the same few files, undo, force over one another, take the force back, and do it again.
// Blame tells each task that changed a path, and those that are not undone in the order in which they changed it last.
// TTFS_NIGHTLY=1 tries 300 seeds.
func TestBlameOfForces(t *testing.T) {
	t.Parallel()
	seeds := uint64(8)
	if os.Getenv("TTFS_NIGHTLY") != "" {
		seeds = 300
	}
	forces := 0
	for seed := uint64(1); seed <= seeds; seed++ {
		d := &disputed{stand: newStand(t, seed), last: map[string]map[tasktree.TaskID]int{}, made: map[string]tasktree.TaskID{}}
		paths := []string{"f", "g"}
		for range 60 {
			a := []tasktree.Agent{"a", "b"}[d.rng.IntN(2)]
			switch d.rng.IntN(8) {
			case 0, 1:
				_, err := d.e.BeginTask(a, "t")
				d.must(err)
			case 2:
				d.move(a, "undo", func(o MoveOptions) (MoveResult, error) { return d.e.Undo(a, o) })
			case 3:
				d.move(a, "redo", func(o MoveOptions) (MoveResult, error) { return d.e.Redo(a, o) })
			default:
				d.work(a, paths[d.rng.IntN(2)])
			}
			if d.rng.IntN(20) == 0 {
				d.reopen()
			}
			d.told(paths)
			if t.Failed() {
				t.Fatalf("seed %d:\n%s", seed, d.log)
			}
		}
		for _, k := range d.e.Tasks() {
			if k.Forced {
				forces++
			}
		}
		d.close()
	}
	if forces < int(seeds) {
		t.Errorf("only %d moves were forced", forces)
	}
}

func (d *disputed) told(paths []string) {
	d.t.Helper()
	for _, p := range paths {
		var want []tasktree.TaskID
		for id := range d.last[p] {
			if d.e.StatusOf(id) != tasktree.Undone {
				want = append(want, id)
			}
		}
		slices.SortFunc(want, func(x, y tasktree.TaskID) int { return cmp.Compare(d.last[p][y], d.last[p][x]) })
		line, err := d.e.Blame(p)
		if err != nil && len(want) > 0 {
			d.t.Errorf("%s: %v", p, err)
		}
		var got []tasktree.TaskID
		for _, v := range line {
			if v.Status != tasktree.Undone {
				got = append(got, v.Task)
			}
		}
		if !slices.Equal(got, want) {
			d.t.Errorf("%s is told of tasks %v, want %v: %s", p, got, want, told(line))
			continue
		}
		if len(line) == 0 || line[0].Status == tasktree.Undone {
			continue
		}
		_, err = d.walk(p)
		did := line[0].What
		if slices.Contains(did, DeedDeleted) && slices.Contains(did, DeedModified) {
			continue // it removed one file, and then changed the one that another made there
		}
		if gone := slices.Contains(did, DeedDeleted); gone == (err == nil) {
			d.t.Errorf("%s: %v, and the last is told to have %v it: %s", p, err, did, told(line))
		}
	}
}

// TestBlameOfNothing: a force, a revert or a restore is not told of at a path which it leaves as it finds it, and a task that comes
// back to a path after another one is told with what came of it in the end.
func TestBlameOfNothing(t *testing.T) {
	t.Parallel()
	s := newStand(t, 1)
	line := func(path, want string) {
		t.Helper()
		got, err := s.e.Blame(path)
		if err != nil || told(got) != want {
			t.Errorf("%s: %s, %v, want %s", path, told(got), err, want)
		}
	}
	s.begin("made")
	s.must(errors.Join(s.create("f", "a", 0o644), s.create("g", "a", 0o644)))
	s.agent = "b"
	s.begin("removed")
	s.must(errors.Join(s.unlink("f"), s.append("g", " b")))
	_, err := s.e.Undo("a", MoveOptions{Force: true})
	s.must(err)
	line("f", "removed deleted; made created")
	line("g", "forced undo from 1 to 0 deleted; removed modified; made created")

	s.begin("h")
	s.must(errors.Join(s.create("h", "b", 0o644), s.chmod("h", 0o600)))
	s.begin("first and last")
	s.must(s.unlink("h"))
	s.must(s.as("a", func() error {
		return errors.Join(s.create("h", "a", 0o640), s.chmod("h", 0o600), s.unlink("h"))
	}))
	s.must(s.create("h", "b again", 0o644))
	line("h", "first and last modified; automatic created; h created")
}
