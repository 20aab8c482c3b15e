package overlay

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// TestReadOnlyAgent: every change by a read-only agent, and by agents below it, is refused as such, before the guard has
// its say, and leaves nothing; reading works; others work on. It stays so over a reopening.
func TestReadOnlyAgent(t *testing.T) {
	s := newStand(t, 1)
	s.agent = "a"
	s.must(s.create("f", "content", 0o644))
	s.must(s.mkdir("d", 0o755))
	s.must(s.mkdir("empty", 0o755))
	s.must(s.create("d/g", "other", 0o644))
	big := strings.Repeat("x", 300<<10)
	s.must(s.create("big", big, 0o644))
	was, err := s.e.Isolate("ro", IsolateRO)
	if s.must(err); was != IsolateNone {
		t.Errorf("it was %q", was)
	}
	s.e.SetParent("below", "ro")
	try := func(who tasktree.Agent) {
		t.Helper()
		s.agent = who
		tree, tasks := s.snapshot(true), len(s.e.Tasks())
		for what, f := range map[string]func() error{
			"create":         func() error { return s.create("new", "x", 0o644) },
			"open to write":  func() error { _, err := s.openFile("f", unix.O_WRONLY); return err },
			"open to append": func() error { _, err := s.openFile("f", unix.O_WRONLY|unix.O_APPEND); return err },
			"open to empty":  func() error { _, err := s.openFile("f", unix.O_RDONLY|unix.O_TRUNC); return err },
			"open both":      func() error { _, err := s.openFile("big", unix.O_RDWR); return err },
			"truncate":       func() error { return s.truncate("f", 1) },
			"chmod":          func() error { return s.chmod("f", 0o600) },
			"utimes":         func() error { return s.utimes("f", 1) },
			"setxattr":       func() error { return s.setXattr("f", "user.a", "b") },
			"removexattr":    func() error { return s.removeXattr("f", "user.a") },
			"mkdir":          func() error { return s.mkdir("newdir", 0o755) },
			"symlink":        func() error { return s.symlink("f", "newlink") },
			"mkfifo":         func() error { return s.mkfifo("newfifo", 0o644) },
			"link":           func() error { return s.link("f", "d/hard") },
			"unlink":         func() error { return s.unlink("f") },
			"rmdir":          func() error { return s.rmdir("empty") },
			"rename":         func() error { return s.rename("f", "d/moved", 0) },
			"rename over":    func() error { return s.rename("f", "d/g", 0) },
			"exchange":       func() error { return s.rename("f", "d/g", unix.RENAME_EXCHANGE) },
			"O_TMPFILE": func() error {
				_, _, err := s.e.Tmpfile(s.caller(), RootNode, unix.O_RDWR, 0o644)
				return err
			},
		} {
			if err := f(); !errors.Is(err, ReadOnly) {
				t.Errorf("%s: %s: %v", who, what, err)
			}
		}
		if now := s.snapshot(true); !maps.Equal(tree, now) {
			t.Errorf("%s has changed the tree: %v, was %v", who, now, tree)
		}
		if n := len(s.e.Tasks()); n != tasks {
			t.Errorf("%s has begun a task", who)
		}
		for _, name := range []string{"f", "big"} {
			h, err := s.openFile(name, unix.O_RDONLY)
			s.must(err)
			if got := s.read(h); got != "content" && got != big {
				t.Errorf("%s read %q", who, got)
			}
			s.release(h)
		}
	}
	try("ro")
	try("below")
	s.agent = "a"
	s.must(s.rewrite("f", "rewritten"))
	s.agent = "ro" // it has read an older version: it is not told to read again, which would not help
	if err := s.rewrite("f", "mine"); !errors.Is(err, ReadOnly) {
		t.Errorf("stale: %v", err)
	}
	s.agent = "a"
	s.must(s.rewrite("f", "content"))
	s.reopen()
	s.e.SetParent("below", "ro")
	try("ro")
	if got := s.e.IsolationOf("below"); got != IsolateRO {
		t.Errorf("below it: %q", got)
	}
	if _, err := s.e.Isolate("ro", "weird"); !errors.Is(err, Invalid) {
		t.Errorf("an unknown mode: %v", err)
	}
	was, err = s.e.Isolate("ro", IsolateNone)
	if s.must(err); was != IsolateRO {
		t.Errorf("it was %q", was)
	}
	s.agent = "ro"
	s.must(s.create("new", "x", 0o644))
	s.reopen()
	s.must(s.unlink("new"))
}
