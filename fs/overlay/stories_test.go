package overlay

import (
	"strings"
	"testing"
)

// story is one small thing that a program does to a start tree in one task.
type story struct {
	name string
	do   func(s *stand)
}

// start makes the tree that every story begins with.
func start(s *stand) {
	s.t.Helper()
	s.agent = "setup"
	for _, dir := range []string{"d", "d/sub", "d/sub/deep", "empty", "other"} {
		s.must(s.mkdir(dir, 0o755))
	}
	for path, content := range map[string]string{
		"f": "first\n", "g": "second\n", "d/f": "in d\n", "d/sub/f": "in sub\n", "d/sub/deep/f": "deep\n", "nothing": "",
		"mid": strings.Repeat("0123456789abcdef", 300<<10/16), "big": strings.Repeat("big file of 5 MiB\n", 5<<20/18),
	} {
		s.must(s.create(path, content, 0o644))
	}
	s.must(s.create("run", "#!/bin/sh\n", 0o755))
	s.must(s.symlink("d/f", "l"))
	s.must(s.mkfifo("p", 0o600))
	s.must(s.create("h1", "three names\n", 0o644))
	s.must(s.link("h1", "h2"))
	s.must(s.link("h1", "d/h3"))
	s.must(s.setXattr("f", "user.kept", "old"))
	s.must(s.setXattr("d", "user.kept", "old"))
	s.agent = "a"
	s.old()
}

var stories = []story{
	{"create", func(s *stand) { s.must(s.create("new", "new\n", 0o600)) }},
	{"overwrite", func(s *stand) { s.must(s.write("f", 1, "XX")) }},
}

// how a story is told: what happens between the task and its undo.
var tellings = []struct {
	name string
	f    func(s *stand)
}{
	{"", func(s *stand) {}},
	{"forget", func(s *stand) { s.forget(1) }},
	{"reopen", func(s *stand) { s.reopen() }},
	{"crash", func(s *stand) { s.crash() }},
	{"archive", func(s *stand) {
		if s.e.Active("a") == 0 {
			s.must(s.e.Archive()) // what was left is sealed
			return
		}
		s.begin("next")
		s.must(s.e.Archive())
		s.undo()
	}},
}

// TestStories takes each story back and does it again, three times.
func TestStories(t *testing.T) {
	for _, st := range stories {
		t.Run(strings.ReplaceAll(st.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			for i, how := range tellings {
				s := newStand(t, uint64(i))
				start(s)
				before := s.snapshot(true)
				s.begin(st.name)
				st.do(s)
				after := s.snapshot(true)
				if differ(before, after) == "" {
					t.Fatal("the story changes nothing")
				}
				for range 3 {
					how.f(s)
					s.undo()
					s.check(how.name+" undo", before)
					how.f(s)
					s.redo()
					s.check(how.name+" redo", after)
				}
				s.close()
			}
		})
	}
}
