package overlay

import "testing"

// TestGuardExchangesDirectories: what an agent knows of a file says nothing of a directory that has changed places with it.
func TestGuardExchangesDirectories(t *testing.T) {
	s := newStand(t, 1)
	s.set = func(o *Options) { o.Guard = true }
	s.reopen()
	s.must(s.mkdir("dir", 0o755))
	s.must(s.mkdir("other", 0o755))
	s.must(s.create("file", "what it is", 0o644))
	h, err := s.openFile("file", 0)
	s.must(err)
	s.read(h)
	s.release(h)
	for i, ends := range [][2]string{{"dir", "file"}, {"file", "dir"}, {"file", "dir"}, {"dir", "file"}, {"dir", "other"}} {
		if err := s.rename(ends[0], ends[1], RenameExchange); err != nil {
			t.Errorf("%d, %s and %s: %v", i, ends[0], ends[1], err)
		}
	}
}
