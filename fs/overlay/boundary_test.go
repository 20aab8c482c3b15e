package overlay

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestBranches goes from each task of a tree with branches to each other.
func TestBranches(t *testing.T) {
	t.Parallel()
	s := newStand(t, 1)
	start(s)
	ends := map[int]map[string]string{0: s.snapshot(true)}
	task := func(do func()) int {
		s.begin("task")
		do()
		id := int(s.e.Active("a"))
		ends[id] = s.snapshot(true)
		return id
	}
	to := func(id int) {
		t.Helper()
		_, err := s.e.Switch("a", taskID(id), MoveOptions{})
		s.must(err)
	}
	one := task(func() { s.must(s.rename("d", "e", 0)); s.must(s.write("f", 0, "1")) })
	two := task(func() { s.must(s.removeAll("e/sub")); s.must(s.rename("f", "e/f", 0)) })
	three := task(func() { s.must(s.rename("e", "d", 0)); s.must(s.create("d/three", "3", 0o600)) })
	to(one)
	four := task(func() { s.must(s.create("f2", "4", 0o644)); s.must(s.rename("f2", "f", 0)) })
	to(0)
	five := task(func() { s.must(s.removeAll("d")); s.must(s.link("f", "d")) })
	to(two)
	six := task(func() { s.must(s.rename("e/f", "mid", 0)); s.must(s.unlink("h1")) })
	all := []int{0, one, two, three, four, five, six}
	for _, a := range all {
		for _, b := range all {
			to(a)
			s.check(fmt.Sprintf("to %d", a), ends[a])
			if a == three || b == five {
				s.forget(0.5)
			}
			to(b)
			s.check(fmt.Sprintf("from %d to %d", a, b), ends[b])
		}
		s.reopen()
	}
	if !s.e.HasBranches(taskID(one)) || s.e.HasBranches(taskID(four)) {
		t.Error("branches are wrong")
	}
	if got := s.e.StatusOf(taskID(five)); got == "current" {
		t.Errorf("task %d is %s", five, got)
	}
	s.verify()
}

// TestRedoAfterBranch goes where one came from, after a new start as well.
func TestRedoAfterBranch(t *testing.T) {
	t.Parallel()
	s := newStand(t, 1)
	start(s)
	s.begin("left")
	s.must(s.create("left", "", 0o644))
	left := s.e.Active("a")
	s.undo()
	s.begin("right")
	s.must(s.create("right", "", 0o644))
	right := s.e.Active("a")
	s.undo()
	s.crash()
	s.redo()
	if at := s.e.Active("a"); at != right {
		t.Fatalf("redo goes to %d, not %d", at, right)
	}
	_, err := s.e.Switch("a", left, MoveOptions{})
	s.must(err)
	s.undo()
	s.reopen()
	s.redo()
	if at := s.e.Active("a"); at != left {
		t.Fatalf("redo goes to %d, not %d", at, left)
	}
}

// TestAutomaticTask begins by itself where no task can be written to: before the first, after a move.
func TestAutomaticTask(t *testing.T) {
	t.Parallel()
	s := newStand(t, 1)
	start(s)
	before := s.snapshot(true)
	s.must(s.create("one", "1", 0o644))
	one := s.e.Active("a")
	if k, has := s.e.Task(one); !has || !k.Auto || k.Parent != 0 {
		t.Fatalf("the first change is in %+v", k)
	}
	after := s.snapshot(true)
	s.undo()
	s.check("undo", before)
	s.must(s.create("two", "2", 0o644))
	two := s.e.Active("a")
	if k, _ := s.e.Task(two); two == one || !k.Auto || k.Parent != 0 {
		t.Fatalf("a change after an undo is in task %d, %+v", two, k)
	}
	s.undo()
	s.check("undo of the second", before)
	_, err := s.e.Switch("a", one, MoveOptions{})
	s.must(err)
	s.check("the first is as it was left", after)
	s.must(s.create("three", "3", 0o644))
	if k, _ := s.e.Task(s.e.Active("a")); k.Parent != one {
		t.Fatalf("a change at a task that was left is in %+v", k)
	}
	s.undo()
	s.check("sealed", after)
}

// TestIdleTask begins another automatic task after a pause, and never for an agent that began one itself.
func TestIdleTask(t *testing.T) {
	t.Parallel()
	s := newStand(t, 1)
	now := time.Unix(1000, 0)
	s.set = func(o *Options) { o.Clock = func() time.Time { return now } }
	s.reopen()
	start(s)
	write := func() int {
		s.must(s.append("f", "x"))
		now = now.Add(autoPause + time.Second)
		return int(s.e.Active("a"))
	}
	if one, two := write(), write(); one == two {
		t.Error("no task begins by itself after a pause")
	}
	s.begin("own")
	if one, two := write(), write(); one != two {
		t.Error("a task begins by itself for an agent that began one")
	}
}

// TestOpenAcrossBoundary writes through one descriptor in several tasks; each is taken back by itself.
func TestOpenAcrossBoundary(t *testing.T) {
	t.Parallel()
	for _, pass := range []bool{false, true} {
		s := newStand(t, 1)
		startBig(s)
		s.e.SetPassthrough(pass)
		ends := []map[string]string{s.snapshot(true)}
		s.begin("open")
		hs := []*Handle{}
		for _, path := range []string{"f", "mid", "big", "h1"} {
			h, err := s.openFile(path, unix.O_RDWR)
			s.must(err)
			hs = append(hs, h)
		}
		write := func(i int) {
			for k, h := range hs {
				b := strings.Repeat(fmt.Sprint(i), 3000*(i+k))
				if h.Mode() == Passthrough && pass {
					_, err := unix.Pwrite(h.FD(), []byte(b), int64(i))
					s.must(err)
				} else {
					s.must(s.writeAt(h, int64(i), b))
				}
			}
		}
		for i := range 3 {
			if i > 0 {
				s.begin("next")
			}
			write(i + 1)
			ends = append(ends, s.snapshot(true))
		}
		for i := 2; i >= 0; i-- {
			s.undo()
			s.check(fmt.Sprintf("pass %v, undo to %d", pass, i), ends[i])
		}
		for i := range 3 {
			s.redo()
			s.check(fmt.Sprintf("pass %v, redo to %d", pass, i+1), ends[i+1])
		}
		// A write after a move is a task of its own.
		s.undo()
		write(7)
		for _, h := range hs {
			s.release(h)
		}
		end := s.snapshot(true)
		s.undo()
		s.check(fmt.Sprintf("pass %v, undo of what was written after an undo", pass), ends[2])
		s.redo()
		s.check(fmt.Sprintf("pass %v, redo of it", pass), end)
		s.close()
	}
}

// TestReaderSeesUndo reads by an open descriptor what undo brings back, and a file that undo brings back by another inode
// stays what it was for who has it open.
func TestReaderSeesUndo(t *testing.T) {
	t.Parallel()
	s := newStand(t, 1)
	start(s)
	s.begin("task")
	r, err := s.openFile("f", unix.O_RDONLY)
	s.must(err)
	s.must(s.rewrite("f", "changed, and longer than it was\n"))
	if got := s.read(r); got != "changed, and longer than it was\n" {
		t.Errorf("before undo: %q", got)
	}
	s.undo()
	if got := s.read(r); got != "first\n" {
		t.Errorf("after undo: %q", got)
	}
	s.redo()
	if got := s.read(r); got != "changed, and longer than it was\n" {
		t.Errorf("after redo: %q", got)
	}
	s.undo()
	s.begin("replace")
	s.must(s.create("tmp", "replaced\n", 0o644))
	s.must(s.rename("tmp", "f", 0))
	if got := s.read(r); got != "first\n" {
		t.Errorf("an open file that was replaced: %q", got)
	}
	s.undo()
	if got := s.read(r); got != "first\n" {
		t.Errorf("after undo of a replacement: %q", got)
	}
	s.forget(1)
	if st := s.stat("f"); int(st.Nlink) != 1 || st.Size != 6 {
		t.Errorf("f has %d links, %d bytes", st.Nlink, st.Size)
	}
}

// TestWriteToRemoved writes to a file that has no name any more; undo brings the file back as it was when it had one.
func TestWriteToRemoved(t *testing.T) {
	t.Parallel()
	s := newStand(t, 1)
	start(s)
	before := s.snapshot(true)
	s.begin("task")
	h, err := s.openFile("f", unix.O_RDWR)
	s.must(err)
	s.must(s.unlink("f"))
	s.must(s.writeAt(h, 0, "to nobody"))
	if got := s.read(h); got != "to nobody" {
		t.Errorf("read %q", got)
	}
	if st, err := s.e.GetAttr(h.Node(), h); err != nil || st.Nlink != 0 {
		t.Errorf("a removed file has %d links, %v", st.Nlink, err)
	}
	after := s.snapshot(true)
	s.undo()
	s.check("undo", before)
	s.redo()
	s.check("redo", after)
	s.release(h)
	s.undo()
	s.check("undo after the last close", before)
}

// TestLinksAsSeen counts links as programs do, whatever is in hold.
func TestLinksAsSeen(t *testing.T) {
	t.Parallel()
	s := newStand(t, 1)
	start(s)
	s.begin("task")
	links := func(path string, want int) {
		t.Helper()
		if st := s.stat(path); int(st.Nlink) != want {
			t.Errorf("%s has %d links, should have %d", path, st.Nlink, want)
		}
	}
	links("h2", 3)
	s.forget(1)
	s.must(s.unlink("h1"))
	links("h2", 2)
	s.reopen()
	links("h2", 2)
	s.must(s.unlink("d/h3"))
	links("h2", 1)
	s.must(s.link("h2", "h4"))
	links("h2", 2)
	s.undo()
	links("h2", 3)
	links("out", 2)
	s.forget(1)
	s.must(s.unlink("out"))
	s.undo()
	links("out", 2)
}

// TestAroundTheMount leaves alone what somebody changed on disk behind the engine's back, and says so.
func TestAroundTheMount(t *testing.T) {
	t.Parallel()
	s := newStand(t, 1)
	start(s)
	before := s.snapshot(true)
	s.begin("task")
	s.must(s.write("f", 0, "W"))
	s.must(s.write("g", 0, "W"))
	s.must(s.unlink("run"))
	s.must(os.Remove(filepath.Join(s.dir, "f")))
	res, err := s.e.Undo("a", MoveOptions{})
	s.must(err)
	if len(res.Lost) != 1 || !strings.Contains(res.Lost[0], "f") {
		t.Errorf("lost: %q", res.Lost)
	}
	now := s.snapshot(true)
	if now["g"] != before["g"] || now["run"] != before["run"] || now["f"] != "" {
		t.Errorf("after an undo of what was removed around the mount:%s", differ(now, before))
	}
	s.begin("again")
	s.must(s.unlink("run"))
	s.must(os.WriteFile(filepath.Join(s.dir, "run"), []byte("mine"), 0o644))
	now = s.snapshot(true)
	if _, err := s.e.Undo("a", MoveOptions{}); err == nil {
		if b, _ := os.ReadFile(filepath.Join(s.dir, "run")); string(b) != "mine" {
			s.redo()
			s.check("redo brings it back", now)
		}
	} else {
		s.check("a refused move changes nothing", now)
	}
}
