package overlay

import (
	"slices"
	"testing"
)

// TestMergeJoins: directories that both sides made under one name become one, entry by entry; what both made in them is a
// conflict by itself.
func TestMergeJoins(t *testing.T) {
	start := func(t *testing.T) (s, f *stand) {
		t.Parallel()
		s = forkTree(t)
		f = s.fork("one")
		s.begin("mine")
		s.must(s.mkdirAll("n/both/deep"))
		s.must(s.mkdir("n/mine", 0o700))
		s.must(s.create("n/both/m", "mine", 0o600))
		s.must(s.create("n/both/deep/same", "same", 0o600))
		s.must(s.chmod("n", 0o711))
		f.begin("theirs")
		f.must(f.mkdirAll("n/both/deep"))
		f.must(f.mkdirAll("n/theirs/below"))
		f.must(f.create("n/both/t", "theirs", 0o600))
		f.must(f.create("n/theirs/below/f", "f", 0o640))
		f.must(f.create("n/both/deep/same", "same", 0o600))
		f.must(f.rename("a", "n/both/a", 0))
		f.must(f.rename("d/e", "n/both/deep/e", 0))
		return s, f
	}
	paths := func(s *stand) (out []string) {
		for path := range s.seen() {
			out = append(out, path)
		}
		slices.Sort(out)
		return out
	}
	t.Run("clean", func(t *testing.T) {
		s, f := start(t)
		before := s.tree()
		res := s.merged(MergeOptions{})
		want := f.seen()
		want["n"], want["n/mine"], want["n/both/m"] = s.seen()["n"], s.seen()["n/mine"], s.seen()["n/both/m"]
		s.same(s.seen(), want, "merged")
		if st := s.seen()["n"]; st != "mode=40711" {
			t.Errorf("the directory's attributes are %s, not the parent's", st)
		}
		is := s.tree()
		s.undo()
		s.names = map[dentry]NodeID{}
		s.same(s.tree(), before, "undone")
		s.redo()
		s.names = map[dentry]NodeID{}
		s.same(s.tree(), is, "redone")
		if again := s.merged(MergeOptions{}); again.To != again.From {
			t.Errorf("a second merge changes %v", again.Paths)
		}
		if res.Changed == 0 {
			t.Error("nothing is said to have changed")
		}
		// From now on they are one.
		s.must(s.create("n/both/m2", "mine", 0o600))
		f.must(f.create("n/both/deep/t2", "theirs", 0o600))
		f.must(f.append("n/both/deep/same", " and more"))
		f.must(f.append("n/both/t", " and more"))
		f.must(f.unlink("n/both/deep/e/c"))
		f.must(f.chmod("n/both", 0o750))
		s.merged(MergeOptions{})
		want = f.seen()
		for _, path := range []string{"n", "n/mine", "n/both/m", "n/both/m2"} {
			want[path] = s.seen()[path]
		}
		s.same(s.seen(), want, "merged again")
		s.reopen()
		s.must(second(s.e.Sweep()))
		s.same(s.seen(), want, "after a remount and a sweep")
		f = s.forked("one")
		f.must(f.removeAll("n"))
		s.must(second(s.e.Merge("one", MergeOptions{})), Conflict)
		s.same(s.seen(), want, "what the parent has in it was not known")
		s.verify()
	})
	t.Run("conflict", func(t *testing.T) {
		s, f := start(t)
		s.must(s.create("n/both/c", "mine", 0o600))
		f.must(f.create("n/both/c", "theirs", 0o600))
		before := s.tree()
		s.must(second(s.e.Merge("one", MergeOptions{})), Conflict)
		if all := s.e.ConflictsOf(s.agent); len(all) != 1 || all[0].Path != "n/both/c" {
			t.Errorf("conflicts are %+v", all)
		}
		s.names = map[dentry]NodeID{}
		s.same(s.tree(), before, "after a conflict")
		mine := s.seen()["n/both/c"]
		s.merged(MergeOptions{Force: PreferMine})
		if got := s.seen()["n/both/c"]; got != mine || !slices.Contains(paths(s), "n/both/a") {
			t.Errorf("by force of mine: %s, %v", got, paths(s))
		}
		if again := s.merged(MergeOptions{}); again.To != again.From {
			t.Errorf("what was decided comes again: %v", again.Paths)
		}
		s.verify()
	})
	t.Run("theirs", func(t *testing.T) {
		s, f := start(t)
		s.must(s.create("n/both/c", "mine", 0o600))
		f.must(f.create("n/both/c", "theirs", 0o600))
		s.merged(MergeOptions{Force: PreferTheirs})
		if got, want := s.seen()["n/both/c"], f.seen()["n/both/c"]; got != want {
			t.Errorf("by force of theirs: %s, %s", got, want)
		}
		s.verify()
	})
	t.Run("a file and a directory", func(t *testing.T) {
		t.Parallel()
		s := forkTree(t)
		f := s.fork("one")
		s.must(s.create("n", "mine", 0o600))
		f.must(f.mkdirAll("n/d"))
		s.must(second(s.e.Merge("one", MergeOptions{})), Conflict)
		s.verify()
	})
}

// TestMergeKnowsItsOwn: a directory that the fork made and merged is not taken away by it with what the parent has put there
// since.
func TestMergeKnowsItsOwn(t *testing.T) {
	s := forkTree(t)
	f := s.fork("one")
	f.must(f.mkdirAll("n"))
	f.must(f.create("n/f", "f", 0o600))
	s.merged(MergeOptions{})
	s.must(s.create("n/mine", "mine", 0o600))
	before := s.tree()
	f.must(f.removeAll("n"))
	s.must(second(s.e.Merge("one", MergeOptions{})), Conflict)
	s.names = map[dentry]NodeID{}
	s.same(s.tree(), before, "after a conflict")
	s.must(s.unlink("n/mine"))
	s.merged(MergeOptions{})
	if _, has := s.seen()["n"]; has {
		t.Error("it did not go")
	}
}

// TestMergeBelowMade: what comes, goes and moves in a directory that the fork has made and merged is merged as well.
func TestMergeBelowMade(t *testing.T) {
	s := forkTree(t)
	f := s.fork("one")
	f.must(f.mkdirAll("n/deep"))
	f.must(f.create("n/f", "f", 0o600))
	f.must(f.create("n/g", "g", 0o600))
	f.must(f.create("n/deep/h", "h", 0o600))
	s.merged(MergeOptions{})
	f.must(f.create("n/deep/new", "new", 0o600))
	f.must(f.mkdirAll("n/more/below"))
	f.must(f.unlink("n/g"))
	f.must(f.rename("n/f", "n/more/f", 0))
	f.must(f.rename("a", "n/deep/a", 0))
	f.must(f.append("n/deep/h", " more"))
	s.merged(MergeOptions{})
	s.same(s.seen(), f.seen(), "merged again")
	f.begin("next")
	f.must(f.rename("n/more", "more", 0))
	f.must(f.removeAll("n/deep"))
	s.merged(MergeOptions{})
	s.same(s.seen(), f.seen(), "merged a third time")
	if res := s.merged(MergeOptions{}); res.To != res.From {
		t.Errorf("a fourth merge brings %v", res.Paths)
	}
	s.verify()
}
