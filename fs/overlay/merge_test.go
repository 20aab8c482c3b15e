package overlay

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// merged merges and fails when it is refused.
func (s *stand) merged(o MergeOptions) MoveResult {
	s.t.Helper()
	res, err := s.e.Merge("one", o)
	s.must(err)
	s.names = map[dentry]NodeID{}
	return res
}

// TestMergeOps makes every kind of change in a fork and merges it: the parent is then what the fork is, one undo makes it
// what it was, redo the fork again, and a second merge finds nothing.
func TestMergeOps(t *testing.T) {
	for _, c := range parentChanges {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := forkTree(t)
			s.begin("before the fork")
			base := s.tree()
			f := s.fork("one")
			f.begin("change")
			s.must(c.do(f))
			want := f.seen()
			dry, err := s.e.Merge("one", MergeOptions{DryRun: true})
			s.must(err)
			s.same(s.tree(), base, "the parent after a dry run")
			changed, err := s.e.ForkChanges("one")
			s.must(err)
			for i, c := range dry.Paths {
				if i >= len(changed) || changed[i] != (FileChange{pastTense[c.Op], c.Path}) {
					t.Fatalf("a dry run of the merge brings %v, the list has %v", dry.Paths, changed)
				}
			}
			if len(changed) > len(dry.Paths) {
				t.Errorf("the dry run of the merge brings %v, the list has %v", dry.Paths, changed)
			}
			res := s.merged(MergeOptions{})
			s.same(s.seen(), want, "the parent")
			s.same(f.seen(), want, "the fork")
			if len(dry.Paths) == 0 && res.Changed > 0 {
				t.Errorf("the dry run tells nothing, the merge %v", res.Paths)
			}
			if again := s.merged(MergeOptions{}); again.To != again.From {
				t.Errorf("a second merge changes %v", again.Paths)
			}
			if changed, err = s.e.ForkChanges("one"); err != nil || len(changed) > 0 {
				t.Errorf("after the merge the list has %v (%v)", changed, err)
			}
			if res.To != res.From {
				is := s.tree()
				s.undo()
				s.names = map[dentry]NodeID{}
				s.same(s.tree(), base, "undone")
				s.redo()
				s.names = map[dentry]NodeID{}
				s.same(s.tree(), is, "redone")
			}
			f.must(f.create("later", "later", 0o600))
			if _, err := f.walk("d/b"); err == nil {
				f.must(f.append("d/b", "more"))
			}
			s.merged(MergeOptions{})
			s.same(s.seen(), f.seen(), "after another merge")
			s.reopen()
			s.same(s.seen(), s.forked("one").seen(), "after a remount")
			s.must(s.e.Discard("one", false))
			s.verify()
		})
	}
}

// TestMergeText: what both sides changed of a text comes together by line, in place or by a new file, and what touches does
// not.
func TestMergeText(t *testing.T) {
	base := "one\ntwo\nthree\nfour\nfive\nsix\nseven\n"
	put := map[string]func(s *stand, content string){
		"in place": func(s *stand, content string) { s.must(s.rewrite("f", content)) },
		"by a new file": func(s *stand, content string) {
			s.must(s.create("f.tmp", content, 0o644))
			s.must(s.rename("f.tmp", "f", 0))
		},
	}
	for _, c := range []struct{ name, mine, theirs, want string }{
		{"apart", "ONE\ntwo\nthree\nfour\nfive\nsix\nseven\n", "one\ntwo\nthree\nfour\nfive\nsix\nSEVEN\n", "ONE\ntwo\nthree\nfour\nfive\nsix\nSEVEN\n"},
		{"the same", "ONE\ntwo\nthree\nfour\nfive\nsix\nseven\n", "ONE\ntwo\nthree\nfour\nfive\nsix\nseven\n", "ONE\ntwo\nthree\nfour\nfive\nsix\nseven\n"},
		{"one line", "one\ntwo\nthree\nmine\nfive\nsix\nseven\n", "one\ntwo\nthree\ntheirs\nfive\nsix\nseven\n", ""},
		{"both at the end", base + "mine\n", base + "theirs\n", ""},
		{"neighbours", "one\nTWO\nthree\nfour\nfive\nsix\nseven\n", "one\ntwo\nTHREE\nfour\nfive\nsix\nseven\n", ""},
		{"binary", "one\x00two\n", "one\x00three\n", ""},
	} {
		for how, mine := range put {
			for how2, theirs := range put {
				t.Run(c.name+", "+how+" and "+how2, func(t *testing.T) {
					t.Parallel()
					s := newStand(t, 1)
					s.must(s.create("f", base, 0o644))
					f := s.fork("one")
					s.begin("mine")
					mine(s, c.mine)
					theirs(f, c.theirs)
					before := s.tree()
					read := func() string {
						s.names = map[dentry]NodeID{}
						h, err := s.openFile("f", unix.O_RDONLY)
						s.must(err)
						defer s.release(h)
						return s.read(h)
					}
					if c.want != "" {
						s.merged(MergeOptions{})
						if got := read(); got != c.want {
							t.Errorf("it became %q", got)
						}
						return
					}
					_, err := s.e.Merge("one", MergeOptions{})
					s.must(err, Conflict)
					if all := s.e.ConflictsOf(s.agent); len(all) != 1 || all[0].Path != "f" {
						t.Errorf("conflicts are %+v", all)
					}
					s.same(s.tree(), before, "after a conflict")
					s.merged(MergeOptions{Force: PreferMine})
					if got := read(); got != c.mine {
						t.Errorf("by force of mine it became %q", got)
					}
					if res := s.merged(MergeOptions{}); res.To != res.From {
						t.Errorf("what was decided comes again: %v", res.Paths)
					}
					theirs(f, "all\x00other\n")
					s.merged(MergeOptions{Force: PreferTheirs})
					if got := read(); got != "all\x00other\n" {
						t.Errorf("by force of theirs it became %q", got)
					}
				})
			}
		}
	}
}

// TestMergeConflicts are what both sides did and cannot both be.
func TestMergeConflicts(t *testing.T) {
	for _, c := range []struct {
		name, path   string
		mine, theirs func(s *stand) error
	}{
		{"removed and changed", "a", func(s *stand) error { return s.rewrite("a", "mine") }, func(s *stand) error { return s.unlink("a") }},
		{"changed and removed", "a", func(s *stand) error { return s.unlink("a") }, func(s *stand) error { return s.rewrite("a", "theirs") }},
		{"made twice", "n", func(s *stand) error { return s.create("n", "mine", 0o600) }, func(s *stand) error { return s.create("n", "theirs", 0o600) }},
		{"a directory that goes has something new", "d", func(s *stand) error { return s.create("d/e/new", "n", 0o600) }, func(s *stand) error { return s.removeAll("d") }},
		{"a directory that goes has something changed", "d", func(s *stand) error { return s.append("d/e/c", "n") }, func(s *stand) error { return s.removeAll("d") }},
		{"renamed twice", "a", func(s *stand) error { return s.rename("a", "x", 0) }, func(s *stand) error { return s.rename("a", "y", 0) }},
		{"modes", "a", func(s *stand) error { return s.chmod("a", 0o600) }, func(s *stand) error { return s.chmod("a", 0o400) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := forkTree(t)
			f := s.fork("one")
			s.begin("mine")
			s.must(c.mine(s))
			s.must(c.theirs(f))
			before := s.tree()
			_, err := s.e.Merge("one", MergeOptions{})
			s.must(err, Conflict)
			all := s.e.ConflictsOf(s.agent)
			if len(all) == 0 || !strings.HasPrefix(all[0].Path, c.path) && c.name != "renamed twice" {
				t.Errorf("conflicts are %+v", all)
			}
			s.names = map[dentry]NodeID{}
			s.same(s.tree(), before, "after a conflict")
			s.merged(MergeOptions{Force: PreferMine})
			s.verify()
		})
	}
}

// TestMergeStrict: what the fork has read and the parent changed since refuses a strict merge.
func TestMergeStrict(t *testing.T) {
	s := forkTree(t)
	f := s.fork("one")
	h, err := f.openFile("a", unix.O_RDONLY)
	s.must(err)
	f.read(h)
	f.release(h)
	s.must(f.create("new", "made of what a says", 0o600))
	s.must(s.rewrite("a", "something else"))
	s.must(second(s.e.Merge("one", MergeOptions{Strict: true})), Conflict)
	if all := s.e.ConflictsOf(s.agent); len(all) != 1 || all[0].Path != "a" {
		t.Errorf("conflicts are %+v", all)
	}
	s.merged(MergeOptions{})
	if s.seen()["new"] != f.seen()["new"] {
		t.Error("it was not merged")
	}
}

// TestMergeDeath dies at every point of a merge: it is made or not, one undo takes it back, and it can be made again.
func TestMergeDeath(t *testing.T) {
	t.Parallel()
	for n := 0; ; n++ {
		s := forkTree(t)
		s.begin("before")
		base := s.tree()
		f := s.fork("one")
		s.must(f.mkdirAll("new/below"))
		s.must(f.create("new/below/f", "new", 0o600))
		s.must(f.link("new/below/f", "new/g"))
		s.must(f.rename("d", "new/d", 0))
		s.must(f.write("new/d/b", 7, "changed"))
		s.must(f.chmod("a", 0o600))
		s.must(f.unlink("l"))
		want := f.seen()
		s.dieAt(n)
		at, died := s.dies(func() { second(s.e.Merge("one", MergeOptions{})) })
		if died {
			s.close()
			s.open()
		}
		s.names = map[dentry]NodeID{}
		if differ(s.tree(), base) != "" {
			s.same(s.seen(), want, "after a death at "+at)
			s.undo()
			s.names = map[dentry]NodeID{}
			s.same(s.tree(), base, "undone after a death at "+at)
			s.redo()
		} else {
			s.merged(MergeOptions{})
		}
		s.names = map[dentry]NodeID{}
		s.same(s.seen(), want, "in the end, after a death at "+at)
		s.same(s.forked("one").seen(), want, "the fork after a death at "+at)
		s.must(second(s.e.Sweep()))
		s.verify()
		if !died {
			if n < 8 {
				t.Errorf("there are only %d points", n)
			}
			break
		}
	}
}

// TestMergeNested merges a fork of a fork into the fork, and that into the workspace.
func TestMergeNested(t *testing.T) {
	for _, c := range parentChanges {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := forkTree(t)
			base := s.tree()
			f := s.fork("one")
			g := f.fork("one")
			s.must(c.do(g))
			want := g.seen()
			f.merged(MergeOptions{})
			s.same(f.seen(), want, "the fork")
			s.same(s.tree(), base, "the workspace")
			s.merged(MergeOptions{})
			s.same(s.seen(), want, "the workspace, merged")
			s.same(g.seen(), want, "the fork of the fork")
			if res := s.merged(MergeOptions{}); res.Changed > 0 {
				t.Errorf("a second merge brings %v", res.Paths)
			}
			s.verify()
		})
	}
}
