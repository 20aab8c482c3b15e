package overlay

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// listed is a stand with a directory d of three files, and a clock that goes as it is told.
func listed(t *testing.T) (s *stand, d NodeID, now *time.Time) {
	at := time.Now().Add(time.Minute)
	now = &at
	s = newStand(t, 1)
	s.close()
	s.set = func(o *Options) { o.Clock = func() time.Time { return *now } }
	s.open()
	s.must(s.mkdir("d", 0o755))
	for _, name := range []string{"d/a", "d/b", "d/c"} {
		s.must(s.create(name, name, 0o644))
	}
	d, err := s.walk("d")
	s.must(err)
	return s, d, now
}

const keptFor = 10 * time.Second

// opens opens a directory and fails unless the kernel may keep so much.
func (s *stand) opens(id NodeID, want Keep) *Dir {
	s.t.Helper()
	d, keep, err := s.e.OpenListing(id, keptFor)
	s.must(err)
	if keep != want {
		s.t.Fatalf("the kernel may keep %d, not %d", keep, want)
	}
	return d
}

func (s *stand) reads(d *Dir, want int) {
	s.t.Helper()
	n := 0
	s.must(s.e.Next(d, 0, func(ent Dirent) bool {
		if ent.Name != "." && ent.Name != ".." {
			n++
		}
		return true
	}))
	if n != want {
		s.t.Fatalf("%d names, not %d", n, want)
	}
}

// TestListingIsKept: the kernel may keep what it read of a directory until the directory changes, whoever does it, or ten seconds
// have passed.
func TestListingIsKept(t *testing.T) {
	s, id, now := listed(t)
	d := s.opens(id, KeepNew)
	s.reads(d, 3)
	s.e.CloseDir(d)
	d = s.opens(id, KeepAll)
	s.reads(d, 3) // the kernel has lost it: it asks after all
	s.e.CloseDir(d)
	for _, c := range []struct {
		what   string
		change func()
	}{
		{"made", func() { s.must(s.create("d/new", "", 0o644)) }},
		{"removed", func() { s.must(s.unlink("d/new")) }},
		{"made around", func() { s.must(os.WriteFile(filepath.Join(s.dir, "d/new"), nil, 0o644)) }},
		{"removed around", func() { s.must(os.Remove(filepath.Join(s.dir, "d/new"))) }},
		{"taken back", func() { s.begin("two"); s.must(s.unlink("d/a")); s.undo() }},
		{"ten seconds old", func() { *now = now.Add(keptFor) }},
		{"back in time", func() { *now = now.Add(-2 * time.Second) }},
	} {
		t.Log(c.what)
		*now = now.Add(2 * keptFor)
		s.e.CloseDir(s.opens(id, KeepNew))
		s.e.CloseDir(s.opens(id, KeepAll))
		c.change()
		s.e.CloseDir(s.opens(id, KeepNew))
		s.e.CloseDir(s.opens(id, KeepAll))
	}
	if d, keep, err := s.e.OpenListing(id, 0); err != nil || keep != KeepNothing {
		t.Errorf("by another inode: %d, %v", keep, err)
	} else {
		s.e.CloseDir(d)
	}
}

// TestListingOfJustNow: a change may have the time of the one before, where times have a coarse grain. So nothing is kept of a directory
// that has just changed.
func TestListingOfJustNow(t *testing.T) {
	s, id, now := listed(t)
	*now = time.Now()
	s.must(s.create("d/new", "", 0o644))
	s.e.CloseDir(s.opens(id, KeepNothing))
	*now = now.Add(time.Minute)
	s.e.CloseDir(s.opens(id, KeepNew))
}

// TestListingNotObeyed: until the kernel has done as the answer to an open says, which lets go of what it had, nobody is told that what it has
// is true.
func TestListingNotObeyed(t *testing.T) {
	s, id, _ := listed(t)
	a := s.opens(id, KeepNew)
	b := s.opens(id, KeepNew)
	s.reads(b, 3)
	c := s.opens(id, KeepAll)
	for _, d := range []*Dir{a, b, c} {
		s.e.CloseDir(d)
	}
}

// TestListingFromBefore: what somebody read before a change may come into what the kernel keeps after it. While he has the directory
// open, what it has is not believed; who has it open and never read does no harm.
func TestListingFromBefore(t *testing.T) {
	s, id, now := listed(t)
	idle, reader := s.opens(id, KeepNew), s.opens(id, KeepNew)
	s.reads(reader, 3)
	s.must(s.unlink("d/a"))
	*now = now.Add(time.Minute)
	for range 2 {
		d := s.opens(id, KeepNothing)
		s.reads(d, 2)
		s.e.CloseDir(d)
	}
	s.e.CloseDir(reader)
	d := s.opens(id, KeepNew)
	s.reads(d, 2)
	s.e.CloseDir(d)
	s.e.CloseDir(s.opens(id, KeepAll))
	s.e.CloseDir(idle)
}

// TestListingTellsAttributesOnce: the second of two listings of the same names tells no attributes, unless files were opened meanwhile, or
// the kernel has forgotten one.
func TestListingTellsAttributesOnce(t *testing.T) {
	s, id, now := listed(t)
	tells := func(keep Keep, want bool) {
		t.Helper()
		d := s.opens(id, keep)
		s.reads(d, 3)
		if got := s.e.Attributes(d, 0, keptFor); got != want {
			t.Errorf("attributes are told: %v", got)
		}
		if !s.e.Attributes(d, 7, keptFor) {
			t.Error("later parts of the listing have none")
		}
		s.e.CloseDir(d)
	}
	tells(KeepNew, true)
	tells(KeepAll, false)
	*now = now.Add(keptFor/2 + time.Second)
	tells(KeepAll, true)
	tells(KeepAll, false)
	a, err := s.walk("d/a")
	s.must(err)
	s.e.Forget(a, s.held[a])
	delete(s.held, a)
	delete(s.names, dentry{id, "a"})
	tells(KeepAll, true)
	for range 4 {
		h, err := s.openFile("d/b", unix.O_RDONLY)
		s.must(err)
		s.release(h)
	}
	tells(KeepNew, true)
}

// TestListingOpenedLater: a directory that the kernel was thought to know, and that is removed before it is read.
func TestListingOpenedLater(t *testing.T) {
	s, id, _ := listed(t)
	s.e.CloseDir(s.opens(id, KeepNew))
	d := s.opens(id, KeepAll)
	s.must(s.removeAll("d"))
	s.reads(d, 0)
	if err := s.e.SyncDir(d); err != nil {
		t.Errorf("fsync: %v", err)
	}
	s.e.CloseDir(d)
}
