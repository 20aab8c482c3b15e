package overlay

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// told is a line of versions as one string: `task what [<-from] [->to] [!]`, ! for undone.
func told(all []Version) string {
	var out []string
	for _, v := range all {
		var did []string
		for _, d := range v.What {
			did = append(did, string(d))
		}
		s := fmt.Sprintf("%s %s", v.Title, strings.Join(did, "+"))
		if v.From != "" {
			s += "<-" + v.From
		}
		if v.To != "" {
			s += "->" + v.To
		}
		if v.Status == tasktree.Undone {
			s += " !"
		}
		out = append(out, s)
	}
	return strings.Join(out, "; ")
}

// TestBlame: what tasks one, two, three... do, and what is then told of paths. The file "f" and the directory "d" with
// "d/x" were there before.
func TestBlame(t *testing.T) {
	type tasks []func(s *stand) error
	undo := func(s *stand) error { _, err := s.e.Undo(s.agent, MoveOptions{}); return err }
	redo := func(s *stand) error { _, err := s.e.Redo(s.agent, MoveOptions{}); return err }
	for _, c := range []struct {
		name  string
		tasks tasks
		want  map[string]string
	}{
		{"nobody", nil, map[string]string{"f": "", "d": "", "d/x": "", "": ""}},
		{"modified", tasks{
			func(s *stand) error { return s.append("f", "1") },
			func(s *stand) error { return s.rewrite("f", "2") },
			func(s *stand) error { return s.chmod("f", 0o600) },
			func(s *stand) error { return s.setXattr("f", "user.x", "y") },
		}, map[string]string{"f": "four attributes; three mode; two modified; one modified"}},
		{"made, changed and removed", tasks{
			func(s *stand) error { return s.create("n", "1", 0o644) },
			func(s *stand) error { return errors.Join(s.rewrite("n", "2"), s.chmod("n", 0o600)) },
			func(s *stand) error { return s.unlink("n") },
			func(s *stand) error { return s.create("n", "again", 0o644) },
		}, map[string]string{"n": "four created; three deleted; two modified+mode; one created"}},
		{"saved by editors, beside and over", tasks{
			func(s *stand) error { return errors.Join(s.create("t", "1", 0o644), s.rename("t", "f", 0)) },
			func(s *stand) error { return s.append("f", "2") },
			func(s *stand) error { return errors.Join(s.create("t", "3", 0o644), s.rename("t", "f", 0)) },
		}, map[string]string{"f": "three modified; two modified; one modified", "t": "three created+deleted; one created+deleted"}},
		{"renamed", tasks{
			func(s *stand) error { return s.append("f", "1") },
			func(s *stand) error { return s.rename("f", "d/g", 0) },
			func(s *stand) error { return s.append("d/g", "3") },
			func(s *stand) error { return errors.Join(s.rename("d/g", "h", 0), s.append("h", "4")) },
			func(s *stand) error { return s.create("f", "another", 0o644) },
		}, map[string]string{
			"h":   "four renamed+modified<-d/g; three modified; two renamed<-f; one modified",
			"f":   "five created; two renamed->d/g; one modified",
			"d/g": "four renamed->h; three modified; two renamed<-f; one modified",
		}},
		{"renamed over", tasks{
			func(s *stand) error { return s.create("a", "a", 0o644) },
			func(s *stand) error { return s.append("f", "2") },
			func(s *stand) error { return s.rename("a", "f", 0) },
		}, map[string]string{"f": "three renamed<-a; two modified; one created", "a": "three renamed->f; one created"}},
		{"exchanged", tasks{
			func(s *stand) error { return s.append("f", "1") },
			func(s *stand) error { return s.create("g", "2", 0o644) },
			func(s *stand) error { return s.rename("f", "g", unix.RENAME_EXCHANGE) },
		}, map[string]string{"f": "three renamed<-g; two created; one modified", "g": "three renamed<-f; two created; one modified"}},
		{"undone", tasks{
			func(s *stand) error { return s.append("f", "1") },
			func(s *stand) error { return errors.Join(s.append("f", "2"), s.create("n", "2", 0o644)) },
			func(s *stand) error { return errors.Join(s.rename("f", "g", 0), s.unlink("n")) },
			func(s *stand) error { return errors.Join(undo(s), undo(s), undo(s)) },
		}, map[string]string{
			"f": "three renamed->g !; two modified !; one modified", "n": "three deleted !; two created !", "g": "three renamed<-f !; two modified !; one modified",
		}},
		{"redone", tasks{
			func(s *stand) error { return s.append("f", "1") },
			func(s *stand) error { return errors.Join(s.rename("f", "g", 0), s.create("n", "2", 0o644)) },
			func(s *stand) error {
				return errors.Join(s.append("g", "3"), undo(s), undo(s), undo(s), redo(s), redo(s), redo(s))
			},
		}, map[string]string{"g": "three modified; two renamed<-f; one modified", "f": "two renamed->g; one modified", "n": "two created"}},
		{"a branch", tasks{
			func(s *stand) error { return s.append("f", "1") },
			func(s *stand) error { return s.append("f", "2") },
			func(s *stand) error { return errors.Join(undo(s), undo(s)) },
			func(s *stand) error { return errors.Join(undo(s), s.append("f", "b")) },
		}, map[string]string{"f": "automatic modified; two modified !; one modified"}},
		{"in a directory that a task made", tasks{
			func(s *stand) error {
				return errors.Join(s.mkdirAll("n/e"), s.create("n/e/x", "1", 0o644), s.create("n/y", "1", 0o644))
			},
			func(s *stand) error { return s.append("n/e/x", "2") },
			func(s *stand) error { return s.create("n/e/z", "3", 0o644) },
			func(s *stand) error { return s.removeAll("n") },
		}, map[string]string{
			"n": "four deleted; one created", "n/e": "four deleted; one created", "n/e/x": "four deleted; two modified; one created",
			"n/y": "four deleted; one created", "n/e/z": "four deleted; three created",
		}},
		{"a directory that was undone", tasks{
			func(s *stand) error { return errors.Join(s.mkdirAll("n/e"), s.create("n/e/x", "1", 0o644)) },
			func(s *stand) error { return errors.Join(undo(s), undo(s)) },
		}, map[string]string{"n/e/x": "one created !", "n": "one created !"}},
		{"a directory renamed", tasks{
			func(s *stand) error { return s.append("d/x", "1") },
			func(s *stand) error { return s.rename("d", "e", 0) },
			func(s *stand) error { return s.append("e/x", "3") },
			func(s *stand) error { return errors.Join(s.mkdir("d", 0o755), s.create("d/x", "4", 0o644)) },
		}, map[string]string{
			"e/x": "three modified; two renamed<-d/x; one modified", "d/x": "four created; two renamed->e/x; one modified",
			"e": "two renamed<-d", "d": "four created; two renamed->e",
		}},
		{"a directory made and renamed", tasks{
			func(s *stand) error { return errors.Join(s.mkdirAll("n/e"), s.create("n/e/x", "1", 0o644)) },
			func(s *stand) error { return s.rename("n/e", "m", 0) },
			func(s *stand) error { return s.append("m/x", "3") },
		}, map[string]string{"m/x": "three modified; two renamed<-n/e/x; one created", "n/e/x": "two renamed->m/x; one created"}},
		{"removed and made again in one task", tasks{
			func(s *stand) error { return s.append("d/x", "1") },
			func(s *stand) error {
				return errors.Join(s.removeAll("d"), s.mkdir("d", 0o755), s.create("d/x", "2", 0o644))
			},
		}, map[string]string{"d/x": "two modified; one modified"}},
		{"reverted and restored", tasks{
			func(s *stand) error { return s.rewrite("f", "1") },
			func(s *stand) error { _, err := s.e.Revert(s.agent, s.e.Active(s.agent)-1, MoveOptions{}); return err },
			func(s *stand) error {
				_, err := s.e.Restore(s.agent, s.e.Active(s.agent)-3, []string{"f"}, MoveOptions{})
				return err
			},
		}, map[string]string{"f": "restore 2 f modified; revert 2: one modified; one modified"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStand(t, 1)
			s.agent = "setup"
			s.must(errors.Join(s.create("f", "f", 0o644), s.mkdir("d", 0o755), s.create("d/x", "x", 0o644)))
			s.old()
			s.agent = "a"
			names := []string{"one", "two", "three", "four", "five"}
			for i, do := range c.tasks {
				s.begin(names[i])
				s.must(do(s))
			}
			check := func(when string) {
				t.Helper()
				for path, want := range c.want {
					got, err := s.e.Blame(path)
					got = slices.DeleteFunc(got, func(v Version) bool { return v.Agent == "setup" })
					if err != nil || told(got) != want {
						t.Errorf("%s: %q is\n\t%s, %v, want\n\t%s", when, path, told(got), err, want)
					}
				}
			}
			check("at once")
			s.must(s.e.Archive())
			s.reopen()
			check("opened again")
		})
	}
}

func TestBlameRefuses(t *testing.T) {
	s := newStand(t, 1)
	for path, want := range map[string]error{"none": NoPath, "none/x": NoPath, "../x": Invalid, "a/./b": Invalid, ".tt": Invalid, ".tt/log": Invalid} {
		if v, err := s.e.Blame(path); !errors.Is(err, want) {
			t.Errorf("%s: %v, %v", path, v, err)
		}
	}
}

// TestBlameKnowsWhatFilesKnows: whatever happens, each path that a task's list of files names has that task in its line, and
// the task that is told first of those that are not undone is the last one whose list names it. TTFS_NIGHTLY=1 tries 1000 seeds.
func TestBlameKnowsWhatFilesKnows(t *testing.T) {
	seeds := uint64(10)
	if os.Getenv("TTFS_NIGHTLY") != "" {
		seeds = 1000
	}
	for seed := uint64(1); seed <= seeds; seed++ {
		s := newStand(t, seed)
		s.must(errors.Join(s.create("f0", "0", 0o644), s.mkdir("d0", 0o755), s.create("d0/f0", "0", 0o644)))
		s.old()
		for range 8 {
			s.begin("t")
			for range 6 {
				s.randomChange()
			}
			if s.rng.IntN(3) == 0 {
				_, err := s.e.Undo(s.agent, MoveOptions{})
				s.must(err)
			}
			if s.rng.IntN(4) == 0 {
				s.reopen()
			}
		}
		last := map[string]tasktree.TaskID{}
		for _, k := range s.e.Tasks() {
			files, err := s.e.Files(k.ID)
			s.must(err)
			for _, f := range files {
				line, err := s.e.Blame(f.Path)
				s.must(err)
				if !slices.ContainsFunc(line, func(v Version) bool { return v.Task == k.ID }) {
					t.Errorf("seed %d: task %d %s %s, but its line is %+v", seed, k.ID, f.Op, f.Path, line)
				}
				if s.e.StatusOf(k.ID) != tasktree.Undone {
					last[f.Path] = k.ID
				}
			}
		}
		for path, id := range last {
			line, err := s.e.Blame(path)
			s.must(err)
			line = slices.DeleteFunc(line, func(v Version) bool {
				return v.Status == tasktree.Undone || !slices.ContainsFunc(s.filesOf(v.Task), func(f FileChange) bool { return f.Path == path })
			})
			if len(line) == 0 || line[0].Task != id {
				t.Errorf("seed %d: %s was changed last by task %d, its line is %+v", seed, path, id, line)
			}
		}
	}
}

func (s *stand) filesOf(id tasktree.TaskID) []FileChange {
	all, err := s.e.Files(id)
	s.must(err)
	return all
}

// randomChange does something to one of a few paths; what cannot be done is not.
func (s *stand) randomChange() {
	path := func() string {
		p := fmt.Sprintf("f%d", s.rng.IntN(3))
		for range s.rng.IntN(3) {
			p = fmt.Sprintf("d%d/%s", s.rng.IntN(2), p)
		}
		return p
	}
	dir := func(p string) string {
		if i := strings.LastIndexByte(p, '/'); i > 0 {
			return p[:i]
		}
		return "d2"
	}
	a, b, op := path(), path(), s.rng.IntN(9)

	switch op {
	case 0, 1:
		_ = s.create(a, "made", 0o644)
	case 2:
		_ = s.append(a, "more")
	case 3:
		_ = s.rewrite(a, "anew")
	case 4:
		_ = s.unlink(a)
	case 5:
		_ = s.rename(a, b, 0)
	case 6:
		_ = s.mkdirAll(dir(a))
	case 7:
		_ = s.rename(dir(a), dir(b), 0)
	case 8:
		_ = s.removeAll(dir(a))
	}
}

// TestBlameOfOthers: the one who came last is told first, whoever's task began first.
func TestBlameOfOthers(t *testing.T) {
	s := newStand(t, 1)
	s.must(s.create("f", "0", 0o644))
	s.begin("of a")
	s.must(s.append("f", "1"))
	_, err := s.e.BeginTask("b", "of b")
	s.must(err)
	s.must(s.as("b", func() error { return s.append("f", "2") }))
	s.must(s.append("f", "3"))
	got, err := s.e.Blame("f")
	if want := "of a modified; of b modified; automatic created"; err != nil || told(got) != want {
		t.Errorf("%s, %v", told(got), err)
	}
}
