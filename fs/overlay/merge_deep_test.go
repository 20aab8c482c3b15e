package overlay

import "testing"

// TestMergeThreeDeep makes every kind of change in a fork of a fork of a fork and brings it up, tree by tree, while each of the
// trees above changes something of its own: all of it arrives in the workspace, each merge is undone there alone, and a fork that has
// forks is not discarded unless it is forced.
func TestMergeThreeDeep(t *testing.T) {
	for _, c := range parentChanges {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := forkTree(t)
			s.begin("the workspace's")
			f := s.fork("one")
			s.must(s.create("of-s", "s", 0o600))
			g := f.fork("one")
			f.must(f.create("of-f", "f", 0o600))
			h := g.fork("one")
			g.must(g.create("of-g", "g", 0o600))
			h.must(c.do(h))
			h.must(h.create("of-h", "h", 0o600))
			want := h.seen()
			is := func(of *stand, more ...string) {
				t.Helper()
				got := of.seen()
				for _, name := range more {
					if _, has := got[name]; !has {
						t.Errorf("%s is not there", name)
					}
					delete(got, name)
				}
				of.same(got, want, "after a merge")
			}
			s.must(s.e.Discard("one", false), Locked)
			workspace, first := s.tree(), f.tree()
			g.merged(MergeOptions{})
			is(g, "of-g")
			f.same(f.tree(), first, "two above")
			f.merged(MergeOptions{})
			is(f, "of-g", "of-f")
			s.same(s.tree(), workspace, "three above")
			s.merged(MergeOptions{})
			is(s, "of-g", "of-f", "of-s")
			for _, at := range []*stand{s, f, g} {
				if res := at.merged(MergeOptions{}); res.To != res.From {
					t.Errorf("a second merge brings %v", res.Paths)
				}
			}
			s.undo()
			s.names = map[dentry]NodeID{}
			s.same(s.tree(), workspace, "undone")
			is(f, "of-g", "of-f")
			s.redo()
			s.names = map[dentry]NodeID{}
			is(s, "of-g", "of-f", "of-s")
			s.forget(1)
			s.reopen()
			f = s.forked("one")
			f.same(f.forked("one").forked("one").seen(), want, "the lowest after a remount")
			s.must(s.e.Discard("one", true))
			is(s, "of-g", "of-f", "of-s")
			s.verify()
		})
	}
}
