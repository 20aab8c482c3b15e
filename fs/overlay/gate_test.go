package overlay

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// beside is a stand for one more agent, to be used beside others: it caches nothing that a move of theirs could change.
func (s *stand) beside(a tasktree.Agent) *stand {
	w := *s
	w.agent, w.rng = a, rand.New(rand.NewPCG(1, uint64(len(a))))
	w.held, w.names, w.files = map[NodeID]uint64{}, map[dentry]NodeID{}, map[*Handle]string{}
	return &w
}

// fresh drops what was cached, and says what the operation said; ESTALE, for what a move took away in the midst, comes
// again.
func (s *stand) fresh(f func() error) error {
	for {
		s.forget(1)
		s.names = map[dentry]NodeID{}
		if err := f(); !errors.Is(err, unix.ESTALE) {
			return err
		}
	}
}

// TestMoveBesideOthers stops an undo in the midst. Whoever works elsewhere goes on meanwhile, moves directories, begins
// tasks, looks at the root; who comes to its paths waits, and finds it done.
func TestMoveBesideOthers(t *testing.T) {
	s := newStand(t, 1)
	for _, d := range []string{"a", "a/sub", "a/moved", "b", "b/dir"} {
		s.must(s.mkdir(d, 0o755))
	}
	for _, f := range []string{"a/file", "a/sub/file", "a/beside", "b/file"} {
		s.must(s.create(f, "old "+f, 0o644))
	}
	s.begin("one")
	s.must(s.rewrite("a/file", "new"))
	s.must(s.rewrite("a/sub/file", "new"))
	s.must(s.create("a/created", "new", 0o644))
	s.must(s.mkdir("a/tree", 0o755))
	s.must(s.create("a/tree/file", "new", 0o644))

	inside, goOn := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	defer release() // a move that is not ended would hold up the end of the test
	var once sync.Once
	s.point = func(name string) error {
		if name == "restore" {
			once.Do(func() { close(inside); <-goOn })
		}
		return nil
	}
	u := s.beside("a") // s itself hears of the changes
	moved := make(chan error, 1)
	go func() { _, err := u.e.Undo("a", MoveOptions{}); moved <- err }()
	<-inside

	o := s.beside("o")
	elsewhere := make(chan error, 1)
	go func() {
		_, err := o.e.BeginTask("o", "elsewhere")
		elsewhere <- errors.Join(err,
			o.rewrite("b/file", "o's"), o.rewrite("a/beside", "o's"), o.create("a/new", "o's", 0o644), o.mkdir("b/dir/x", 0o755),
			o.rename("b/dir", "b/other", 0), o.rename("a/new", "a/newer", 0), o.unlink("a/beside"), o.chmod("b", 0o700), o.removeAll("b/other"),
			o.rmdir("a/moved"), o.verifyRoot())
	}()
	select {
	case err := <-elsewhere:
		s.must(err)
	case err := <-moved:
		t.Fatalf("the undo ended before the others: %v", err)
	case <-time.After(20 * time.Second):
		t.Fatal("who works elsewhere waits for the move")
	}

	var met sync.WaitGroup
	ended := make(chan string, 16)
	for name, f := range map[string]func(o *stand) error{
		"write":        func(o *stand) error { return o.rewrite("a/file", "later") },
		"look below":   func(o *stand) error { _, err := o.walk("a/tree/file"); return gone(err) },
		"make":         func(o *stand) error { return o.create("a/created", "later", 0o644) },
		"rename a way": func(o *stand) error { return o.rename("a/sub", "a/elsewhere", 0) },
		"rename over":  func(o *stand) error { return errors.Join(o.create("a/x", "x", 0o644), o.rename("a/x", "a/tree", 0)) },
	} {
		w := s.beside("o")
		met.Go(func() {
			if err := w.fresh(func() error { return f(w) }); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			ended <- name
		})
	}
	// They all come to wait; that none of them has ended shows when the move goes on and they have not.
	waits := func() bool { return len(ended) == 0 }
	for range 50 {
		if !waits() {
			t.Fatalf("%s met the move and did not wait", <-ended)
		}
		time.Sleep(time.Millisecond)
	}
	release()
	s.must(<-moved)
	met.Wait()
	for path, want := range map[string]string{
		"a/file": "later", "a/elsewhere/file": "old a/sub/file", "a/created": "later", "a/newer": "o's", "b/file": "o's", "a/tree": "x",
	} {
		if got, err := os.ReadFile(filepath.Join(s.dir, path)); err != nil || string(got) != want {
			t.Errorf("%s has %q, want %q (%v)", path, got, want, err)
		}
	}
}

func (s *stand) verifyRoot() error {
	_, err := s.e.GetAttr(RootNode, nil)
	if err == nil {
		_, err = s.list(RootNode)
	}
	return err
}

// gone makes of what is not there nothing.
func gone(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	return fmt.Errorf("it is there: %w", err)
}

// TestAgentsAtOnce lets agents work, undo, redo and switch in one tree, each on files of its own in shared directories,
// while another renames those directories to and fro. When each has gone back to its beginning, every file is as it was.
func TestAgentsAtOnce(t *testing.T) {
	agents, rounds := 6, 40
	if testing.Short() || underRace {
		rounds = 15
	}
	s := newStand(t, 1)
	s.set = func(o *Options) { o.Notify = nil } // nobody caches anything
	s.reopen()
	dirs := []string{"d0", "d1", "d1/sub"}
	for _, d := range dirs {
		s.must(s.mkdir(d, 0o755))
	}
	for a := range agents {
		for i, d := range dirs {
			s.must(s.create(fmt.Sprintf("%s/f%d", d, a), fmt.Sprintf("%d of %d", i, a), 0o644))
		}
	}
	before := files(s.snapshot(true))
	var all sync.WaitGroup
	stop := make(chan struct{})
	renamed := make(chan struct{})
	w := s.beside("renamer")
	var workers []*stand
	for a := range agents {
		workers = append(workers, s.beside(tasktree.Agent(fmt.Sprintf("agent%d", a))))
	}
	go func() {
		defer close(renamed)
		for i := 0; ; i++ {
			from, to := "d1", "moved"
			if i%2 == 1 {
				from, to = to, from
				if err := w.fresh(func() error { return w.rename(from, to, 0) }); err != nil {
					t.Errorf("rename: %v", err)
				}
				select {
				case <-stop:
					return
				default:
				}
				continue
			}
			if err := w.fresh(func() error { return w.rename(from, to, 0) }); err != nil {
				t.Errorf("rename: %v", err)
			}
		}
	}()
	for a, w := range workers {
		all.Go(func() { w.work(a, rounds, dirs) })
	}
	all.Wait()
	close(stop)
	<-renamed
	s.forget(1)
	s.checkFiles("after all went back", before)
	s.verify()
	s.reopen()
	s.checkFiles("after a reopen", before)
}

// work is one agent of TestAgentsAtOnce.
func (s *stand) work(a, rounds int, dirs []string) {
	path := func(dir, name string) func(do func(p string) error) error {
		return func(do func(p string) error) error {
			// The directory may be at its other place, or go there in the midst.
			for {
				for _, alt := range []string{dir, "moved" + dir[min(2, len(dir)):]} {
					err := s.fresh(func() error { return do(alt + "/" + name) })
					if !errors.Is(err, unix.ENOENT) {
						return err
					}
				}
			}
		}
	}
	fail := func(what string, err error) {
		if err != nil {
			s.t.Errorf("%s %s: %v", s.agent, what, err)
		}
	}
	for i := range rounds {
		if _, err := s.e.BeginTask(s.agent, fmt.Sprintf("round %d", i)); err != nil {
			fail("begin", err)
			return
		}
		for _, d := range dirs {
			fail("rewrite", path(d, fmt.Sprintf("f%d", a))(func(p string) error { return s.rewrite(p, fmt.Sprintf("round %d", i)) }))
			fail("create", path(d, fmt.Sprintf("new%d.%d", a, i))(func(p string) error { return s.create(p, "new", 0o644) }))
		}
		fail("mkdir", path("d0", fmt.Sprintf("dir%d.%d", a, i))(func(p string) error { return s.mkdir(p, 0o755) }))
		if i%3 != 0 {
			_, err := s.e.Undo(s.agent, MoveOptions{})
			fail("undo", err)
		}
		if i%3 == 1 {
			_, err := s.e.Redo(s.agent, MoveOptions{})
			fail("redo", err)
		}
	}
	_, err := s.e.Switch(s.agent, 0, MoveOptions{})
	fail("switch", err)
}

// files is a snapshot without the times of directories, which several agents change.
func files(snap map[string]string) map[string]string {
	for path, is := range snap {
		if mode, _, dir := strings.Cut(is, " owner="); dir && strings.HasPrefix(mode, "mode=4") {
			snap[path] = mode
		}
	}
	return snap
}

func (s *stand) checkFiles(what string, want map[string]string) {
	s.t.Helper()
	got := files(s.snapshot(true))
	for path := range want {
		if got[path] != want[path] {
			s.t.Errorf("%s: %s is %q, should be %q", what, path, got[path], want[path])
		}
	}
	for path := range got {
		if _, has := want[path]; !has {
			s.t.Errorf("%s: %s is there", what, path)
		}
	}
}
