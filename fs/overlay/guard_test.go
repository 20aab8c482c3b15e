package overlay

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ttfs/ttfs/guard"
	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// guarded is a stand with the guard on, and files that the user made.
func guarded(t *testing.T, blind guard.BlindRule) (s *stand, refused *[]string) {
	t.Helper()
	s = newStand(t, 1)
	refused = new([]string)
	s.set = func(o *Options) {
		o.Guard, o.Blind = true, blind
		o.Refused = func(a tasktree.Agent, sentence string) { *refused = append(*refused, string(a)+": "+sentence) }
	}
	s.reopen()
	s.agent = tasktree.User
	s.must(s.create("f", "what the user wrote", 0o644))
	s.must(s.create("g", "another", 0o644))
	s.must(s.create("big", strings.Repeat("0123456789abcdef", 40<<10), 0o644))
	s.must(s.create(".gitignore", "build/\n*.gen\n", 0o644))
	s.must(s.mkdir("build", 0o755))
	s.must(s.mkdir(".git", 0o755))
	for _, p := range []string{"build/out", "x.gen", "x.log", ".git/config", "db.sqlite-wal"} {
		s.must(s.create(p, "bytes", 0o644))
	}
	s.must(s.create("db", "SQLite format 3\x00 and more", 0o644))
	return s, refused
}

// as does something as an agent.
func (s *stand) as(a tasktree.Agent, f func() error) error {
	was := s.agent
	s.agent = a
	defer func() { s.agent = was }()
	return f()
}

func (s *stand) readFile(path string, n int) error {
	return s.with(path, unix.O_RDONLY, func(h *Handle) error {
		_, err := s.e.Read(h, make([]byte, n), 0)
		return err
	})
}

// destroyers are the ways to destroy the bytes of a file.
func destroyers(s *stand) map[string]func(p string) error {
	return map[string]func(p string) error{
		"O_TRUNC":   func(p string) error { return s.rewrite(p, "mine") },
		"truncate":  func(p string) error { return s.truncate(p, 1) },
		"overwrite": func(p string) error { return s.write(p, 0, "mine") },
		"punch": func(p string) error {
			return s.with(p, unix.O_WRONLY, func(h *Handle) error {
				return s.e.Fallocate(s.caller(), h, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 4)
			})
		},
		"rename over": func(p string) error {
			if err := s.create("tmp-of-a", "mine", 0o644); err != nil {
				return err
			}
			err := s.rename("tmp-of-a", p, 0)
			if err != nil {
				return errors.Join(err, s.unlink("tmp-of-a"))
			}
			return nil
		},
		"exchange": func(p string) error { return s.rename("g", p, RenameExchange) },
		"copy range": func(p string) error {
			return s.with("g", unix.O_RDONLY, func(from *Handle) error {
				return s.with(p, unix.O_WRONLY, func(to *Handle) error {
					_, err := s.e.CopyRange(s.caller(), from, 0, to, 0, 4)
					return err
				})
			})
		},
	}
}

func TestStaleIsRefused(t *testing.T) {
	for _, writer := range []tasktree.Agent{"b", tasktree.User} {
		for name := range destroyers(nil) {
			t.Run(fmt.Sprintf("%s after %s", name, writer), func(t *testing.T) {
				s, refused := guarded(t, guard.Allow)
				s.must(s.as("a", func() error { return s.readFile("f", 100) }))
				s.must(s.as(writer, func() error { return s.rewrite("f", "what "+string(writer)+" wrote") }))
				before := s.snapshot(true)
				for range 2 { // the kernel tries a path operation once more
					if err := s.as("a", func() error { return destroyers(s)[name]("f") }); !errors.Is(err, Stale) {
						t.Fatalf("got %v, want stale", err)
					}
				}
				if b, err := os.ReadFile(filepath.Join(s.dir, "f")); err != nil || string(b) != "what "+string(writer)+" wrote" {
					t.Fatalf("a refused change did something: %q, %v", b, err)
				}
				if name != "rename over" {
					s.check("after the refusal", before)
				}
				if len(*refused) != 2 || !strings.Contains((*refused)[0], string(writer)) || !strings.Contains((*refused)[0], "f") {
					t.Fatalf("it was told: %q", *refused)
				}
				s.must(s.as("a", func() error { return s.readFile("f", 100) }))
				s.must(s.as("a", func() error { return destroyers(s)[name]("f") }))
			})
		}
	}
}

func TestUnlinkOfStale(t *testing.T) {
	s, _ := guarded(t, guard.Allow)
	s.must(s.as("a", func() error { return s.readFile("f", 100) }))
	s.must(s.as("b", func() error { return s.append("f", "more") }))
	if err := s.as("a", func() error { return s.unlink("f") }); !errors.Is(err, Stale) {
		t.Fatalf("unlink: %v", err)
	}
	s.must(s.as("a", func() error { return s.unlink("g") }))
}

func TestPartialIsRefused(t *testing.T) {
	s, _ := guarded(t, guard.Allow)
	s.must(s.as("a", func() error { return s.readFile("big", 4096) }))
	if err := s.as("a", func() error { return s.rewrite("big", "short") }); !errors.Is(err, Partial) {
		t.Fatalf("O_TRUNC after a read of the beginning: %v", err)
	}
	s.must(s.as("a", func() error { return s.write("big", 100, "in what it has read") }))
	if err := s.as("a", func() error { return s.write("big", 100<<10, "in what it has not") }); !errors.Is(err, Partial) {
		t.Fatalf("a write where it has not read: %v", err)
	}
	s.must(s.as("a", func() error { return s.append("big", "more") }))
	s.must(s.as("a", func() error { return s.readFile("big", 1<<20) }))
	s.must(s.as("a", func() error { return s.rewrite("big", "short") }))
}

func TestAloneNobodyIsRefused(t *testing.T) {
	s, refused := guarded(t, guard.Allow)
	s.agent = "a"
	s.must(s.readFile("f", 100))
	for range 3 {
		s.must(s.rewrite("f", "mine"))
		s.must(s.append("f", " and more"))
		s.must(s.write("f", 1, "x"))
		s.must(s.chmod("f", 0o600))
	}
	s.must(s.create("new", "1", 0o644))
	s.must(s.rename("new", "f", 0))
	s.must(s.rewrite("f", "again"))
	s.must(s.unlink("f"))
	if _, err := s.e.Undo("a", MoveOptions{}); err != nil {
		t.Fatal(err)
	}
	s.must(s.rewrite("f", "after the undo"))
	if len(*refused) != 0 {
		t.Fatalf("refused: %q", *refused)
	}
}

func TestUnguardedClasses(t *testing.T) {
	s, _ := guarded(t, guard.Allow)
	for _, p := range []string{"build/out", "x.gen", "x.log", ".git/config", "db.sqlite-wal", "db"} {
		s.must(s.as("a", func() error { return s.readFile(p, 100) }))
		s.must(s.as("b", func() error { return s.append(p, "more") }))
		if err := s.as("a", func() error { return s.rewrite(p, "mine") }); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
}

// TestClassesAreAddedTo: what the options say comes after the built-in patterns, and may take one back.
func TestClassesAreAddedTo(t *testing.T) {
	s, _ := guarded(t, guard.Allow)
	set := s.set
	s.set = func(o *Options) {
		set(o)
		o.Classes = Classes{Temp: []string{"/out/", "!x.log"}, System: []string{"g"}}
	}
	s.reopen()
	s.agent = tasktree.User
	s.must(s.mkdir("out", 0o755))
	s.must(s.create("out/f", "bytes", 0o644))
	for p, want := range map[string]error{"out/f": nil, "x.log": Stale, "x.gen": nil, "f": Stale, "g": Stale} {
		s.must(s.as("a", func() error { return s.readFile(p, 100) }))
		s.must(s.as("b", func() error { return s.append(p, "more") }))
		if err := s.as("a", func() error { return s.rewrite(p, "mine") }); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", p, err, want)
		}
	}
}

func TestBlind(t *testing.T) {
	for rule, want := range map[guard.BlindRule]error{guard.Allow: nil, guard.Contested: Partial, guard.Deny: Partial} {
		s, _ := guarded(t, rule)
		s.must(s.as("b", func() error { return s.readFile("f", 100) }))
		s.must(s.as("b", func() error { return s.rewrite("f", "b was here") }))
		if err := s.as("a", func() error { return s.rewrite("f", "mine") }); !errors.Is(err, want) {
			t.Errorf("rule %d: %v, want %v", rule, err, want)
		}
	}
}

func TestGuardNoticesChangesAround(t *testing.T) {
	s, _ := guarded(t, guard.Allow)
	s.must(s.as("a", func() error { return s.readFile("f", 100) }))
	if err := os.WriteFile(filepath.Join(s.dir, "f"), []byte("written around the mount"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := s.as("a", func() error { return s.rewrite("f", "mine") }); !errors.Is(err, Stale) {
		t.Fatalf("got %v", err)
	}
}

func TestGuardSurvivesRemountAndSwitch(t *testing.T) {
	s, _ := guarded(t, guard.Allow)
	s.must(s.as("a", func() error { return s.readFile("f", 100) }))
	s.must(s.as("b", func() error { return s.append("f", "more") }))
	s.reopen()
	if err := s.as("a", func() error { return s.rewrite("f", "mine") }); !errors.Is(err, Stale) {
		t.Fatalf("after a remount: %v", err)
	}
	if got := s.e.StaleOf("a"); len(got) != 1 || got[0].Path != "f" || got[0].Writers[0] != "b" {
		t.Fatalf("stale of a: %v", got)
	}
	s.e.SetGuard(false)
	s.must(s.as("a", func() error { return s.rewrite("f", "mine") }))
	s.e.SetGuard(true)
	s.must(s.as("b", func() error { return s.readFile("f", 100) }))
	s.e.EndAgent("b")
	s.must(s.as("a", func() error { return s.rewrite("f", "mine again") }))
	s.must(s.as("b", func() error { return s.rewrite("f", "b knows nothing any more") }))
}

// TestReadsSurviveRemount: also when nothing at all was written before it.
func TestReadsSurviveRemount(t *testing.T) {
	s, _ := guarded(t, guard.Allow)
	s.must(s.as("a", func() error { return s.readFile("f", 100) }))
	s.reopen()
	s.must(s.as("c", func() error { return s.readFile("f", 100) }))
	s.e.EndAgent("c")
	s.reopen()
	s.must(s.as("b", func() error { return s.append("f", "more") }))
	if err := s.as("a", func() error { return s.rewrite("f", "mine") }); !errors.Is(err, Stale) {
		t.Errorf("what a read before the remounts: %v", err)
	}
	if err := s.as("c", func() error { return s.rewrite("f", "mine") }); err != nil {
		t.Errorf("what an agent read that has ended: %v", err)
	}
}

// TestOneOfTwoWins: two agents that read and then write at once: one is refused, always. TTFS_NIGHTLY=1 does 1,000 rounds.
func TestOneOfTwoWins(t *testing.T) {
	s, _ := guarded(t, guard.Allow)
	id, err := s.walk("f")
	s.must(err)
	rounds := 200
	if os.Getenv("TTFS_NIGHTLY") != "" {
		rounds = 1000
	}
	for i := range rounds {
		agents := []tasktree.Agent{"a", "b"}
		for _, a := range agents {
			s.must(s.as(a, func() error { return s.readFile("f", 100) }))
		}
		var wg sync.WaitGroup
		errs := make([]error, 2)
		for k, a := range agents {
			wg.Go(func() {
				c := s.caller()
				c.Agent = a
				h, err := s.e.Open(c, id, unix.O_WRONLY|unix.O_TRUNC, false, nil)
				if errs[k] = err; err != nil {
					return
				}
				_, errs[k] = s.e.Write(c, h, []byte(fmt.Sprintf("round %d by %s", i, a)), 0, false, false)
				s.e.Release(h)
			})
		}
		wg.Wait()
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Fatalf("round %d: %v and %v", i, errs[0], errs[1])
		}
		for k, err := range errs {
			if err != nil && !errors.Is(err, Stale) {
				t.Fatalf("round %d, %s: %v", i, agents[k], err)
			}
		}
	}
}

// TestWindowOfRewriting: while one agent rewrites, another's open for writing waits for it.
func TestWindowOfRewriting(t *testing.T) {
	s, _ := guarded(t, guard.Allow)
	var h *Handle
	s.must(s.as("a", func() (err error) { h, err = s.openFile("f", unix.O_WRONLY|unix.O_TRUNC); return err }))
	s.must(s.as("a", func() error { return s.writeAt(h, 0, "rewritten") }))
	s.must(s.as("b", func() error { return s.append("f", "appending never waits") }))
	cancel := make(chan struct{})
	close(cancel)
	id, err := s.walk("f")
	s.must(err)
	c := s.caller()
	c.Agent = "b"
	if _, err := s.e.Open(c, id, unix.O_WRONLY|unix.O_TRUNC, false, cancel); err != unix.EINTR {
		t.Fatalf("an open that is given up: %v", err)
	}
	opened := make(chan error, 1)
	go func() {
		h, err := s.e.Open(c, id, unix.O_RDWR, false, nil)
		if err == nil {
			s.e.Release(h)
		}
		opened <- err
	}()
	s.release(h)
	if err := <-opened; err != nil {
		t.Fatalf("after the window: %v", err)
	}
}
