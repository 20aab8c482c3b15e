package overlay

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCaptureCosts: each change costs what is overwritten, not what exists (DESIGN section 6): how many records, how much of the
// journal, how much in hold, and whether the inode is the one that was there.
func TestCaptureCosts(t *testing.T) {
	t.Parallel()
	const bigBytes = 8 << 20
	noise := string(noise(bigBytes))
	small := noise[:100<<10]
	for _, c := range []struct {
		what    string
		do      func(s *stand) error
		records uint64 // at most
		journal int    // bytes, at most
		held    int64  // bytes of copies in hold, at most
		holds   int    // inodes in hold
		keeps   string // the file that keeps its inode, "": none is asked
	}{
		{"a tree of 200 files is made", func(s *stand) error {
			if err := s.mkdir("new", 0o755); err != nil {
				return err
			}
			for i := range 200 {
				if err := s.create("new/"+fmt.Sprint(i), small, 0o644); err != nil {
					return err
				}
			}
			return nil
		}, 1, 600, 0, 0, ""},
		{"such a tree is made and removed", func(s *stand) error {
			if err := s.mkdir("new", 0o755); err != nil {
				return err
			}
			for i := range 50 {
				if err := s.create("new/"+fmt.Sprint(i), small, 0o644); err != nil {
					return err
				}
				if err := s.unlink("new/" + fmt.Sprint(i)); err != nil {
					return err
				}
			}
			return s.rmdir("new")
		}, 1, 600, 0, 0, ""},
		{"append", func(s *stand) error { return s.append("big", small) }, 1, 600, 0, 0, "big"},
		{"append, fifty times", func(s *stand) error {
			for range 50 {
				if err := s.append("big", small); err != nil {
					return err
				}
			}
			return nil
		}, 1, 600, 0, 0, "big"},
		{"unlink", func(s *stand) error { return s.unlink("big") }, 1, 600, 0, 1, ""},
		{"rename over a file", func(s *stand) error { return s.rename("small", "big", 0) }, 1, 900, 0, 1, ""},
		{"a small file is emptied and written, twenty times", func(s *stand) error {
			for range 20 {
				if err := s.rewrite("small", "other"); err != nil {
					return err
				}
			}
			return nil
		}, 1, len(small) + 600, 0, 0, "small"},
		{"a byte of a big file", func(s *stand) error { return s.write("big", 5<<20, "x") }, 1, 4096 + 600, 0, 0, "big"},
		{"the same byte, fifty times", func(s *stand) error {
			for range 50 {
				if err := s.write("big", 5<<20, "x"); err != nil {
					return err
				}
			}
			return nil
		}, 1, 4096 + 600, 0, 0, "big"},
		{"a big file is emptied", func(s *stand) error { return s.rewrite("big", "short") }, 1, 800, bigBytes, 0, "big"},
		{"a mode, fifty times", func(s *stand) error {
			for i := range uint32(50) {
				if err := s.chmod("big", 0o600+i%8); err != nil {
					return err
				}
			}
			return nil
		}, 1, 600, 0, 0, "big"},
	} {
		t.Run(strings.ReplaceAll(c.what, " ", "_"), func(t *testing.T) {
			s := newStand(t, 1)
			s.must(s.create("big", noise, 0o644))
			s.must(s.create("small", small, 0o644))
			s.begin("measured")
			start := s.snapshot(true)
			records, bytes := s.e.count.records.Load(), s.j.Stats().SegmentBytes
			s.must(c.do(s))
			if n := s.e.count.records.Load() - records; n > c.records {
				t.Errorf("%d records, %d are enough", n, c.records)
			}
			if n := int(s.j.Stats().SegmentBytes - bytes); n > c.journal {
				t.Errorf("%d bytes of journal, %d are enough", n, c.journal)
			}
			held, holds := s.heldNow()
			if held > c.held || holds != c.holds {
				t.Errorf("%d bytes of copies and %d inodes in hold, want %d and %d", held, holds, c.held, c.holds)
			}
			if c.keeps != "" {
				var was, is unix.Stat_t
				s.must(unix.Lstat(filepath.Join(s.dir, c.keeps), &is))
				s.undo()
				s.must(unix.Lstat(filepath.Join(s.dir, c.keeps), &was))
				if was.Ino != is.Ino {
					t.Error("the file has another inode")
				}
			} else {
				s.undo()
			}
			s.check("undone", start)
		})
	}
}

// heldNow is how many bytes of copies are in hold, and how many inodes that were moved there.
func (s *stand) heldNow() (copies int64, inodes int) {
	s.t.Helper()
	all, err := os.ReadDir(filepath.Join(s.dir, StoreName, "hold"))
	s.must(err)
	for _, ent := range all {
		info, err := ent.Info()
		s.must(err)
		if ent.Name()[0] == 'c' {
			copies += info.Size()
		} else {
			inodes++
		}
	}
	return copies, inodes
}
