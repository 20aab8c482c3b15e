package overlay

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ttfs/ttfs/guard"
	"github.com/ttfs/ttfs/journal"
	"github.com/ttfs/ttfs/tasktree"
)

// lived is a closed workspace whose journal has a record of nearly every letter: of two agents, tasks that are undone, a branch, a
// sub-agent, isolation, shares, what agents know, forks with changes on both sides, one of them of a past task and one that
// was merged and went on. With moving, a death came in the midst of a move.
func lived(t *testing.T, moving bool) *stand {
	s := newStand(t, 1)
	s.close()
	s.set = func(o *Options) { o.Guard, o.Blind = true, guard.Allow }
	s.open()
	start(s)
	s.begin("one")
	s.must(s.write("mid", 70_000, "XX"))
	s.must(s.rewrite("g", "rewritten"))
	s.must(s.unlink("run"))
	s.must(s.rename("d/sub", "moved", 0))
	f := s.fork("f")
	s.begin("two")
	s.must(s.rewrite("f", "the parent's"))
	s.must(s.chmod("nothing", 0o600))
	s.must(s.unlink("h1"))
	f.begin("in the fork")
	f.must(f.write("mid", 5, "the fork's"))
	f.must(f.rewrite("d/f", "the fork's"))
	f.must(f.create("new", "only in the fork", 0o644))
	_, err := s.e.Merge("f", MergeOptions{Agent: "a"})
	s.must(err)
	f.must(f.append("d/f", "and more"))
	at := tasktree.TaskID(2)
	_, err = s.e.Fork(ForkOptions{Name: "past", Agent: "p", Parent: "a", At: &at})
	s.must(err)
	s.agent = "b"
	s.e.SetParent("b", "a")
	s.begin("of another")
	s.must(s.rewrite("d/f", "of another"))
	_, err = s.e.Isolate("ro", IsolateRO)
	s.must(err)
	s.agent = "a"
	s.undo()
	s.begin("branch")
	s.must(s.create("empty/new", "on the branch", 0o644))
	s.must(s.e.Archive())
	if moving {
		s.dieAt(7)
		if _, died := s.dies(func() { _, err := s.e.Switch("a", 0, MoveOptions{Force: true}); s.must(err) }); !died {
			t.Fatal("the move is over before its seventh point")
		}
	}
	s.close()
	return s
}

// damage puts a value, or nothing, where the n-th record of the store is, and says which it was.
func (s *stand) damage(n int, value []byte, gone bool) (k []byte) {
	s.t.Helper()
	j, err := journal.Open(filepath.Join(s.store, "journal"), journal.Options{FloorBytes: -1})
	s.must(err)
	defer j.Close()
	var all [][]byte
	s.must(j.Scan(nil, func(k, _ []byte) error { all = append(all, bytes.Clone(k)); return nil }))
	k = all[n%len(all)]
	var b journal.Batch
	if gone {
		b.Delete(k)
	} else {
		b.Put(k, value)
	}
	s.must(j.Commit(&b))
	return k
}

// useAll reads all that there is to read of the history, and moves. What fails, fails with a reason.
func (s *stand) useAll() {
	_, _ = s.e.Verify(s.t.Context(), func(string) {})
	told := func(op string, err error) {
		var own *Error
		var errno syscall.Errno
		var tree *tasktree.Error
		if err != nil && !errors.As(err, &own) && !errors.As(err, &errno) && !errors.As(err, &tree) {
			s.t.Errorf("%s: an error of nobody's kind: %v", op, err)
		}
	}
	for _, k := range s.e.Tasks() {
		_, err := s.e.Files(k.ID)
		told("files", err)
		told("diff", s.e.DiffTask(io.Discard, k.ID, nil))
		if at, err := s.e.At("a", k.ID); err == nil {
			entries, _ := at.List("")
			for _, ent := range entries {
				_, _ = at.Stat(ent.Name)
				_, _ = at.ReadAt(ent.Name, make([]byte, 100), 70_000)
			}
		}
	}
	for _, path := range []string{"mid", "d/f", "moved", "new"} {
		_, err := s.e.Blame(path)
		told("blame", err)
	}
	for _, f := range s.e.Forks() {
		_, err := s.e.ForkChanges(f.Name)
		told("changes of a fork", err)
		_, err = s.e.Merge(f.Name, MergeOptions{Agent: "a"})
		told("merge", err)
	}
	for range 3 {
		_, err := s.e.Undo("a", MoveOptions{Force: true})
		told("undo", err)
	}
	_, err := s.e.Redo("a", MoveOptions{})
	told("redo", err)
	_, err = s.e.Revert("b", s.e.Active("b"), MoveOptions{})
	told("revert", err)
	_, err = s.e.Prune(PruneOptions{})
	told("prune", err)
}

// FuzzStore: whatever one record of a store holds, or when it is missing, the workspace stays as it is when the store is opened
// (but for a move that is ended), nothing panics when all of it is used, and a repair of what is refused leaves a store that opens and
// of which the next repair has nothing to say.
func FuzzStore(f *testing.F) {
	for n := range 10 {
		f.Add(uint16(n*23), []byte{0x80}, n%4 == 0, n%5 == 4)
		f.Add(uint16(n*23+11), []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1, 2, 3}, false, n%5 == 4)
	}
	f.Add(uint16(65), []byte{0x80}, false, false) // a merge said of it what was nobody's error
	f.Fuzz(func(t *testing.T, n uint16, value []byte, gone, moving bool) {
		s := lived(t, moving)
		before := s.snapshot(true)
		k := s.damage(int(n), value, gone)
		var own *Error
		switch err := s.tryOpen(); {
		case err == nil:
			if !moving {
				s.check("opened", before)
			}
			s.useAll()
			s.close()
			s.open() // what was used is no less fit
		case !errors.As(err, &own) || !moving && own.Kind != Damaged: // to end a move may be impossible for the system
			t.Fatalf("record %q as %x: %v", k, value, err)
		default:
			if !moving { // one ends as far as it can
				s.check("refused", before)
			}
			s.mended(k, value)
		}
	})
}

// mended mends what is refused, and holds the repair to what it promises.
func (s *stand) mended(k, value []byte) {
	s.t.Helper()
	s.repaired()
	if _, err := s.e.Verify(s.t.Context(), func(p string) { s.t.Errorf("record %q as %x: repaired, and still: %s", k, value, p) }); err != nil {
		s.t.Errorf("record %q as %x: %v", k, value, err)
	}
	if again := s.repaired(); len(again) > 0 {
		s.t.Errorf("record %q as %x: a second repair says %q", k, value, again)
	}
}
