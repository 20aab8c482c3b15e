package overlay

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/ttfs/ttfs/journal"
)

// TestUndoKeepsAnothersMode: an agent that made a file in a directory has its image, since its times changed. That another has
// given it other attributes since is not the agent's to take back.
func TestUndoKeepsAnothersMode(t *testing.T) {
	s := newStand(t, 1)
	s.agent = "user"
	s.must(s.mkdir("d", 0o755))
	s.agent = "a"
	s.begin("a's")
	s.must(s.create("d/f", "a's", 0o644))
	before := s.stat("d")
	o := s.beside("o")
	_, err := o.e.BeginTask("o", "o's")
	s.must(errors.Join(err, o.chmod("d", 0o700)))
	s.undo()
	if st := s.stat("d"); st.Mode&0o7777 != 0o700 {
		t.Errorf("the undo gave d mode %o", st.Mode&0o7777)
	}
	s.redo()
	if st := s.stat("d"); st.Mode&0o7777 != 0o700 || st.Mtime != before.Mtime {
		t.Errorf("the redo gave d mode %o and mtime %v, should be %v", st.Mode&0o7777, st.Mtime, before.Mtime)
	}
	_, err = s.e.Undo("o", MoveOptions{})
	s.must(err)
	if st := s.stat("d"); st.Mode&0o7777 != 0o755 {
		t.Errorf("o's own undo gave d mode %o", st.Mode&0o7777)
	}
	s.verify()
}

// TestMoveWithoutNumber ends an interrupted move of before moves had numbers.
func TestMoveWithoutNumber(t *testing.T) {
	s := newStand(t, 1)
	start(s)
	before := s.snapshot(true)
	s.begin("chapter")
	chapters[0](s)
	s.dieAt(6)
	if _, died := s.dies(s.undo); !died {
		t.Fatal("the move has no sixth point")
	}
	s.close()
	j, err := journal.Open(filepath.Join(s.store, "journal"), journal.Options{FloorBytes: -1})
	s.must(err)
	all, err := interruptedMoves(j)
	s.must(err)
	if len(all) != 1 || all[0].num == 0 {
		t.Fatalf("%d moves were interrupted", len(all))
	}
	var b journal.Batch
	m, prepared, err := all[0].mover(nil)
	s.must(err)
	forgetMove(&b, m.num)
	b.Put([]byte{kMove}, m.encode(prepared))
	s.must(errors.Join(j.Commit(&b), j.Close()))
	s.open()
	s.check("after the death", before)
	s.verify()
}
