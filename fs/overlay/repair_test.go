package overlay

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/cas"
	"github.com/ttfs/ttfs/journal"
	"github.com/ttfs/ttfs/tasktree"
)

// repaired opens the store again with a repair, and says what was done.
func (s *stand) repaired() (said []string) {
	s.t.Helper()
	s.close()
	set := s.set
	s.set = func(o *Options) {
		if set != nil {
			set(o)
		}
		o.Repair = &Repair{Say: func(what string) { said = append(said, what) }}
	}
	s.open()
	s.set = set
	return said
}

// firstKey is the first key of the journal with a prefix that a test likes.
func (s *stand) firstKey(prefix []byte, like func(k, v []byte) bool) (key, value []byte) {
	s.t.Helper()
	s.must(s.j.Scan(prefix, func(k, v []byte) error {
		if like(k, v) {
			key, value = bytes.Clone(k), bytes.Clone(v)
			return journal.ErrStop
		}
		return nil
	}))
	if key == nil {
		s.t.Fatal("there is nothing to damage")
	}
	return key, value
}

// spoil makes a record one that cannot be read.
func (s *stand) spoil(key []byte) {
	var b journal.Batch
	b.Put(key, []byte{0x80})
	s.must(s.j.Commit(&b))
}

func (s *stand) pieceOf(kind pieceKind) (key []byte, p piece) {
	key, v := s.firstKey([]byte{kPiece}, func(_, v []byte) bool {
		p, err := decodePiece(0, v)
		return err == nil && p.kind == kind
	})
	p, err := decodePiece(0, v)
	s.must(err)
	return key, p
}

func any2(_, _ []byte) bool { return true }

// damages are made by really damaging what is stored. exact: nothing is lost by the repair.
var damages = []struct {
	name  string
	do    func(s *stand, ids []tasktree.TaskID)
	says  string
	exact bool
}{
	{"nothing", func(*stand, []tasktree.TaskID) {}, "", true},
	{"a blob is missing", func(s *stand, _ []tasktree.TaskID) {
		_, p := s.pieceOf(pieceBlob)
		_, _, err := s.blobs.Collect(s.t.Context(), func(ref cas.Ref) bool { return ref != p.ref })
		s.must(err)
	}, "its content as it is", false},
	{"a copy is missing", func(s *stand, _ []tasktree.TaskID) {
		_, p := s.pieceOf(pieceCopy)
		s.must(os.Remove(s.inHold(copyName(p.copy))))
	}, "its content as it is", false},
	{"a copy is too short", func(s *stand, _ []tasktree.TaskID) {
		_, p := s.pieceOf(pieceCopy)
		s.must(os.Truncate(s.inHold(copyName(p.copy)), 5))
	}, "its content as it is", false},
	{"an object in hold is missing", func(s *stand, ids []tasktree.TaskID) {
		_, v := s.firstKey(key(kEntry, uint64(ids[2])), func(_, v []byte) bool {
			d := dec{b: v}
			_, err := os.Lstat(s.inHold(holdName(OID(d.u()))))
			return err == nil
		})
		d := dec{b: v}
		s.must(os.RemoveAll(s.inHold(holdName(OID(d.u())))))
	}, "leaves that name as it is", false},
	{"a record of an object in hold", func(s *stand, _ []tasktree.TaskID) {
		k, _ := s.firstKey([]byte{kObject}, func(k, _ []byte) bool {
			_, err := os.Lstat(s.inHold(holdName(OID(keyNum(k, 0)))))
			return err == nil
		})
		s.spoil(k)
	}, "made anew", true},
	{"a record of an object in the tree", func(s *stand, _ []tasktree.TaskID) {
		k, _ := s.firstKey([]byte{kObject}, func(k, v []byte) bool {
			o, err := decodeObject(OID(keyNum(k, 0)), v)
			_, e2 := os.Lstat(filepath.Join(s.dir, o.at.name))
			return err == nil && o.at.dir == rootOID && e2 == nil && o.at.name == "run"
		})
		s.spoil(k)
	}, "made anew", true},
	{"a record of an object that is nowhere", func(s *stand, _ []tasktree.TaskID) {
		k, _ := s.firstKey([]byte{kObject}, func(k, _ []byte) bool {
			_, err := os.Lstat(s.inHold(holdName(OID(keyNum(k, 0)))))
			return err == nil
		})
		s.spoil(k)
		s.must(os.RemoveAll(s.inHold(holdName(OID(keyNum(k, 0))))))
	}, "cannot be read, and it is not found", false},
	{"an entry", func(s *stand, ids []tasktree.TaskID) {
		k, _ := s.firstKey(key(kEntry, uint64(ids[1])), any2)
		s.spoil(k)
	}, "an image of task", false},
	{"attributes", func(s *stand, ids []tasktree.TaskID) {
		k, _ := s.firstKey(key(kMeta, uint64(ids[1])), any2)
		s.spoil(k)
	}, "an image of task", false},
	{"a size", func(s *stand, ids []tasktree.TaskID) {
		k, _ := s.firstKey(key(kContent, uint64(ids[1])), any2)
		s.spoil(k)
	}, "an image of task", false},
	{"a piece", func(s *stand, _ []tasktree.TaskID) { k, _ := s.pieceOf(pieceInline); s.spoil(k) }, "an image of task", false},
	{"a packed piece", func(s *stand, _ []tasktree.TaskID) {
		k, p := s.pieceOf(piecePacked)
		for i := 4; i < len(p.data); i++ { // the length that it tells, before that, still fits
			p.data[i] = 0xff
		}
		var b journal.Batch
		b.Put(k, p.encode())
		s.must(s.e.j.Commit(&b))
	}, "its content as it is", false},
	{"a task in the middle", func(s *stand, ids []tasktree.TaskID) { s.spoil(key(kTask, uint64(ids[2]))) }, "one cannot go back beyond it", false},
	{"an active task", func(s *stand, _ []tasktree.TaskID) { s.spoil(append([]byte{kActive}, "a"...)) }, "the newest", false},
	{"where redo goes", func(s *stand, _ []tasktree.TaskID) {
		k, _ := s.firstKey([]byte{kLast}, any2)
		s.spoil(k)
	}, "where redo goes", true},
	{"a counter", func(s *stand, _ []tasktree.TaskID) { s.spoil([]byte{kCounter, 'o'}) }, "goes on from", true},
	{"a counter is gone", func(s *stand, _ []tasktree.TaskID) {
		var b journal.Batch
		b.Delete([]byte{kCounter, 'c'})
		s.must(s.j.Commit(&b))
	}, "goes on from", true},
	{"a share", func(s *stand, _ []tasktree.TaskID) {
		k, _ := s.firstKey([]byte{kShare}, any2)
		s.spoil(k)
	}, "a share cannot be read", true},
	{"an image of a task that is not there", func(s *stand, _ []tasktree.TaskID) {
		var b journal.Batch
		b.Put(entryKey(999, spot{rootOID, "x"}), encodeNumber(0))
		s.must(s.j.Commit(&b))
	}, "which is not there", true},
}

func (s *stand) inHold(name string) string { return filepath.Join(s.dir, StoreName, "hold", name) }

// TestRepair mends each kind of damage: the workspace stays as it is, every task that is not marked is exact, the next check
// and the next repair find nothing.
func TestRepair(t *testing.T) {
	t.Parallel()
	for _, d := range damages {
		t.Run(strings.ReplaceAll(d.name, " ", "_"), func(t *testing.T) {
			s, ids, ends, _ := years(t)
			s.must(s.rewrite("mid", strings.Repeat("M", 1<<20)))
			s.must(s.create("text", strings.Repeat("some text\n", 200), 0o644))
			s.must(s.e.Archive())
			s.begin("copies")
			s.must(s.rewrite("text", "none")) // and these in the record
			s.must(s.rewrite("mid", "short")) // its bytes stay in a copy: the task is not archived
			s.must(s.unlink("run"))
			s.begin("after")
			s.must(s.create("run", "another", 0o755))
			s.begin("last of all")
			before := s.snapshot(true)
			d.do(s, ids)
			said := s.repaired()
			if all := strings.Join(said, "\n"); (d.says == "") != (len(said) == 0) || !strings.Contains(all, d.says) {
				t.Errorf("the repair says %q, should say %q", said, d.says)
			}
			s.check("repaired", before)
			s.verify()
			s.mostlyExact(ids, ends, d.exact)
			if again := s.repaired(); len(again) > 0 {
				t.Errorf("a second repair says %q", again)
			}
			s.sweep()
			s.verify()
		})
	}
}

// mostlyExact goes back from the last end as far as it is exact: to where a task is marked, or to the beginning.
func (s *stand) mostlyExact(ids []tasktree.TaskID, ends []map[string]string, whole bool) {
	s.t.Helper()
	for at := s.e.Active("a"); at > ids[len(ids)-1]; { // those after the ends
		k, _ := s.e.Task(at)
		if k.Incomplete {
			if whole {
				s.t.Errorf("task %d is incomplete, and nothing of it should be lost", at)
			}
			return
		}
		_, err := s.e.Undo("a", MoveOptions{})
		s.must(err)
		at = s.e.Active("a")
	}
	for i := len(ids) - 1; ; i-- {
		s.check(fmt.Sprintf("end %d", i), ends[i])
		k, _ := s.e.Task(ids[i])
		if i == 0 || k.Incomplete || k.Pruned {
			if whole && i > 0 {
				s.t.Errorf("task %d is incomplete, and nothing of it should be lost", ids[i])
			}
			if !whole && i == 0 {
				s.t.Error("something was lost, and no task is marked")
			}
			return
		}
		_, err := s.e.Undo("a", MoveOptions{})
		s.must(err)
	}
}

// TestRepairMove ends a move that a death interrupted; where it cannot be ended, it is forgotten, and its tasks are marked.
func TestRepairMove(t *testing.T) {
	t.Parallel()
	ended, forgotten := 0, 0
	for n := 0; ; n += 2 {
		s, ids, ends, _ := years(t)
		s.dieAt(n)
		_, died := s.dies(func() { _, err := s.e.Switch("a", ids[1], MoveOptions{}); s.must(err) })
		if !died {
			break
		}
		s.close()
		spoilt := n%4 == 0
		if spoilt { // an image that the move needs
			j, err := journal.Open(filepath.Join(s.store, "journal"), journal.Options{FloorBytes: -1})
			s.must(err)
			s.j = j
			if moving, err := interruptedMoves(j); err == nil && len(moving) > 0 && n%8 == 0 {
				s.spoil(moveKey(moving[0].num))
			} else {
				k, _ := s.firstKey(key(kEntry, uint64(ids[2])), any2)
				s.spoil(k)
			}
			s.must(j.Close())
			if err := s.tryOpen(); err == nil {
				s.close() // the move was behind that task already, or not begun
			} else if !errors.Is(err, Damaged) {
				t.Fatal(err)
			}
		}
		said := strings.Join(s.repaired(), "\n")
		switch at := s.e.Active("a"); {
		case strings.Contains(said, "neither ended"):
			forgotten++
			marked := 0
			for _, k := range s.e.Tasks() {
				if k.Incomplete {
					marked++
				}
			}
			if marked == 0 {
				t.Errorf("death %d: no task of a move that was forgotten is marked", n)
			}
		case spoilt:
		case at == ids[1]:
			ended++
			s.check("ended", ends[1])
		}
		s.verify()
		if again := s.repaired(); len(again) > 0 {
			t.Errorf("death %d: a second repair says %q", n, again)
		}
		s.close()
	}
	t.Logf("moves ended: %d, forgotten: %d", ended, forgotten)
	if ended < 3 || forgotten < 1 {
		t.Errorf("only %d moves were ended, %d forgotten", ended, forgotten)
	}
}
