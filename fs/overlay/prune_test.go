package overlay

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// years readies a stand whose tasks are a year from each other, and gives the state at each end and when each begins.
func years(t *testing.T) (s *stand, ids []tasktree.TaskID, ends []map[string]string, now *time.Time) {
	t.Helper()
	s = newStand(t, 1)
	s.close()
	now = new(time.Time)
	*now = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	s.set = func(o *Options) { o.Clock = func() time.Time { return *now } }
	s.open()
	start(s)
	s.forget(1)
	ends = append(ends, s.snapshot(true))
	ids = append(ids, 0)
	for _, f := range chapters {
		*now = now.AddDate(1, 0, 0)
		s.begin("chapter")
		f(s)
		s.must(s.e.Archive())
		ids = append(ids, s.e.Active("a"))
		ends = append(ends, s.snapshot(true))
	}
	*now = now.AddDate(1, 0, 0)
	s.begin("last")
	s.forget(1)
	return s, ids, ends, now
}

func held(t *testing.T, s *stand) []string {
	t.Helper()
	names, err := s.e.listHold()
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestPrune gives up more and more of the tasks: nothing of the workspace changes, what is left is exact, what is gone says
// so, and in the end nothing is left of it.
func TestPrune(t *testing.T) {
	t.Parallel()
	for end := 1; end <= len(chapters); end++ {
		s, ids, ends, now := years(t)
		before := s.snapshot(true)
		k, _ := s.e.Task(ids[end])
		horizon := k.Active().Add(time.Second)
		dry, err := s.e.Prune(PruneOptions{Before: horizon, DryRun: true})
		s.must(err)
		if k, _ := s.e.Task(ids[end]); k.Pruned {
			t.Fatal("a dry run prunes")
		}
		res, err := s.e.Prune(PruneOptions{Before: horizon})
		s.must(err)
		if fmt.Sprint(res.Tasks) != fmt.Sprint(dry.Tasks) || len(res.Tasks) != end+1 || res.Tasks[end] != ids[end] {
			t.Fatalf("pruned %v, the dry run says %v, task %d should go last", res.Tasks, dry.Tasks, ids[end])
		}
		s.check("prune", before)
		if end == 2 {
			s.reopen()
		}
		for i, id := range ids {
			if _, err := s.e.Preview("a", id); i < end != errors.Is(err, Pruned) || i >= end && err != nil {
				t.Errorf("after %d is gone, the way to %d: %v", ids[end], id, err)
			}
			if i > 0 {
				s.saysPruned(id, i <= end)
			}
		}
		last := len(ids) - 1
		for i := last; i >= end; i-- {
			_, err := s.e.Switch("a", ids[i], MoveOptions{})
			s.must(err)
			s.check(fmt.Sprintf("switch to end %d", i), ends[i])
		}
		if _, err := s.e.Switch("a", ids[end-1], MoveOptions{}); !errors.Is(err, Pruned) {
			t.Fatalf("a move beyond the point that is kept: %v", err)
		}
		s.check("a refused move", ends[end])
		_, err = s.e.Switch("a", ids[last], MoveOptions{})
		s.must(err)
		s.forget(1)
		*now = now.AddDate(1, 0, 0)
		_, err = s.e.Prune(PruneOptions{Before: *now})
		s.must(err)
		if left := held(t, s); len(left) != 0 {
			t.Errorf("in hold are left %q", left)
		}
		refs, err := s.e.references(false)
		s.must(err)
		if len(refs.blobs)+len(refs.copies)+len(refs.objects) > 0 {
			t.Errorf("images are left: %+v", refs)
		}
		s.verify()
		s.check("all is pruned", before)
	}
}

// saysPruned asks all that is known of a task.
func (s *stand) saysPruned(id tasktree.TaskID, pruned bool) {
	s.t.Helper()
	_, files := s.e.Files(id)
	_, before := s.e.Before(id)
	for what, err := range map[string]error{"files": files, "diff": s.e.DiffTask(io.Discard, id, nil), "before": before} {
		if errors.Is(err, Pruned) != pruned || !pruned && err != nil {
			s.t.Errorf("%s of task %d, pruned %v: %v", what, id, pruned, err)
		}
	}
	if _, err := s.e.Revert("a", id, MoveOptions{}); pruned && !errors.Is(err, Pruned) {
		s.t.Errorf("revert of pruned task %d: %v", id, err)
	} else if err == nil {
		s.undo()
	}
	if k, _ := s.e.Task(id); k.Pruned != pruned || pruned && k.Files == 0 {
		s.t.Errorf("task %d: %+v", id, k)
	}
}

// TestPruneBySize gives up the oldest until the store is small enough, and no more.
func TestPruneBySize(t *testing.T) {
	t.Parallel()
	s, ids, ends, _ := years(t)
	size, err := s.e.storeBytes()
	s.must(err)
	res, err := s.e.Prune(PruneOptions{MaxBytes: size})
	s.must(err)
	if len(res.Tasks) != 0 {
		t.Fatalf("pruned %v although the store was small enough", res.Tasks)
	}
	res, err = s.e.Prune(PruneOptions{MaxBytes: res.After - 1})
	s.must(err)
	if len(res.Tasks) == 0 || len(res.Tasks) >= len(s.e.Tasks())-1 {
		t.Fatalf("pruned %v for one byte, of %d tasks", res.Tasks, len(s.e.Tasks()))
	}
	_, err = s.e.Switch("a", ids[len(ids)-1], MoveOptions{})
	s.must(err)
	s.check("what is left", ends[len(ends)-1])
	if res, err = s.e.Prune(PruneOptions{MaxBytes: 1}); err != nil || len(res.Tasks) == 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	s.check("all is pruned that can be", ends[len(ends)-1])
}

// TestPruneKeepsTheNew says that what is in use does not go for its age.
func TestPruneKeepsTheNew(t *testing.T) {
	t.Parallel()
	s, ids, ends, now := years(t)
	last := len(ids) - 1
	_, err := s.e.Switch("a", 0, MoveOptions{}) // today
	s.must(err)
	if res, err := s.e.Prune(PruneOptions{Before: now.Add(-time.Hour)}); err != nil || len(res.Tasks) != 1 || res.Tasks[0] == ids[1] {
		t.Fatalf("what was undone just now goes: %+v, %v", res, err) // but for the setup's own task
	}
	_, err = s.e.Switch("a", ids[last], MoveOptions{})
	s.must(err)
	s.check("redo", ends[last])
	s.agent = "b"
	s.must(s.create("b", "b", 0o644))
	if res, err := s.e.Prune(PruneOptions{Before: now.Add(time.Second)}); err != nil || len(res.Tasks) == 0 {
		t.Fatal(err)
	}
	if k, _ := s.e.Task(s.e.Active("b")); k.Pruned || k.Sealed {
		t.Errorf("a task that goes on is pruned: %+v", k)
	}
}

// TestPruneAndConflicts keeps what tells of another agent's later change although the task that made it is pruned.
func TestPruneAndConflicts(t *testing.T) {
	t.Parallel()
	for path, change := range map[string]func(s *stand) error{
		"mid":  func(s *stand) error { return s.rewrite("mid", "b") },
		"made": func(s *stand) error { return s.create("made/below", "b", 0o644) },
	} {
		s, _, _, now := years(t)
		s.begin("long")
		s.must(s.rewrite("mid", "a"))
		s.must(s.mkdir("made", 0o755))
		s.agent = "b"
		s.begin("short")
		short := s.e.Active("b")
		s.must(change(s))
		*now = now.AddDate(1, 0, 0)
		s.begin("next")
		*now = now.AddDate(1, 0, 0)
		s.agent = "a"
		s.must(s.create("today", "a", 0o644))
		_, err := s.e.Prune(PruneOptions{Before: now.Add(-time.Hour)})
		s.must(err)
		if k, _ := s.e.Task(short); !k.Pruned {
			t.Fatalf("task %d is not pruned", short)
		}
		_, err = s.e.Undo("a", MoveOptions{})
		if all := s.e.ConflictsOf("a"); !errors.Is(err, Conflict) || len(all) != 1 || all[0].Path != path || all[0].Task != short {
			t.Errorf("%s: %v, %+v", path, err, all)
		}
		s.begin("later")
		*now = now.AddDate(1, 0, 0)
		_, err = s.e.Prune(PruneOptions{Before: *now})
		s.must(err)
		if all, err := s.e.prunedThings(); err != nil || len(all) > 0 {
			t.Errorf("%s: shares of pruned tasks that nobody needs: %v, %v", path, all, err)
		}
	}
}

// TestSweepLeavesWhatIsOpen says that an inode which a program has open is not given back, and is after that.
func TestSweepLeavesWhatIsOpen(t *testing.T) {
	t.Parallel()
	s, _, _, now := years(t)
	s.begin("remove")
	h, err := s.openFile("run", unix.O_RDWR)
	s.must(err)
	s.must(s.unlink("run"))
	*now = now.AddDate(1, 0, 0)
	s.begin("after")
	*now = now.AddDate(1, 0, 0)
	_, err = s.e.Prune(PruneOptions{Before: *now})
	s.must(err)
	left := len(held(t, s))
	s.must(s.writeAt(h, 0, "still"))
	if got := s.read(h); !strings.HasPrefix(got, "still") {
		t.Errorf("an open file that was pruned reads %q", got)
	}
	mode := uint32(0o600)
	if _, err := s.e.SetAttributes(s.caller(), h.Node(), nil, SetAttr{Mode: &mode}); err != nil {
		t.Errorf("an open file that was pruned: %v", err)
	}
	s.release(h)
	s.forget(1)
	*now = now.AddDate(1, 0, 0)
	s.begin("later")
	*now = now.AddDate(1, 0, 0)
	_, err = s.e.Prune(PruneOptions{Before: *now})
	s.must(err)
	if now := len(held(t, s)); now >= left {
		t.Errorf("%d names were left in hold while a file was open, %d after that", left, now)
	}
}

// TestDeathInPrune dies at every point of a prune. The workspace is the same, each task is whole or pruned, and the next
// prune ends it.
func TestDeathInPrune(t *testing.T) {
	t.Parallel()
	points := 0
	for n := 0; ; n++ {
		s, ids, ends, _ := years(t)
		before := s.snapshot(true)
		second, _ := s.e.Task(ids[2])
		horizon := second.Active().Add(time.Second)
		s.dieAt(n)
		at, died := s.dies(func() { _, err := s.e.Prune(PruneOptions{Before: horizon}); s.must(err) })
		if died {
			points++
			s.abandon()
			s.open()
		}
		what := fmt.Sprintf("death %d at %s", n, at)
		s.check(what, before)
		for i := len(ids) - 1; i >= 0; i-- {
			k, _ := s.e.Task(ids[i])
			_, err := s.e.Switch("a", ids[i], MoveOptions{})
			if err != nil {
				if !errors.Is(err, Pruned) || i > 0 && !k.Pruned || i > 1 {
					t.Fatalf("%s: the way to end %d: %v", what, i, err)
				}
				continue
			}
			s.check(what, ends[i])
		}
		_, err := s.e.Switch("a", ids[len(ids)-1], MoveOptions{})
		s.must(err)
		s.forget(1)
		k, _ := s.e.Task(ids[3])
		_, err = s.e.Prune(PruneOptions{Before: k.Started.Add(-time.Second)})
		s.must(err)
		s.check(what+", pruned again", ends[len(ends)-1])
		s.verify()
		s.sweepsClean()
		s.close()
		if !died {
			break
		}
		if underRace {
			n += 3
		}
	}
	t.Logf("points: %d", points)
	if points < 5 {
		t.Errorf("only %d points to die at", points)
	}
}

// sweepsClean says that everything in hold is needed by an image.
func (s *stand) sweepsClean() {
	s.t.Helper()
	refs, err := s.e.references(true)
	s.must(err)
	for _, name := range held(s.t.(*testing.T), s) {
		var id uint64
		if _, err := fmt.Sscanf(name[1:], "%x", &id); err != nil || name[0] == 'c' && !refs.copies[copyID(id)] || name[0] == 'o' && !refs.objects[OID(id)] {
			s.t.Errorf("%s in hold is needed by nobody", name)
		}
	}
}

// TestFaultInPrune fails every point of a prune. It says so, and everything is as after a death there.
func TestFaultInPrune(t *testing.T) {
	t.Parallel()
	points := 0
	for n := 0; ; n++ {
		s, ids, ends, _ := years(t)
		before := s.snapshot(true)
		k, _ := s.e.Task(ids[2])
		hit := s.faultAt(n, n%2 == 0, unix.EIO)
		_, err := s.e.Prune(PruneOptions{Before: k.Active().Add(time.Second)})
		s.point = nil
		if !*hit {
			s.must(err)
			break
		}
		points++
		if !errors.Is(err, unix.EIO) {
			t.Fatalf("point %d fails, the prune with %v", n, err)
		}
		s.check("failed", before)
		for i := len(ids) - 1; i >= 2; i-- {
			_, err := s.e.Switch("a", ids[i], MoveOptions{})
			s.must(err)
			s.check("a move after a prune that failed", ends[i])
		}
		s.sweep()
		s.verify()
		s.close()
	}
	t.Logf("points: %d", points)
}
