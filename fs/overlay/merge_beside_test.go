package overlay

import (
	"errors"
	"strings"
	"testing"
)

// TestMergeBesideOthers stops a merge while it copies what is new, and in the midst of its move. Whoever looks at forks, works in
// others, begins tasks, moves elsewhere, and, but for the move, makes forks, merges them and discards them, goes on meanwhile.
func TestMergeBesideOthers(t *testing.T) {
	for _, point := range []string{"merge", "prepare", "put", "settle", "end"} {
		t.Run(point, func(t *testing.T) {
			s := newStand(t, 1)
			s.set = func(o *Options) { o.Notify, o.tidyAside = nil, true }
			s.reopen()
			for _, d := range []string{"d", "o"} {
				s.must(s.mkdir(d, 0o755))
				s.must(s.create(d+"/old", "old", 0o644))
			}
			s.begin("before")
			frozen := s.fork("frozen")
			then := frozen.tree()
			_, err := s.e.Fork(ForkOptions{Name: "other", Agent: "f-o", Parent: "o"})
			s.must(err)
			f, g := s.fork("one"), s.forked("other")
			f.must(f.create("d/new", "new", 0o644))
			f.must(f.create("o/merged", "new", 0o644))
			f.must(f.rewrite("d/old", "changed"))
			g.must(g.create("o/new", "o's", 0o644))
			o := s.beside("o")

			m := s.stopAt(point, func() error { _, err := s.e.Merge("one", MergeOptions{}); return err })
			m.meanwhile(t, func() error {
				if _, _, open := s.e.ForkOf("one"); !open || len(s.e.Forks()) != 3 || len(s.e.MergeConflicts("one")) != 0 {
					return errors.New("the forks are not what they were")
				}
				_, err := s.e.BeginTask("o", "o's")
				return errors.Join(err, o.fresh(func() error { return o.create("o/beside", "o's", 0o644) }),
					g.fresh(func() error { return g.rewrite("o/old", "the other's") }),
					second(s.e.Undo("o", MoveOptions{})), second(s.e.Redo("o", MoveOptions{})))
			})
			others := func() error {
				_, err := s.e.Fork(ForkOptions{Name: "third", Agent: "f-3", Parent: "o"})
				return errors.Join(err, second(s.e.Merge("other", MergeOptions{DryRun: true})), second(s.e.Merge("other", MergeOptions{})), s.e.Discard("third", false), s.e.Discard("other", true))
			}
			if point == "merge" {
				m.meanwhile(t, others)
				m.goOn()
				s.must(<-m.ended)
			} else {
				// A fork is of everything, so it waits for what is half done; nobody else waits for it.
				done := make(chan error, 1)
				go func() { done <- others() }()
				until(t, "the fork's turn", func() bool {
					if s.e.forks.changing.TryLock() {
						s.e.forks.changing.Unlock()
						return false
					}
					return true
				})
				m.meanwhile(t, func() error {
					_, err := s.e.BeginTask("p", "p's")
					p := s.beside("p")
					return errors.Join(err, p.fresh(func() error { return p.create("o/p", "p's", 0o644) }), second(s.e.Undo("p", MoveOptions{})))
				})
				m.goOn()
				s.must(errors.Join(<-m.ended, <-done))
			}
			s.point = nil
			s.names = map[dentry]NodeID{}
			for path, want := range map[string]string{"d/new": "new", "d/old": "changed", "o/new": "o's", "o/old": "the other's", "o/beside": "o's", "o/merged": "new"} {
				if got := s.content(path); got != want {
					t.Errorf("%s has %q, want %q", path, got, want)
				}
			}
			s.undo()
			frozen.names = map[dentry]NodeID{}
			s.same(frozen.tree(), then, "a fork that was there before")
			s.verify()
		})
	}
}

// TestNestedMergeKeepsItsBlobs: what a merge into a fork has put away and not yet recorded is taken by no prune of the workspace,
// whose blobs they are.
func TestNestedMergeKeepsItsBlobs(t *testing.T) {
	s := newStand(t, 1)
	s.set = func(o *Options) { o.Notify, o.tidyAside = nil, true }
	s.reopen()
	s.must(s.create("mine", "mine", 0o644))
	f := s.fork("one")
	g := f.fork("one")
	for _, name := range []string{"x", "y"} {
		g.must(g.create(name, strings.Repeat(name+"\n", 150<<10), 0o644))
	}
	pruned := make(chan error, 1)
	looked := 0
	s.point = func(name string) error {
		if name != "merge" {
			return nil
		}
		if looked++; looked < 2 {
			return nil
		}
		go func() { pruned <- second(s.e.Prune(PruneOptions{})) }()
		until(t, "the prune's turn", func() bool {
			if len(pruned) > 0 {
				return true
			}
			free := s.e.blobMu.TryRLock()
			if free {
				s.e.blobMu.RUnlock()
			}
			return !free
		})
		return nil
	}
	f.merged(MergeOptions{})
	s.must(<-pruned)
	s.point = nil
	s.must(second(s.e.Prune(PruneOptions{})))
	// What the fork remembers of the merge is what a second merge is held against.
	for _, name := range []string{"x", "y"} {
		f.must(f.rewrite(name, "mine\n"+strings.Repeat(name+"\n", 150<<10)))
		g.must(g.append(name, "theirs\n"))
	}
	f.merged(MergeOptions{})
	if got, want := f.content("x"), "mine\n"+strings.Repeat("x\n", 150<<10)+"theirs\n"; got != want {
		t.Errorf("x has %d bytes, want %d", len(got), len(want))
	}
	s.verify()
}
