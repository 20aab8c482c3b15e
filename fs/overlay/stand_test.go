package overlay

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ttfs/ttfs/cas"
	"github.com/ttfs/ttfs/journal"
	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// stand is a workspace with its engine, and the part of the kernel: it looks paths up name by name, holds on to nodes
// and names as the kernel's caches do, hears of changes, and forgets.
type stand struct {
	t     testing.TB
	dir   string
	store string // of journal and blobs: another after each crash
	gen   int
	e     *Engine
	j     *journal.Journal
	blobs *cas.Store
	agent tasktree.Agent
	set   func(*Options) // changes the options of the next open; may be nil
	point func(name string) error
	pass  bool // the mount can pass files through
	rng   *rand.Rand

	held  map[NodeID]uint64  // lookups not taken back
	names map[dentry]NodeID  // names that the kernel has cached
	files map[*Handle]string // handles not released
	told  []Changes
	lines []string // of the event log; each is held to its shape
}

type dentry struct {
	dir  NodeID
	name string
}

// newStand makes an empty workspace with an open engine.
func newStand(t testing.TB, seed uint64) *stand {
	t.Helper()
	s := &stand{t: t, dir: t.TempDir(), agent: "a", rng: rand.New(rand.NewPCG(seed, 0))}
	s.store = filepath.Join(s.dir, StoreName)
	if err := os.Mkdir(s.store, 0o700); err != nil {
		t.Fatal(err)
	}
	s.open()
	t.Cleanup(s.close)
	return s
}

// Changed is told by the engine what to drop from the cache.
func (s *stand) Changed(c Changes) {
	s.told = append(s.told, c)
	for _, ent := range c.Entries {
		delete(s.names, dentry{ent.Dir, ent.Name})
	}
}

func (s *stand) open() {
	s.t.Helper()
	if err := s.tryOpen(); err != nil {
		s.t.Fatalf("open: %v", err)
	}
}

func (s *stand) tryOpen() (err error) {
	s.held, s.names, s.files = map[NodeID]uint64{}, map[dentry]NodeID{}, map[*Handle]string{}
	if s.j, err = journal.Open(filepath.Join(s.store, "journal"), journal.Options{FloorBytes: -1}); err != nil {
		return err
	}
	if s.blobs, err = cas.Open(filepath.Join(s.store, "cas"), cas.Options{FloorBytes: -1}); err != nil {
		return errors.Join(err, s.j.Close())
	}
	root, err := os.Open(s.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	tt, err := os.Open(filepath.Join(s.dir, StoreName))
	if err != nil {
		return err
	}
	defer tt.Close()
	o := Options{Root: int(root.Fd()), Store: int(tt.Fd()), Journal: s.j, Blobs: s.blobs, Notify: s, DirFDs: 8, Events: s.event, workers: 3}
	o.point = func(name string) error {
		if s.point == nil {
			return nil
		}
		return s.point(name)
	}
	if s.set != nil {
		s.set(&o)
	}
	if s.e, err = Open(o); err != nil {
		s.e = nil
		return errors.Join(err, s.blobs.Close(), s.j.Close())
	}
	s.e.SetPassthrough(s.pass)
	return nil
}

// close ends the engine in good order.
func (s *stand) close() {
	if s.e == nil {
		return
	}
	for h := range s.files {
		s.e.Release(h)
	}
	if err := errors.Join(s.e.Close(), s.blobs.Close(), s.j.Close()); err != nil {
		s.t.Errorf("close: %v", err)
	}
	s.e = nil
}

func (s *stand) reopen() {
	s.t.Helper()
	s.close()
	s.open()
}

// image copies journal and blobs as they are with the kernel now: what a death of the process would leave.
func (s *stand) image() {
	s.gen++
	to := filepath.Join(s.dir, StoreName, fmt.Sprintf("gen%d", s.gen))
	for _, sub := range []string{"journal", "cas"} {
		from, to := filepath.Join(s.store, sub), filepath.Join(to, sub)
		// A death leaves the files of one moment: pebble may write some while they are copied, also by itself.
		before := filesOf(from)
		for range 20 { // what others commit meanwhile makes segments longer, which is as good
			if err := errors.Join(os.RemoveAll(to), copyDir(from, to)); err != nil {
				s.t.Fatalf("copy the store: %v", err)
			}
			after := filesOf(from)
			if after == before {
				break
			}
			before = after
		}
	}
	s.store = to
}

// filesOf is the names, sizes and times of all files below a directory.
func filesOf(dir string) string {
	var out strings.Builder
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if i, err := d.Info(); err == nil {
			fmt.Fprintln(&out, path, i.Size(), i.ModTime().UnixNano())
		}
		return nil
	})
	return out.String()
}

func copyDir(from, to string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	all, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, ent := range all {
		a, b := filepath.Join(from, ent.Name()), filepath.Join(to, ent.Name())
		if ent.IsDir() {
			err = copyDir(a, b)
		} else {
			err = copyFile(a, b)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err // a file that pebble removed meanwhile is not needed
		}
	}
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// crash is a death of the daemon now, and a new start.
func (s *stand) crash() {
	s.t.Helper()
	s.image()
	s.close()
	s.open()
}

// dead is what a point panics with to stop an operation where it is.
type dead struct{ at string }

// dies does f and says whether it died at a point. The store is then as it was at the point.
func (s *stand) dies(f func()) (at string, died bool) {
	defer func() {
		s.point = nil
		if r := recover(); r != nil {
			d, ok := r.(dead)
			if !ok {
				panic(r)
			}
			at, died = d.at, true
		}
	}()
	f()
	return "", false
}

// dieAt makes the n-th point from now on the last.
func (s *stand) dieAt(n int) {
	s.point = func(name string) error {
		if n--; n >= 0 {
			return nil
		}
		s.image()
		panic(dead{name})
	}
}

// caller is the stand's agent, as the owner of the files.
func (s *stand) caller() Caller {
	return Caller{Agent: s.agent, UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
}

// look is what the kernel does for one name: what it has cached, or a lookup.
func (s *stand) look(dir NodeID, name string) (NodeID, error) {
	d := dentry{dir, name}
	if id, has := s.names[d]; has {
		return id, nil
	}
	ent, err := s.e.Lookup(dir, name)
	if err != nil {
		return 0, err
	}
	s.enter(d, ent)
	return ent.Node, nil
}

func (s *stand) enter(d dentry, ent Entry) {
	s.held[ent.Node]++
	s.names[d] = ent.Node
}

// walk is the node at a path; "" is the root.
func (s *stand) walk(path string) (id NodeID, err error) {
	id = RootNode
	for _, name := range strings.Split(path, "/") {
		if name == "" {
			continue
		}
		if id, err = s.look(id, name); err != nil {
			return 0, err
		}
	}
	return id, nil
}

func split(path string) (dir, name string) {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return "", path
}

// parent is the node of a path's directory, and the path's last name.
func (s *stand) parent(path string) (NodeID, string, error) {
	dir, name := split(path)
	id, err := s.walk(dir)
	return id, name, err
}

// forget drops nodes from the kernel's caches, each with probability p.
func (s *stand) forget(p float64) {
	for _, id := range slices.Sorted(maps.Keys(s.held)) {
		if s.rng.Float64() >= p {
			continue
		}
		maps.DeleteFunc(s.names, func(d dentry, n NodeID) bool { return n == id || d.dir == id })
		s.e.Forget(id, s.held[id])
		delete(s.held, id)
	}
}

// must fails at an error, or when it is not the one that must come.
func (s *stand) must(err error, want ...error) {
	s.t.Helper()
	if len(want) > 0 {
		if !errors.Is(err, want[0]) {
			s.t.Fatalf("%v, should be %v", err, want[0])
		}
		return
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// old makes every time in the workspace an old one, so that a time that was not brought back shows.
func (s *stand) old() {
	at := time.Unix(1_000_000_000, 123_456_789)
	err := filepath.WalkDir(s.dir, func(full string, ent os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if full == filepath.Join(s.dir, StoreName) {
			return filepath.SkipDir
		}
		ts := []unix.Timespec{unix.NsecToTimespec(at.UnixNano()), unix.NsecToTimespec(at.UnixNano())}
		return unix.UtimesNanoAt(unix.AT_FDCWD, full, ts, unix.AT_SYMLINK_NOFOLLOW)
	})
	if err != nil {
		s.t.Fatal(err)
	}
}
