package overlay

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ttfs/ttfs/guard"
	"github.com/ttfs/ttfs/tasktree"
)

// TestStampsOverRemount: what was changed around the mount while there was none makes stale who has read it; what was not does not. After a death
// it is as if nobody had read it: the last writes before a death may be anybody's.
func TestStampsOverRemount(t *testing.T) {
	t.Parallel()
	around := func(s *stand) {
		s.must(os.WriteFile(filepath.Join(s.dir, "f"), []byte("around the mount"), 0o644))
	}
	read := func(s *stand) {
		for _, p := range []string{"f", "g"} {
			s.must(s.as("a", func() error { return s.readFile(p, 100) }))
		}
	}
	overwrite := func(s *stand, p string) error {
		return s.as("a", func() error { return s.rewrite(p, "mine") })
	}
	t.Run("unmounted", func(t *testing.T) {
		s, _ := guarded(t, guard.Allow)
		read(s)
		s.reopen()
		around(s)
		s.reopen() // it may be mounted many times before anybody looks
		if err := overwrite(s, "f"); !errors.Is(err, Stale) {
			t.Errorf("over an edit around the mount: %v, want stale", err)
		}
		s.must(overwrite(s, "g"))
		s.must(s.as("a", func() error { return s.readFile("f", 100) }))
		s.must(overwrite(s, "f"))
	})
	t.Run("detached move", func(t *testing.T) {
		s, _ := guarded(t, guard.Allow)
		s.must(s.as(tasktree.User, func() error { s.begin("two"); return s.rewrite("f", "two") }))
		read(s)
		s.reopen()
		if _, err := s.e.Undo(tasktree.User, MoveOptions{}); err != nil {
			t.Fatal(err)
		}
		s.reopen()
		if err := overwrite(s, "f"); !errors.Is(err, Stale) {
			t.Errorf("over an undo: %v, want stale", err)
		}
	})
	for _, blind := range []guard.BlindRule{guard.Allow, guard.Deny} {
		t.Run("died", func(t *testing.T) {
			s, _ := guarded(t, blind)
			read(s)
			s.must(s.e.saveGuard(false))
			s.crash()
			around(s)
			if err := overwrite(s, "f"); (err != nil) != (blind == guard.Deny) || err != nil && !errors.Is(err, Partial) {
				t.Errorf("blind %v: over what was changed since: %v", blind, err)
			}
			s.must(overwrite(s, "g"))
		})
	}
}

// FuzzStamps: no bytes are taken for stamps that would not be written so again.
func FuzzStamps(f *testing.F) {
	f.Add([]byte{0})
	f.Add([]byte{1, 5, 6, 2, 7, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		stamps, doubt, err := decodeStamps(b)
		if err != nil {
			return
		}
		if len(doubt) > len(stamps) {
			t.Errorf("%d in doubt of %d: %x", len(doubt), len(stamps), bytes.Clone(b))
		}
	})
}
