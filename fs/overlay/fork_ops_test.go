package overlay

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestForkOps makes every kind of change in a fork and in a workspace of its own: both come out the same, the fork's parent
// stays as it was, and the fork's own tasks take it back and do it again.
func TestForkOps(t *testing.T) {
	for _, c := range parentChanges {
		if c.name == "undo all and redo" {
			continue // the twin has one task more
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, twin := forkTree(t), forkTree(t)
			base := s.tree()
			f := s.fork("one")
			f.begin("change")
			was := f.seen()
			s.must(c.do(f))
			twin.begin("change")
			s.must(c.do(twin))
			s.same(f.seen(), twin.seen(), "the fork")
			s.same(links(f), links(twin), "the links of the fork")
			s.same(s.tree(), base, "the parent")
			is := f.seen()
			task := f.e.Active(f.agent)
			all := f.tree()
			_, err := f.e.Switch(f.agent, 0, MoveOptions{})
			s.must(err)
			f.names = map[dentry]NodeID{}
			s.same(f.tree(), base, "the fork, undone")
			s.same(f.seen(), was, "the fork, undone")
			f.must(second(f.e.Switch(f.agent, task, MoveOptions{})))
			s.same(f.tree(), all, "the fork, redone")
			s.forget(1)
			s.reopen()
			f = s.forked("one")
			s.same(f.seen(), is, "after a remount")
			s.same(f.tree(), all, "after a remount")
			f.verify()
			s.same(s.tree(), base, "the parent after a remount")
			s.must(s.e.Discard("one", false))
			s.same(s.tree(), base, "the parent after the fork is gone")
			if _, err := os.Stat(s.dir + "/.tt/forks/one"); !errors.Is(err, os.ErrNotExist) {
				t.Error("the fork's directory stays")
			}
		})
	}
}

// links is the numbers of links of all files.
func links(s *stand) map[string]string {
	out := map[string]string{}
	for path, what := range s.tree() {
		if i := strings.Index(what, " links="); i >= 0 {
			out[path] = what[i:]
		}
	}
	return out
}

// TestForkCopiesNothing removes and renames what is big without a byte of it being copied.
func TestForkCopiesNothing(t *testing.T) {
	s := newStand(t, 1)
	s.must(s.mkdirAll("m/n"))
	s.must(s.create("m/n/big", strings.Repeat("x", 8<<20), 0o644))
	s.must(s.create("big2", strings.Repeat("y", 8<<20), 0o644))
	f := s.fork("one")
	before := f.blocks()
	s.must(f.rename("m", "M", 0))
	s.must(f.removeAll("M"))
	s.must(f.chmod("big2", 0o600))
	s.must(f.rename("big2", "big3", 0))
	s.must(f.link("big3", "big4"))
	if more := f.blocks() - before; more > 256 {
		t.Errorf("%d blocks were written", more)
	}
	if got := f.seen()["big4"]; !strings.Contains(got, "size=8388608") || got != f.seen()["big3"]+" same=big3" {
		t.Errorf("big4 is %s, big3 is %s", got, f.seen()["big3"])
	}
	s.must(f.write("big4", 5, "Z"))
	h, err := f.openFile("big3", unix.O_RDONLY)
	s.must(err)
	if got := f.read(h); len(got) != 8<<20 || got[:7] != "yyyyyZy" {
		t.Errorf("big3 reads %d bytes, %q", len(got), got[:7])
	}
	f.release(h)
}

// blocks is what the fork takes on the disk, of 512 bytes.
func (s *stand) blocks() (n uint64) {
	for _, p := range s.upper() {
		var st Stat
		s.must(statAt(unix.AT_FDCWD, s.dir+"/"+p, &st))
		n += st.Blocks
	}
	var st Stat
	all, err := os.ReadDir(s.dir + "/../hold")
	s.must(err)
	for _, ent := range all {
		s.must(statAt(unix.AT_FDCWD, s.dir+"/../hold/"+ent.Name(), &st))
		n += st.Blocks
	}
	return n
}

// TestForkIdentity: the number of an inode, and that the kernel knows it by, stay when it is raised, filled and renamed.
func TestForkIdentity(t *testing.T) {
	s := forkTree(t)
	f := s.fork("one")
	for _, path := range []string{"", "a", "d", "d/b", "h1", "l", "d/p", "empty"} {
		in := s.stat(path)
		is := f.stat(path)
		if in.Ino != is.Ino || in.Btime != is.Btime {
			t.Errorf("%q has inode %d in the parent and %d in the fork", path, in.Ino, is.Ino)
		}
	}
	id, err := f.walk("d/b")
	s.must(err)
	ino := f.stat("d/b").Ino
	s.must(f.write("d/b", 3, "x"))
	s.must(f.rename("d", "e", 0))
	s.must(f.rename("e/b", "B", 0))
	now, err := f.walk("B")
	s.must(err)
	if now != id || f.stat("B").Ino != ino {
		t.Errorf("the node was %d and is %d, the inode %d and %d", id, now, ino, f.stat("B").Ino)
	}
	f.forget(1)
	if got := f.stat("B").Ino; got != ino {
		t.Errorf("forgotten, it has inode %d", got)
	}
}

// TestForkReaders: who has a file open when it is raised and changed reads what it is now, as on any filesystem.
func TestForkReaders(t *testing.T) {
	s := forkTree(t)
	f := s.fork("one")
	h, err := f.openFile("a", unix.O_RDONLY)
	s.must(err)
	if h.Mode() != Cached || !h.Unchanging() {
		t.Errorf("a file of the lower is served in mode %d", h.Mode())
	}
	s.must(s.rewrite("a", "of the parent"))
	if got := f.read(h); got != "alpha" {
		t.Errorf("it reads %q", got)
	}
	s.must(f.chmod("a", 0o600))
	if got := f.read(h); got != "alpha" {
		t.Errorf("raised, it reads %q", got)
	}
	s.must(f.rewrite("a", "new"))
	if got := f.read(h); got != "new" {
		t.Errorf("changed, it reads %q", got)
	}
	s.must(f.unlink("a"))
	if got := f.read(h); got != "new" {
		t.Errorf("removed, it reads %q", got)
	}
	if err := s.e.Discard("one", false); !errors.Is(err, Locked) {
		t.Errorf("discard with an open file: %v", err)
	}
	f.release(h)
	s.must(s.e.Discard("one", false))
}
