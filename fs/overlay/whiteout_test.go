package overlay

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// whiteoutStories are what overlayfs does to its upper layer.
var whiteoutStories = []story{
	{"rename, leaving a whiteout", func(s *stand) { s.must(s.rename("f", "d/x", RenameWhiteout)) }},
	{"rename over, leaving a whiteout", func(s *stand) { s.must(s.rename("f", "g", RenameWhiteout)) }},
	{"rename a directory over, leaving a whiteout", func(s *stand) { s.must(s.rename("d", "empty", RenameWhiteout)) }},
	{"rename what was made, leaving a whiteout", func(s *stand) {
		s.must(s.mkdir("m", 0o755))
		s.must(s.create("m/new", "new", 0o600))
		s.must(s.rename("m/new", "f", RenameWhiteout))
		s.must(s.rename("f", "m/x", RenameWhiteout))
	}},
	{"leave a whiteout, remove it", func(s *stand) {
		s.must(s.rename("f", "d/x", RenameWhiteout))
		s.must(s.unlink("f"))
		s.must(s.create("f", "other", 0o640))
	}},
}

// TestWhiteout: RENAME_WHITEOUT leaves a character device of number 0 at the old name, which is the caller's, also where
// an empty directory is replaced; and it does not go together with RENAME_EXCHANGE.
func TestWhiteout(t *testing.T) {
	s := newStand(t, 1)
	start(s)
	if err := s.rename("f", "g", RenameWhiteout|RenameExchange); err != unix.EINVAL {
		t.Errorf("with an exchange: %v", err)
	}
	f := s.stat("f")
	for _, names := range [][2]string{{"f", "g"}, {"d", "empty"}, {"g", "new"}} {
		s.must(s.rename(names[0], names[1], RenameWhiteout))
		if st := s.stat(names[0]); st.Mode&unix.S_IFMT != unix.S_IFCHR || st.Rdev_major|st.Rdev_minor != 0 {
			t.Errorf("%s is left with mode %o", names[0], st.Mode)
		}
	}
	if st := s.stat("new"); st.Ino != f.Ino {
		t.Errorf("inode %d has become %d by two renames", f.Ino, st.Ino)
	}
	if os.Geteuid() != 0 {
		return // a daemon without root makes everything as itself
	}
	c := s.caller()
	c.UID, c.GID = 1234, 1235
	root, name, err := s.parent("new")
	s.must(err)
	s.must(s.e.Rename(c, root, name, root, "newer", RenameWhiteout|RenameNoReplace))
	s.lost(root, name)
	if st := s.stat("new"); st.Uid != c.UID || st.Gid != c.GID {
		t.Errorf("a whiteout of %d:%d is of %d:%d", c.UID, c.GID, st.Uid, st.Gid)
	}
}
