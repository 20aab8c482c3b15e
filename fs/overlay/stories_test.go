package overlay

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
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
		"mid": strings.Repeat("0123456789abcdef", 300<<10/16),
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
	s.must(s.create("setuid", "s", 0o4755))
	s.must(s.create("out", "has a name outside\n", 0o644))
	s.must(os.Link(filepath.Join(s.dir, "out"), filepath.Join(s.t.TempDir(), "outside")))
	s.agent = "a"
	s.old()
}

// startBig makes files of some size as well.
func startBig(s *stand) {
	s.t.Helper()
	start(s)
	s.agent = "setup"
	s.must(s.create("big", strings.Repeat("big file of 5 MiB\n", 5<<20/18), 0o644))
	s.must(s.create("tail", "0123456789", 0o644))
	s.must(s.truncate("tail", 7483))
	s.must(s.create("sparse", "begin", 0o644))
	s.must(s.truncate("sparse", 8<<20))
	s.must(s.write("sparse", 4<<20, strings.Repeat("in the middle", 1000)))
	s.agent = "a"
	s.old()
}

var stories = []story{
	{"create", func(s *stand) { s.must(s.create("new", "new\n", 0o600)) }},
	{"create empty", func(s *stand) { s.must(s.create("d/new", "", 0o600)) }},
	{"overwrite", func(s *stand) { s.must(s.write("f", 1, "XX")) }},
	{"overwrite twice", func(s *stand) { s.must(s.write("f", 1, "XX")); s.must(s.write("f", 0, "YYYYYYYYYYYYYYYYY")) }},
	{"append", func(s *stand) { s.must(s.append("f", "more")); s.must(s.append("f", "and more")) }},
	{"truncate", func(s *stand) { s.must(s.truncate("f", 2)) }},
	{"truncate to nothing", func(s *stand) { s.must(s.truncate("mid", 0)) }},
	{"lengthen", func(s *stand) { s.must(s.truncate("f", 100_000)) }},
	{"shorten and lengthen", func(s *stand) { s.must(s.truncate("mid", 5)); s.must(s.truncate("mid", 400<<10)) }},
	{"O_TRUNC", func(s *stand) { s.must(s.rewrite("f", "rewritten, longer than it was\n")) }},
	{"O_TRUNC of nothing", func(s *stand) { s.must(s.rewrite("nothing", "something\n")) }},
	{"O_TRUNC mid to longer", func(s *stand) { s.must(s.rewrite("mid", strings.Repeat("longer ", 100_000))) }},
	{"part of mid", func(s *stand) { s.must(s.write("mid", 100_000, strings.Repeat("Z", 50_000))) }},
	{"past the end", func(s *stand) { s.must(s.write("f", 300_000, "far")) }},
	{"zero", func(s *stand) {
		if err := s.fallocate("mid", unix.FALLOC_FL_ZERO_RANGE, 1000, 5000); !errors.Is(err, unix.EOPNOTSUPP) {
			s.must(err)
			return
		}
		s.must(s.fallocate("mid", unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 1000, 5000)) // tmpfs
	}},
	{"preallocate and fill", func(s *stand) { // what is allocated and not written counts as hole or data as the cache has it
		s.must(s.fallocate("f", 0, 0, 100_000))
		s.must(s.write("f", 0, strings.Repeat("fill", 25_000)))
	}},
	{"rename", func(s *stand) { s.must(s.rename("f", "renamed", 0)) }},
	{"rename to a directory", func(s *stand) { s.must(s.rename("f", "d/renamed", 0)) }},
	{"rename there and on", func(s *stand) {
		s.must(s.rename("f", "x", 0))
		s.must(s.rename("x", "y", 0))
		s.must(s.rename("y", "d/z", 0))
	}},
	{"rename a ring", func(s *stand) {
		s.must(s.rename("f", "x", 0))
		s.must(s.rename("g", "f", 0))
		s.must(s.rename("x", "g", 0))
	}},
	{"rename and write", func(s *stand) {
		s.must(s.rename("f", "x", 0))
		s.must(s.write("x", 0, "WW"))
		s.must(s.create("f", "another", 0o600))
	}},
	{"write and rename", func(s *stand) { s.must(s.write("f", 0, "WW")); s.must(s.rename("f", "d/x", 0)) }},
	{"rename over", func(s *stand) { s.must(s.rename("f", "g", 0)) }},
	{"rename over a link", func(s *stand) { s.must(s.rename("f", "h1", 0)) }},
	{"rename a link over", func(s *stand) { s.must(s.rename("h1", "f", 0)) }},
	{"rename over a fifo", func(s *stand) { s.must(s.rename("f", "p", 0)) }},
	{"rename over, remove", func(s *stand) { s.must(s.rename("f", "g", 0)); s.must(s.unlink("g")) }},
	{"rename a directory", func(s *stand) { s.must(s.rename("d", "moved", 0)) }},
	{"rename a directory, write in it", func(s *stand) {
		s.must(s.write("d/sub/f", 0, "1"))
		s.must(s.rename("d", "moved", 0))
		s.must(s.write("moved/f", 0, "2"))
		s.must(s.create("moved/sub/new", "3", 0o644))
	}},
	{"rename over an empty directory", func(s *stand) { s.must(s.rename("d", "empty", 0)) }},
	{"rename over a made directory", func(s *stand) { s.must(s.mkdir("m", 0o700)); s.must(s.rename("d", "m", 0)) }},
	{"exchange files", func(s *stand) { s.must(s.rename("f", "d/f", RenameExchange)) }},
	{"exchange file and directory", func(s *stand) { s.must(s.rename("f", "d", RenameExchange)) }},
	{"exchange directories", func(s *stand) { s.must(s.rename("d/sub", "other", RenameExchange)); s.must(s.write("other/f", 0, "W")) }},
	{"exchange with made", func(s *stand) {
		s.must(s.create("new", "new", 0o600))
		s.must(s.rename("new", "f", RenameExchange))
		s.must(s.unlink("new"))
	}},
	{"turn inside out", func(s *stand) {
		s.must(s.rename("d/sub", "sub", 0))
		s.must(s.rename("d", "sub/d", 0))
		s.must(s.rename("sub", "d", 0))
	}},
	{"into a made directory", func(s *stand) {
		s.must(s.mkdir("m", 0o755))
		s.must(s.rename("f", "m/f", 0))
		s.must(s.rename("d", "m/d", 0))
		s.must(s.write("m/d/f", 0, "W"))
		s.must(s.rename("m", "n", 0))
	}},
	{"in and out of a made directory", func(s *stand) {
		s.must(s.mkdir("m", 0o755))
		s.must(s.create("m/made", "made", 0o644))
		s.must(s.rename("f", "m/f", 0))
		s.must(s.rename("m/made", "made", 0))
		s.must(s.rename("m/f", "ff", 0))
		s.must(s.rename("d/sub", "m/sub", 0))
	}},
	{"in, out and the directory gone", func(s *stand) {
		s.must(s.mkdir("m", 0o755))
		s.must(s.rename("d", "m/d", 0))
		s.must(s.rename("m/d", "dd", 0))
		s.must(s.rmdir("m"))
	}},
	{"into a made directory and removed there", func(s *stand) {
		s.must(s.mkdir("m", 0o755))
		s.must(s.rename("f", "m/f", 0))
		s.must(s.unlink("m/f"))
		s.must(s.rename("d", "m/d", 0))
		s.must(s.removeAll("m/d"))
	}},
	{"forgotten made tree", func(s *stand) {
		s.must(s.mkdirAll("m/n"))
		s.must(s.create("m/n/f", "1", 0o644))
		s.forget(1)
		s.must(s.write("m/n/f", 0, "22"))
		s.must(s.rename("m/n/f", "m/g", 0))
		s.forget(1)
		s.must(s.unlink("m/g"))
		s.must(s.create("m/h", "h", 0o644))
		s.must(s.rename("m/n", "n", 0))
	}},
	{"link", func(s *stand) { s.must(s.link("f", "d/link")) }},
	{"link of a made file", func(s *stand) { s.must(s.create("m", "m", 0o600)); s.must(s.link("m", "d/m")); s.must(s.unlink("m")) }},
	{"unlink one name", func(s *stand) { s.must(s.unlink("h1")) }},
	{"unlink one name, forgotten", func(s *stand) { s.forget(1); s.must(s.unlink("d/h3")) }},
	{"unlink one name, write by another", func(s *stand) { s.forget(1); s.must(s.unlink("h1")); s.must(s.write("h2", 0, "WW")) }},
	{"unlink all names", func(s *stand) { s.must(s.unlink("h2")); s.must(s.unlink("h1")); s.must(s.unlink("d/h3")) }},
	{"unlink all names, forgotten", func(s *stand) {
		for _, name := range []string{"h2", "h1", "d/h3"} {
			s.forget(1)
			s.must(s.unlink(name))
		}
	}},
	{"names replaced", func(s *stand) {
		s.must(s.unlink("h1"))
		s.must(s.link("h2", "h4"))
		s.must(s.create("h1", "another", 0o600))
		s.must(s.rename("h1", "h2", 0))
	}},
	{"name moved, others gone", func(s *stand) { s.must(s.rename("h1", "d/sub/h", 0)); s.must(s.unlink("h2")); s.must(s.unlink("d/h3")) }},
	{"unlink a file with a name outside", func(s *stand) { s.must(s.unlink("out")) }},
	{"write to a file with a name outside, unlink", func(s *stand) { s.must(s.write("out", 0, "IN")); s.must(s.unlink("out")) }},
	{"unlink", func(s *stand) { s.must(s.unlink("f")) }},
	{"write and unlink", func(s *stand) { s.must(s.write("f", 0, "W")); s.must(s.unlink("f")) }},
	{"unlink and make again", func(s *stand) {
		s.must(s.unlink("f"))
		s.must(s.create("f", "again", 0o600))
		s.must(s.write("f", 0, "AG"))
	}},
	{"rm -rf", func(s *stand) { s.must(s.removeAll("d")) }},
	{"rm -rf and make again", func(s *stand) {
		s.must(s.removeAll("d"))
		s.must(s.mkdirAll("d/sub/deep"))
		s.must(s.create("d/sub/f", "again", 0o644))
	}},
	{"rm -rf everything", func(s *stand) {
		names, err := s.list(RootNode)
		s.must(err)
		for _, name := range names {
			if name != StoreName {
				s.must(s.removeAll(name))
			}
		}
	}},
	{"rmdir", func(s *stand) { s.must(s.rmdir("empty")) }},
	{"directory becomes file", func(s *stand) { s.must(s.removeAll("d")); s.must(s.create("d", "a file now", 0o644)) }},
	{"directory becomes file and directory", func(s *stand) {
		s.must(s.removeAll("d"))
		s.must(s.create("d", "a file now", 0o644))
		s.must(s.unlink("d"))
		s.must(s.mkdir("d", 0o700))
		s.must(s.create("d/f", "and here", 0o644))
	}},
	{"file becomes directory", func(s *stand) {
		s.must(s.unlink("f"))
		s.must(s.mkdir("f", 0o755))
		s.must(s.create("f/f", "in f", 0o644))
	}},
	{"symlink", func(s *stand) { s.must(s.symlink("nowhere", "d/link")) }},
	{"symlink replaced", func(s *stand) { s.must(s.unlink("l")); s.must(s.symlink("elsewhere", "l")) }},
	{"symlink becomes file", func(s *stand) { s.must(s.create("t", "file", 0o644)); s.must(s.rename("t", "l", 0)) }},
	{"symlink's times", func(s *stand) { s.must(s.utimes("l", 5)) }},
	{"fifo", func(s *stand) { s.must(s.mkfifo("d/fifo", 0o640)) }},
	{"fifo gone", func(s *stand) { s.must(s.unlink("p")) }},
	{"fifo's mode", func(s *stand) { s.must(s.chmod("p", 0o622)) }},
	{"chmod", func(s *stand) { s.must(s.chmod("f", 0o400)); s.must(s.chmod("d", 0o2750)) }},
	{"chmod the root", func(s *stand) { s.must(s.chmod("", 0o700)) }},
	{"chown", func(s *stand) {
		uid, gid := owner()
		s.must(s.chmod("run", 0o4755))
		s.must(s.chown("run", uid, gid))
		s.must(s.chown("d", uid, gid))
		s.must(s.chown("l", uid, gid))
	}},
	{"chown of setuid", func(s *stand) { uid, gid := owner(); s.must(s.chown("setuid", uid, gid)) }},
	{"utimes", func(s *stand) { s.must(s.utimes("f", 77)); s.must(s.utimes("d", 78)); s.must(s.utimes("p", 79)) }},
	{"xattrs", func(s *stand) {
		s.must(s.setXattr("f", "user.new", strings.Repeat("v", 1000)))
		s.must(s.setXattr("f", "user.kept", "other"))
		s.must(s.removeXattr("d", "user.kept"))
		s.must(s.setXattr("", "user.root", "r"))
	}},
	{"mode, then bytes", func(s *stand) { s.must(s.chmod("f", 0o600)); s.must(s.write("f", 0, "W")) }},
	{"mkdir -p and moves", func(s *stand) {
		s.must(s.mkdirAll("a/b/c"))
		s.must(s.create("a/b/c/f", "f", 0o644))
		s.must(s.rename("a/b/c", "a/c", 0))
		s.must(s.rename("a/c/f", "a/b/f", 0))
		s.must(s.rename("a/b", "d/sub/b", 0))
		s.must(s.link("d/sub/b/f", "a/link"))
		s.must(s.rename("f", "a/f", 0))
	}},
	{"editor's save", func(s *stand) {
		s.must(s.create("f.tmp", "saved\n", 0o644))
		s.must(s.rename("f.tmp", "f", 0))
	}},
	{"editor's save with backup", func(s *stand) {
		for i := range 3 {
			s.must(s.rename("f", "f~", 0))
			s.must(s.create("f", strings.Repeat("saved\n", i+1), 0o644))
		}
	}},
	{"odd names", func(s *stand) {
		for _, name := range []string{" ", "new\nline", "\xff\xfe", strings.Repeat("n", 255), ".ttx", "d/.tt", "-rf", "*"} {
			s.must(s.create(name, name, 0o644))
		}
		s.must(s.rename("f", "\x01", 0))
	}},
}

// bigStories need what startBig makes.
var bigStories = []story{
	{"append to big", func(s *stand) { s.must(s.append("big", "more")) }},
	{"truncate big", func(s *stand) { s.must(s.truncate("big", 1<<20+7)) }},
	{"O_TRUNC big", func(s *stand) { s.must(s.rewrite("big", "short\n")) }},
	{"parts of big", func(s *stand) {
		for _, off := range []int64{0, 16<<10 - 1, 1 << 20, 3<<20 + 5, 5<<20 - 100} {
			s.must(s.write("big", off, strings.Repeat("Z", 200)))
		}
	}},
	{"much of big", func(s *stand) { s.must(s.write("big", 1<<20, strings.Repeat("Q", 2<<20))) }},
	{"punch", func(s *stand) {
		s.must(s.fallocate("big", unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 1<<20, 1<<20))
	}},
	{"fill holes", func(s *stand) {
		s.must(s.write("sparse", 2<<20, strings.Repeat("in the hole", 1000)))
		s.must(s.write("sparse", 6<<20, "and more"))
	}},
	{"fill a hole with much", func(s *stand) { s.must(s.write("sparse", 1<<20, strings.Repeat("much", 1<<19))) }},
	{"rewrite sparse", func(s *stand) { s.must(s.rewrite("sparse", "dense")) }},
	{"rewrite with a hole at the end", func(s *stand) { s.must(s.rewrite("tail", strings.Repeat("longer", 10_000))) }},
	{"rewrite with a hole at the end, unlink", func(s *stand) {
		s.must(s.rewrite("tail", strings.Repeat("longer", 10_000)))
		s.must(s.unlink("tail"))
	}},
	{"append after a hole", func(s *stand) { s.must(s.append("tail", "")); s.must(s.append("tail", "more")) }},
	{"write after a hole", func(s *stand) { s.must(s.write("tail", 8000, "more")) }},
	{"write before and after a hole", func(s *stand) { s.must(s.write("tail", 5, "over")); s.must(s.append("tail", "more")) }},
	{"write all over a hole", func(s *stand) { s.must(s.write("tail", 0, strings.Repeat("all over", 1000))) }},
	{"lengthen a hole and write", func(s *stand) { s.must(s.truncate("tail", 8000)); s.must(s.write("tail", 7900, "more")) }},
	{"remove sparse", func(s *stand) { s.must(s.unlink("sparse")) }},
}

// how a story is told: what happens between the task and its undo.
var tellings = []struct {
	name   string
	rounds int
	f      func(s *stand)
}{
	{"at once", 2, func(s *stand) {}},
	{"forget", 2, func(s *stand) { s.forget(1) }},
	{"new start", 1, func(s *stand) {
		if s.rng.IntN(2) == 0 {
			s.reopen()
		} else {
			s.crash()
		}
	}},
	{"sweep", 1, func(s *stand) {
		s.forget(1)
		s.sweep()
	}},
	{"archive", 1, func(s *stand) {
		if s.e.Active("a") == 0 {
			s.must(s.e.Archive()) // what was left is sealed
			return
		}
		s.begin("next")
		s.must(s.e.Archive())
		s.undo()
	}},
}

// TestStories takes each story back and does it again. Every story is one more branch from the start.
func TestStories(t *testing.T) {
	for i, how := range tellings {
		t.Run(strings.ReplaceAll(how.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			tell(t, uint64(i), start, stories, how.rounds, how.f)
			tell(t, uint64(i), startBig, bigStories, how.rounds, how.f)
			tell(t, uint64(i), start, whiteoutStories, how.rounds, how.f)
		})
	}
}

func tell(t *testing.T, seed uint64, start func(*stand), stories []story, rounds int, between func(*stand)) {
	var s *stand
	var before map[string]string
	for k, st := range stories {
		if underRace && k%4 != int(seed)%4 {
			continue // each story is told in one way then
		}
		if s == nil {
			s = newStand(t, seed)
			start(s)
			before = s.snapshot(true)
		}
		ok := t.Run(strings.ReplaceAll(st.name, " ", "_"), func(t *testing.T) {
			s.t = t
			s.begin(st.name)
			st.do(s)
			after := s.snapshot(true)
			if differ(before, after) == "" {
				t.Fatal("the story changes nothing")
			}
			for range rounds {
				between(s)
				s.undo()
				s.check("undo", before)
				between(s)
				s.redo()
				s.check("redo", after)
			}
			s.undo()
			s.check("last undo", before)
		})
		s.t = t
		if !ok {
			s.close()
			s = nil
		}
	}
}
