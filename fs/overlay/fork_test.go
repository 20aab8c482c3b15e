package overlay

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// forkTree makes a tree with one of everything.
func forkTree(t *testing.T) *stand {
	s := newStand(t, 1)
	s.begin("tree")
	s.must(s.mkdirAll("d/e"))
	s.must(s.mkdir("empty", 0o711))
	s.must(s.create("a", "alpha", 0o644))
	s.must(s.create("d/b", strings.Repeat("beta ", 60_000), 0o640))
	s.must(s.create("d/e/c", "gamma", 0o600))
	s.must(s.create("d/none", "", 0o600))
	s.must(s.create("h1", "linked", 0o600))
	s.must(s.link("h1", "d/h2"))
	s.must(s.symlink("d/b", "l"))
	s.must(s.mkfifo("d/p", 0o600))
	s.must(s.setXattr("d/b", "user.k", "v"))
	s.must(s.setXattr("d", "user.k", "v"))
	s.must(s.with("d/sparse", unix.O_RDONLY, func(*Handle) error { return nil }), unix.ENOENT)
	s.must(s.create("d/sparse", "x", 0o600))
	s.must(s.truncate("d/sparse", 1<<20))
	s.old()
	return s
}

// parentChanges are all kinds of changes of the workspace that a fork was made of.
var parentChanges = []struct {
	name string
	do   func(s *stand) error
}{
	{"write", func(s *stand) error { return s.write("d/b", 100_000, "XYZ") }},
	{"rewrite", func(s *stand) error { return s.rewrite("a", "other") }},
	{"append", func(s *stand) error { return s.append("a", " more") }},
	{"truncate", func(s *stand) error { return s.truncate("d/b", 7) }},
	{"grow", func(s *stand) error { return s.truncate("a", 70_000) }},
	{"punch", func(s *stand) error {
		return s.fallocate("d/b", unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 100_000)
	}},
	{"chmod", func(s *stand) error { return s.chmod("d/b", 0o400) }},
	{"chmod a directory", func(s *stand) error { return s.chmod("d", 0o700) }},
	{"utimes", func(s *stand) error { return s.utimes("a", 5) }},
	{"setxattr", func(s *stand) error { return s.setXattr("d/b", "user.k", "w") }},
	{"removexattr", func(s *stand) error { return s.removeXattr("d", "user.k") }},
	{"create", func(s *stand) error { return s.create("d/e/new", "new", 0o600) }},
	{"mkdir", func(s *stand) error { return s.mkdir("d/n", 0o700) }},
	{"unlink", func(s *stand) error { return s.unlink("d/e/c") }},
	{"unlink a link", func(s *stand) error { return s.unlink("l") }},
	{"rmdir", func(s *stand) error { return s.rmdir("empty") }},
	{"rm -rf", func(s *stand) error { return s.removeAll("d") }},
	{"rename", func(s *stand) error { return s.rename("a", "d/e/a", 0) }},
	{"rename over", func(s *stand) error { return s.rename("a", "d/b", 0) }},
	{"rename a directory", func(s *stand) error { return s.rename("d", "D", 0) }},
	{"exchange", func(s *stand) error { return s.rename("a", "d", RenameExchange) }},
	{"replace a directory", func(s *stand) error {
		return errors.Join(s.rename("d", "D", 0), s.mkdir("d", 0o700), s.create("d/b", "no", 0o600), s.mkdir("d/e", 0o700))
	}},
	{"move below and write", func(s *stand) error {
		return errors.Join(s.mkdir("n", 0o700), s.rename("d", "n/d", 0), s.write("n/d/e/c", 0, "G"), s.unlink("n/d/b"))
	}},
	{"undo", func(s *stand) error {
		return errors.Join(s.write("a", 0, "x"), second(s.e.Undo(s.agent, MoveOptions{})))
	}},
	{"undo all and redo", func(s *stand) error {
		return errors.Join(s.write("d/b", 0, "x"), second(s.e.Switch(s.agent, 0, MoveOptions{})), second(s.e.Redo(s.agent, MoveOptions{})))
	}},
}

func second[T any](_ T, err error) error { return err }

// TestForkFrozen changes the workspace in every way, before and after the fork has raised things: the fork stays what it
// was.
func TestForkFrozen(t *testing.T) {
	for _, c := range parentChanges {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := forkTree(t)
			want := s.tree()
			first := s.fork("one")
			s.same(first.tree(), want, "a fresh fork")
			s.must(c.do(s))
			s.same(first.tree(), want, "after it")
			if len(first.upper()) != 0 {
				t.Errorf("looking raised %v", first.upper())
			}
			next := s.tree()
			two := s.fork("two")
			s.begin("next")
			s.must(s.create("z", "z", 0o600))
			if _, has := next["h1"]; has {
				s.must(s.write("h1", 0, "LINKED"))
			}
			s.same(first.tree(), want, "after a second fork")
			s.same(two.tree(), next, "the second fork")
			s.forget(1)
			s.reopen()
			s.same(s.forked("one").tree(), want, "after a remount")
			s.same(s.forked("two").tree(), next, "the second fork after a remount")
			s.must(s.e.Discard("one", false))
			s.same(s.forked("two").tree(), next, "after the first was discarded")
			s.must(s.e.Discard("two", false))
			if n := s.e.epochs.from(0); len(n) != 0 {
				t.Errorf("epochs %v stay", n)
			}
			s.must(s.e.Discard("two", true), NoFork)
			s.verify()
		})
	}
}

// upper is what a fork has raised or made, by path.
func (s *stand) upper() (out []string) {
	err := filepath.WalkDir(s.dir, func(full string, _ os.DirEntry, err error) error {
		if err == nil && full != s.dir {
			out = append(out, strings.TrimPrefix(full, s.dir+"/"))
		}
		return err
	})
	s.must(err)
	return out
}
