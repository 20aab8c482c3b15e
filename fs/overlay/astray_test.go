package overlay

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// cut is a power cut: the tree has what f does, and the journal has not. The store is opened again as after another start of the machine,
// first for reading only, when look is called.
func (s *stand) cut(f, look func()) {
	s.t.Helper()
	s.image()
	f()
	s.close()
	s.set = func(o *Options) { o.Cut, o.ReadOnly = true, true }
	s.open()
	look()
	s.close()
	s.set = func(o *Options) { o.Cut = true }
	s.open()
	s.set = nil
}

// TestAstray: objects of which a power cut has taken the record of their last move are where they are, not gone.
func TestAstray(t *testing.T) {
	s := newStand(t, 1)
	start(s)
	before := s.snapshot(true)
	s.begin("task")
	s.must(s.rename("d/sub/deep", "deep", 0))
	s.must(s.rename("f", "d/F", 0))
	s.must(s.rename("d/sub", "sub", 0))
	s.must(s.rename("empty", "d/empty", 0))
	s.cut(func() {
		s.must(s.mkdir("n1", 0o755)) // no record of these, of course
		s.must(s.mkdir("n1/n2", 0o755))
		s.must(s.rename("deep", "n1/n2/deep", 0))
		s.must(s.rename("sub", "n1/n2/sub", 0))
		s.must(s.rename("d/F", "n1/n2/sub/f2", 0))
		s.must(s.rename("d", "n1/d", 0))
		s.must(s.rename("n1/d/empty", "other/empty", 0))
	}, func() {
		s.verify()
		if files, err := s.e.Files(s.e.Active("a")); err != nil || len(files) == 0 {
			t.Errorf("what the task changed: %v, %v", files, err)
		}
	})
	s.verify()
	s.reopen() // what was found is known from now on
	s.verify()
	s.undo()
	after := s.snapshot(true)
	for path, was := range before {
		top, _, _ := strings.Cut(path, "/")
		switch {
		case top == "d" && path != "d/sub" && !strings.HasPrefix(path, "d/sub/"):
			path = "n1/" + path // the task did not move it: it stays where it came to
		case strings.HasPrefix(path, "d/sub"):
			path = "n1/" + path // it goes back to where it was in that directory
		}
		if now := after[path]; !sameBut(now, was) {
			t.Errorf("%s was %q and is %q", path, was, now)
		}
	}
}

var (
	// A file that comes back keeps the name that nobody has a record of beside the one that it had; groups are told by their first name.
	linksOf = regexp.MustCompile(` (same=\S+|links=\d+)`)
	// Directories get times by what was made in them and stays.
	timesOf = regexp.MustCompile(`mtime=\d+`)
)

func sameBut(a, b string) bool {
	for _, but := range []*regexp.Regexp{linksOf, timesOf} {
		a, b = but.ReplaceAllString(a, ""), but.ReplaceAllString(b, "")
	}
	return a == b
}

// TestNumbersAfterCut: the journal has lost that numbers were given, and hold has what they were given to.
func TestNumbersAfterCut(t *testing.T) {
	s := newStand(t, 1)
	s.cut(func() {
		start(s)
		s.begin("task")
		s.must(s.unlink("f"))
		noise := make([]byte, 1<<20)
		for i := range noise {
			noise[i] = byte(s.rng.Uint32())
		}
		s.must(s.create("noise", string(noise), 0o644))
		s.begin("another")
		s.must(s.write("noise", 0, strings.Repeat("x", 900<<10))) // more than a record takes
	}, func() {})
	held, err := os.ReadDir(filepath.Join(s.dir, StoreName, "hold"))
	s.must(err)
	if len(held) < 2 {
		t.Fatalf("in hold is only %v", held)
	}
	s.begin("task")
	for range held {
		o, err := s.e.newOID()
		s.must(err)
		c, fd, err := s.e.newCopy()
		s.must(err)
		s.must(os.NewFile(uintptr(fd), "").Close())
		for _, h := range held {
			if h.Name() == holdName(o) || h.Name() == copyName(c) {
				t.Fatalf("the number of hold/%s is given again", h.Name())
			}
		}
		s.e.dropCopy(c)
	}
	s.must(s.unlink("g"))
	s.undo()
	s.verify()
}
