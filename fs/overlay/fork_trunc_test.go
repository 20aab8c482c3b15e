package overlay

import (
	"slices"
	"strings"
	"testing"
)

// TestTruncateDoesNotFill: what a fork empties is not copied to it first, whatever its size, and comes back all the same, with
// its holes; also in a fork of a fork, after a remount, and where the parent has changed the file before.
func TestTruncateDoesNotFill(t *testing.T) {
	s := forkTree(t)
	s.must(s.create("holes", "x", 0o600))
	s.must(s.truncate("holes", 60_000))
	s.must(s.create("setuid", "program", 0o600))
	s.must(s.chmod("setuid", 0o4755))
	s.old()
	want := s.tree()
	f := s.fork("one")
	s.must(s.write("d/b", 1000, "the parent's"))
	s.must(s.rewrite("a", "the parent's"))
	for _, fork := range []*stand{f, f.fork("two")} {
		fork.begin("rewrite")
		var points []string
		s.point = func(name string) error { points = append(points, name); return nil }
		for _, path := range []string{"a", "d/b", "d/none", "h1", "d/sparse", "holes", "setuid"} {
			s.must(fork.rewrite(path, "new "+path))
		}
		s.point = nil
		if slices.Contains(points, "fill") || !slices.Contains(points, "emptied") {
			t.Errorf("the points are %v", points)
		}
		is := fork.seen()
		if !strings.Contains(is["a"], " size=5 ") || !strings.Contains(is["setuid"], " size=10 ") {
			t.Errorf("a is %s, setuid %s", is["a"], is["setuid"])
		}
		fork.undo()
		fork.names = map[dentry]NodeID{}
		fork.same(fork.tree(), want, "undone")
		fork.redo()
		fork.names = map[dentry]NodeID{}
		fork.same(fork.seen(), is, "redone")
		fork.undo()
		if fork == f { // what is forked next is what was
			fork.names = map[dentry]NodeID{}
		}
	}
	s.forget(1)
	s.reopen()
	f = s.forked("one")
	s.same(f.tree(), want, "after a remount")
	s.same(f.forked("two").tree(), want, "the fork of the fork after a remount")
	s.verify()
}
