package overlay

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// kept counts the records that epochs have, and the copies in hold.
func (s *stand) kept() (records, copies int) {
	s.t.Helper()
	for _, letter := range []byte{kEntry, kMeta, kContent, kPiece, kLinks} {
		s.must(s.j.Scan([]byte{letter}, func(k, _ []byte) error {
			if keyNum(k, 0)&uint64(epochBit) != 0 {
				records++
			}
			return nil
		}))
	}
	all, err := filepath.Glob(filepath.Join(s.dir, StoreName, "hold", "c*"))
	s.must(err)
	return records, len(all)
}

// TestEpochsInTheMiddle: a fork that lives long, beside many that come and go while the workspace changes, stays what it was, as
// does one from the middle; and what is kept does not grow with the number of those that went.
func TestEpochsInTheMiddle(t *testing.T) {
	s := forkTree(t)
	big := strings.Repeat("0123456789abcdef", 40_000)
	s.must(s.create("big", big, 0o600))
	s.must(s.create("shrinks", big, 0o600))
	s.old()
	want := s.tree()
	old := s.fork("old")
	var middle *stand
	var wantMiddle map[string]string
	change := func(i int) {
		s.begin("change")
		s.must(s.write("d/b", int64(i%7)*30_000, fmt.Sprintf("change %d", i)))
		s.must(s.write("big", int64(i%11)*50_000, strings.Repeat("x", 10_000+i*3_000)))
		s.must(s.truncate("shrinks", int64(600_000-i%5*100_000)))
		s.must(s.rewrite("a", fmt.Sprint(i)))
		s.must(s.chmod("d", uint32(0o700|i%8)))
		s.must(s.rename(fmt.Sprintf("h%d", 1+i%2*2), fmt.Sprintf("h%d", 3-i%2*2), 0))
		if i%2 == 0 {
			s.must(s.create("comes", "and goes", 0o600))
		} else {
			s.must(s.unlink("comes"))
		}
	}
	var early, late int
	for i := range 40 {
		name := ForkName(fmt.Sprint("brief", i))
		brief := s.fork(name)
		is := s.tree()
		change(i)
		if i == 13 {
			middle, wantMiddle = s.fork("middle"), s.tree()
		}
		s.same(brief.tree(), is, "a brief one")
		s.must(s.e.Discard(name, false))
		if n := len(s.e.epochs.from(0)); n > 4 {
			t.Fatalf("there are %d epochs after %d forks", n, i)
		}
		records, _ := s.kept()
		switch i {
		case 25:
			early = records
		case 39:
			late = records
		}
		if i%13 == 5 {
			s.forget(1)
			s.crash()
			old = s.forked("old")
			if i > 13 {
				middle = s.forked("middle")
			}
		}
	}
	s.same(old.tree(), want, "the old one")
	s.same(middle.tree(), wantMiddle, "the one from the middle")
	if late > early+early/4 {
		t.Errorf("%d records are kept after 25 forks, %d after 39", early, late)
	}
	s.must(s.e.Discard("old", false))
	s.same(middle.tree(), wantMiddle, "the one from the middle, without the old one")
	s.verify()
	s.must(s.e.Discard("middle", false))
	if records, _ := s.kept(); records != 0 || len(s.e.epochs.from(0)) != 0 {
		t.Errorf("%d records of epochs %v stay", records, s.e.epochs.from(0))
	}
	s.verify()
}

// TestEpochDeath dies at every point of telling an epoch into another: the old fork stays what it was, and what is left is told
// at the next open.
func TestEpochDeath(t *testing.T) {
	t.Parallel()
	for n := 0; ; n++ {
		s := forkTree(t)
		want := s.tree()
		s.fork("old")
		s.begin("one")
		s.must(s.write("d/b", 100_000, "XYZ"))
		s.must(s.rename("a", "A", 0))
		s.fork("brief")
		s.begin("two")
		for i := range trimBatch {
			s.must(s.create(fmt.Sprint("new", i), "", 0o600))
		}
		s.must(s.write("d/b", 0, strings.Repeat("y", 140_000)))
		s.must(s.unlink("l"))
		s.must(s.rename("A", "a", 0))
		s.fork("last")
		s.begin("three")
		s.must(s.rewrite("d/b", "three"))
		s.dieAt(n)
		at, died := s.dies(func() { s.must(s.e.Discard("brief", true)) })
		if died {
			s.close()
			s.open()
		}
		if _, _, there := s.e.ForkOf("brief"); there {
			s.must(s.e.Discard("brief", true))
		}
		s.same(s.forked("old").tree(), want, "after a death at "+at)
		if got := s.e.epochs.from(0); len(got) != 2 {
			t.Errorf("after a death at %s there are epochs %v", at, got)
		}
		s.must(s.e.Discard("last", true))
		s.must(s.e.Discard("old", true))
		if records, copies := s.kept(); records != 0 {
			t.Errorf("after a death at %s, %d records and %d copies stay", at, records, copies)
		}
		s.must(second(s.e.Sweep()))
		s.verify()
		if !died {
			if n < 4 {
				t.Errorf("there are only %d points", n)
			}
			return
		}
	}
}

// TestTidyInTheBackground: without a test that stops the world, discarding waits for nothing of it, and it is done all the same.
func TestTidyInTheBackground(t *testing.T) {
	s := newStand(t, 1)
	s.close()
	s.set = func(o *Options) { o.point = nil }
	s.open()
	s.must(s.create("f", "old", 0o600))
	for i := range 3 {
		f := s.fork(ForkName(fmt.Sprint("f", i)))
		f.must(f.create("mine", "m", 0o600))
		s.must(s.rewrite("f", fmt.Sprint(i)))
	}
	for _, i := range []int{1, 0, 2} {
		s.must(s.e.Discard(ForkName(fmt.Sprint("f", i)), false))
	}
	for end := time.Now().Add(time.Minute); ; {
		records, _ := s.kept()
		all, err := filepath.Glob(filepath.Join(s.dir, StoreName, "forks", ".*"))
		s.must(err)
		var st unix.Stat_t
		if records == 0 && len(all) == 0 && unix.Stat(filepath.Join(s.dir, StoreName, "forks", "f0"), &st) != nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d records and %v stay", records, all)
		}
	}
}
