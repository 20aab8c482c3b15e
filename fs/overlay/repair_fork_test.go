package overlay

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/journal"
)

// forkedYears is a workspace with a fork and a fork of it, each with changes of its own and of its parent's behind its back.
func forkedYears(t *testing.T) (s *stand, trees func() []map[string]string) {
	t.Helper()
	s = newStand(t, 1)
	start(s)
	for _, name := range []string{"kept", "changed", "gone", "moved"} {
		s.must(s.create(name, "before the fork: "+name, 0o644))
	}
	s.begin("before")
	s.must(s.write("kept", 0, "task"))
	f := s.fork("f")
	s.begin("beside")
	s.must(s.rewrite("changed", "the parent's"))
	s.must(s.unlink("gone"))
	s.must(s.rename("moved", "elsewhere", 0))
	f.begin("in the fork")
	f.must(f.rewrite("kept", "the fork's"))
	f.must(f.create("new", "only in the fork", 0o644))
	return s, func() []map[string]string { return []map[string]string{s.seen(), s.forked("f").seen()} }
}

// TestRepairKeepsForks: what is sound of a workspace with forks stays as it is, the images that its forks need among it.
func TestRepairKeepsForks(t *testing.T) {
	t.Parallel()
	s, trees := forkedYears(t)
	before := trees()
	if said := s.repaired(); len(said) > 0 {
		t.Errorf("of a sound store it says %q", said)
	}
	for i, got := range trees() {
		s.same(got, before[i], "after a repair")
	}
	f := s.forked("f")
	if _, err := f.e.Undo(f.agent, MoveOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := f.seen()["kept"]; got == before[1]["kept"] {
		t.Error("undo in the fork does nothing")
	}
}

// TestRepairEpoch: an image that a fork needs and that cannot be read is dropped, and the fork shows what is there now.
func TestRepairEpoch(t *testing.T) {
	t.Parallel()
	s, trees := forkedYears(t)
	before := trees()
	k, _ := s.firstKey([]byte{kContent}, func(k, _ []byte) bool { return keyNum(k, 0) >= uint64(epochBit) })
	s.spoil(k)
	said := s.repaired()
	if all := strings.Join(said, "\n"); !strings.Contains(all, "kept for forks") {
		t.Errorf("the repair says %q", said)
	}
	after := trees()
	s.same(after[0], before[0], "the workspace")
	if after[1]["changed"] != after[0]["changed"] {
		t.Errorf("the fork shows %s, the workspace %s", after[1]["changed"], after[0]["changed"])
	}
	if again := s.repaired(); len(again) > 0 {
		t.Errorf("a second repair says %q", again)
	}
}

// TestRepairLostFork: a fork whose record is damaged is taken out of the workspace, and what it changed is kept.
func TestRepairLostFork(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"spoilt", "gone"} {
		s, _ := forkedYears(t)
		main := s.seen()
		k, _ := s.firstKey([]byte{kFork}, any2)
		if how == "spoilt" {
			s.spoil(k)
		} else {
			s.drop(k)
		}
		said := strings.Join(s.repaired(), "\n")
		kept := filepath.Join(s.dir, StoreName, "lost", "f", "tree", "new")
		if b, err := os.ReadFile(kept); err != nil || string(b) != "only in the fork" {
			t.Errorf("%s: what the fork made is not kept: %q, %v", how, b, err)
		}
		if !strings.Contains(said, "lost/f") {
			t.Errorf("%s: the repair says %q", how, said)
		}
		s.same(s.seen(), main, how)
		if again := s.repaired(); len(again) > 0 {
			t.Errorf("%s: a second repair says %q", how, again)
		}
		s.fork("f") // the name is free
		s.verify()
	}
}

func (s *stand) drop(key []byte) {
	s.t.Helper()
	var b journal.Batch
	b.Delete(key)
	s.must(s.j.Commit(&b))
}
