package overlay

import (
	"maps"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// single are operations of one call each, on the tree of start; each has its points of death.
var single = []struct {
	story
	// half is what a death may leave of an operation that cannot be done in one effect; nil: nothing.
	half func(was map[string]string) map[string]string
}{
	{story{"create", func(s *stand) { s.must(s.create("new", "", 0o600)) }}, nil},
	{story{"mkdir", func(s *stand) { s.must(s.mkdir("d/new", 0o700)) }}, nil},
	{story{"symlink", func(s *stand) { s.must(s.symlink("x", "d/new")) }}, nil},
	{story{"link", func(s *stand) { s.must(s.link("f", "d/new")) }}, nil},
	{story{"write", func(s *stand) { s.must(s.write("mid", 70_000, "WWW")) }}, nil},
	{story{"append", func(s *stand) { s.must(s.append("f", "more")) }}, nil},
	{story{"truncate", func(s *stand) { s.must(s.truncate("mid", 1000)) }}, nil},
	{story{"O_TRUNC", func(s *stand) { s.must(s.rewrite("mid", "")) }}, nil},
	{story{"punch", func(s *stand) {
		s.must(s.fallocate("mid", unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 8192, 8192))
	}}, nil},
	{story{"unlink", func(s *stand) { s.must(s.unlink("f")) }}, nil},
	{story{"unlink one name", func(s *stand) { s.forget(1); s.must(s.unlink("h1")) }}, nil},
	{story{"unlink a known name", func(s *stand) { s.stat("h2"); s.must(s.unlink("h1")) }}, nil},
	{story{"rmdir", func(s *stand) { s.must(s.rmdir("empty")) }}, nil},
	{story{"rename", func(s *stand) { s.must(s.rename("f", "d/new", 0)) }}, nil},
	{story{"rename a directory", func(s *stand) { s.must(s.rename("d/sub", "moved", 0)) }}, nil},
	{story{"rename over", func(s *stand) { s.must(s.rename("f", "g", 0)) }}, nil},
	{story{"rename, leaving a whiteout", func(s *stand) { s.must(s.rename("f", "g", RenameWhiteout)) }}, nil},
	{story{"rename over a link", func(s *stand) { s.must(s.rename("f", "h1", 0)) }}, nil},
	{story{"rename over a fifo", func(s *stand) { s.must(s.rename("f", "p", 0)) }}, nil},
	{story{"rename over an empty directory", func(s *stand) { s.must(s.rename("d", "empty", 0)) }}, exchanged},
	{story{"exchange", func(s *stand) { s.must(s.rename("f", "d/sub", RenameExchange)) }}, nil},
	{story{"chmod", func(s *stand) { s.must(s.chmod("d", 0o700)) }}, nil},
	{story{"xattr", func(s *stand) { s.must(s.setXattr("f", "user.kept", "other")) }}, nil},
}

// exchanged is a tree in which d and the empty directory have changed places.
func exchanged(was map[string]string) map[string]string {
	out := map[string]string{}
	for path, is := range was {
		if path == "d" || path == "empty" {
			path = map[string]string{"d": "empty", "empty": "d"}[path]
		} else if rest, below := strings.CutPrefix(path, "d/"); below {
			path = "empty/" + rest
		}
		out[path] = strings.ReplaceAll(is, "same=d/", "same=empty/")
	}
	return out
}

var times = regexp.MustCompile(` (mtime|ino)=\d+`)

// timeless is a snapshot without what differs when the same is done twice.
func timeless(snap map[string]string) map[string]string {
	out := maps.Clone(snap)
	for path, is := range out {
		out[path] = times.ReplaceAllString(is, "")
	}
	return out
}

// TestDeathInOperation dies at every point of every operation. What is there at the next start is what was there before
// or what is there after the operation, and the task is taken back and done again exactly.
func TestDeathInOperation(t *testing.T) {
	t.Parallel()
	s := newStand(t, 1)
	start(s)
	before := s.snapshot(true)
	for _, op := range single {
		t.Run(strings.ReplaceAll(op.name, " ", "_"), func(t *testing.T) {
			s.t = t
			var left []map[string]string
			for n := 0; ; n++ {
				s.begin(op.name)
				s.dieAt(n)
				at, died := s.dies(func() { op.do(s) })
				if died {
					s.close()
					s.open()
				}
				now := s.snapshot(true)
				left = append(left, timeless(now))
				s.undo()
				s.check("undo after a death at "+at, before)
				s.redo()
				s.check("redo after a death at "+at, now)
				s.undo()
				s.check("second undo after a death at "+at, before)
				if !died {
					break
				}
			}
			was, is := timeless(before), left[len(left)-1]
			if len(left) < 2 {
				t.Fatal("there is no point to die at")
			}
			if differ(was, is) == "" {
				t.Fatal("the operation changes nothing")
			}
			for n, got := range left {
				if op.half != nil && differ(got, op.half(was)) == "" {
					continue
				}
				if differ(got, was) != "" && differ(got, is) != "" {
					t.Errorf("a death at point %d leaves neither what was nor what is after:%s", n, differ(got, was))
				}
			}
		})
		s.t = t
		if t.Failed() {
			return // the workspace is not fit for more
		}
	}
}

// chapters are the tasks of a longer work; each does all kinds of changes.
var chapters = []func(s *stand){
	func(s *stand) {
		s.must(s.rename("d", "moved", 0))
		s.must(s.write("moved/sub/f", 0, "W"))
		s.must(s.mkdirAll("a/b"))
		s.must(s.rename("f", "a/b/f", 0))
		s.must(s.unlink("h1"))
		s.must(s.rewrite("mid", "short"))
		s.must(s.chmod("run", 0o700))
	},
	func(s *stand) {
		s.must(s.removeAll("moved"))
		s.must(s.rename("a/b", "b", 0))
		s.must(s.create("moved", "a file", 0o644))
		s.must(s.write("mid", 100_000, "after a hole"))
		s.must(s.rename("g", "b/f", RenameExchange))
		s.must(s.unlink("h2"))
		s.must(s.setXattr("b", "user.x", "y"))
	},
	func(s *stand) {
		s.must(s.removeAll("b"))
		s.must(s.create("f", "f again", 0o644))
		s.must(s.rename("f", "mid", 0))
		s.must(s.rmdir("a"))
	},
}

// TestDeathInMove dies at every point of moves over one task and over all. At the next start the workspace is exactly at
// the one end of the move or at the other.
func TestDeathInMove(t *testing.T) {
	t.Parallel()
	s := newStand(t, 1)
	start(s)
	ends := []map[string]string{s.snapshot(true)}
	for _, f := range chapters {
		s.begin("chapter")
		f(s)
		ends = append(ends, s.snapshot(true))
	}
	first := int(s.e.Active("a")) - len(chapters)
	task := func(end int) int {
		if end == 0 {
			return 0
		}
		return first + end
	}
	switchTo := func(end int) error {
		_, err := s.e.Switch("a", taskID(task(end)), MoveOptions{})
		return err
	}
	stride := 1
	if underRace {
		stride = 4
	}
	for i, way := range [][2]int{{3, 2}, {2, 3}, {1, 0}, {0, 1}, {2, 1}, {1, 2}, {3, 0}, {0, 3}} {
		from, to := way[0], way[1]
		deaths := 0
		for n := i % stride; ; n += stride {
			s.must(switchTo(from))
			s.check("before the move", ends[from])
			s.dieAt(n)
			at, died := s.dies(func() { s.must(switchTo(to)) })
			if !died {
				break
			}
			deaths++
			s.close()
			s.open()
			end := from
			if now := int(s.e.Active("a")); now == task(to) {
				end = to
			} else if now != task(from) {
				t.Fatalf("from %d to %d, dead at %s (%d): the active task is %d", from, to, at, n, now)
			}
			s.check("after a death at "+at, ends[end])
		}
		s.check("after the move", ends[to])
		if deaths < 2 {
			t.Errorf("from %d to %d: only %d points to die at", from, to, deaths)
		}
	}
	s.verify()
}

// TestDeathInRecovery dies in the middle of a move, and again in the middle of each new start.
func TestDeathInRecovery(t *testing.T) {
	t.Parallel()
	s := newStand(t, 1)
	start(s)
	before := s.snapshot(true)
	s.begin("chapter")
	chapters[0](s)
	s.dieAt(4)
	if _, died := s.dies(s.undo); !died {
		t.Fatal("the move has no fourth point")
	}
	s.close()
	deaths := 0
	for n := 0; ; n++ {
		s.dieAt(n)
		_, died := s.dies(func() { s.must(s.tryOpen()) })
		if !died {
			break
		}
		deaths++
		s.abandon()
	}
	if deaths < 5 {
		t.Errorf("only %d deaths", deaths)
	}
	s.check("after all", before)
	s.redo()
	s.undo()
	s.check("after redo and undo", before)
}
