package overlay

import (
	"errors"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/journal"
	"golang.org/x/sys/unix"
)

// brokenJournal fails its n-th call from now on, and with on every one after it; below 0: none.
type brokenJournal struct {
	Journal
	n  int
	on bool
}

func (j *brokenJournal) broken() error {
	if j.n--; j.n == -1 || j.on && j.n < 0 {
		return &journal.Error{Op: "test", Kind: journal.ErrNoSpace, Err: unix.ENOSPC}
	}
	return nil
}

// Get fails as the others do.
func (j *brokenJournal) Get(key []byte) ([]byte, bool, error) {
	if err := j.broken(); err != nil {
		return nil, false, err
	}
	return j.Journal.Get(key)
}

// Commit fails as the others do.
func (j *brokenJournal) Commit(b *journal.Batch) error {
	if err := j.broken(); err != nil {
		return err
	}
	return j.Journal.Commit(b)
}

// TestRefusedChangeLeavesNoCopies: a change that is refused for want of space must not take more of it each time that it is
// tried: the copies that were made for one part of its record go when another fails.
func TestRefusedChangeLeavesNoCopies(t *testing.T) {
	s := newStand(t, 1)
	s.close()
	j := &brokenJournal{n: 1 << 30}
	s.set = func(o *Options) { j.Journal = o.Journal; o.Journal = j }
	s.open()
	big := strings.Repeat("0123456789abcdef", 64<<10)
	s.must(s.create("big", big, 0o644))
	s.begin("two")
	s.fork("one")
	changes := map[string]func() error{
		"truncate": func() error { return s.truncate("big", 10) },
		"write": func() error {
			return s.with("big", unix.O_RDWR, func(h *Handle) error {
				return s.e.Fallocate(s.caller(), h, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 512<<10)
			})
		},
		"rewrite": func() error { return s.rewrite("big", "small") },
	}
	for name, change := range changes {
		s.walk("big")
		for n, done := 0, false; !done; n++ {
			before := s.inHoldNow('c')
			j.n = n
			err := change()
			done = j.n >= 0
			j.n = 1 << 30
			if done {
				s.must(err)
				if n < 3 {
					t.Errorf("%s asks the journal only %d times", name, n)
				}
			} else if err == nil {
				t.Errorf("%s: fault %d was not heard of", name, n)
			} else if now := s.inHoldNow('c'); now != before {
				t.Errorf("%s: after fault %d there are %d copies, before %d", name, n, now, before)
			}
		}
		s.undo()
		if got := s.content("big"); got != big {
			t.Fatalf("%s and undo: %d bytes", name, len(got))
		}
		s.begin(name)
		s.discard("one")
		s.fork("one")
	}
}

func (s *stand) discard(name ForkName) { s.must(s.e.Discard(name, true)) }

// TestPassWithoutACopy: with --on-store-error pass a change goes on also when it is not the record itself that cannot be kept,
// but a copy or a number that goes before it.
func TestPassWithoutACopy(t *testing.T) {
	s := newStand(t, 1)
	s.close()
	j := &brokenJournal{n: 1 << 30}
	s.set = func(o *Options) { j.Journal = o.Journal; o.Journal = j; o.Pass = true }
	s.open()
	s.must(s.create("big", strings.Repeat("0123456789abcdef", 64<<10), 0o644))
	s.begin("two")
	_, err := s.walk("big")
	s.must(err)
	j.n, j.on = 0, true
	err = errors.Join(s.truncate("big", 10), s.chmod("big", 0o600))
	j.n, j.on = 1<<30, false
	s.must(err)
	if got := s.content("big"); got != "0123456789" {
		t.Errorf("big is %q", got)
	}
	if k, _ := s.e.Task(s.e.Active("a")); !k.Incomplete {
		t.Error("the task is not marked incomplete")
	}
	if n := s.inHoldNow('c'); n != 0 {
		t.Errorf("%d copies are left", n)
	}
}

// TestFailedLookupIsNotCounted: the kernel takes back only what it was told, so what it was not told must not be counted.
func TestFailedLookupIsNotCounted(t *testing.T) {
	s := newStand(t, 1)
	s.must(s.create("f", "content", 0o644))
	s.must(s.link("f", "g"))
	s.close()
	j := &brokenJournal{n: 1 << 30}
	s.set = func(o *Options) { j.Journal = o.Journal; o.Journal = j }
	s.open()
	j.n = 0
	if _, err := s.e.Lookup(RootNode, "f"); !errors.Is(err, NoSpace) {
		t.Fatalf("the fault was not heard of: %v", err)
	}
	j.n = 1 << 30
	s.e.nodes.mu.Lock()
	n := len(s.e.nodes.byID)
	s.e.nodes.mu.Unlock()
	if n != 1 {
		t.Errorf("%d nodes are known beside the root", n-1)
	}
}
