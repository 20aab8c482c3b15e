package overlay

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// actor is one agent at work in a directory of its own, with what its workspace must look like at each of its tasks.
type actor struct {
	agent tasktree.Agent
	dir   string
	fs    *naive // its directory
	at    tasktree.TaskID
	tasks map[tasktree.TaskID]*remembered
	last  map[tasktree.TaskID]tasktree.TaskID // where redo goes
	files map[*Handle]int                     // open handles, and the inode each is of
}

// remembered is the end of a task.
type remembered struct {
	parent tasktree.TaskID
	fs     *naive            // nil while the task goes on
	disk   map[string]string // the snapshot
	gone   bool              // it was pruned, or all ways to it
}

// machine does random operations and moves and holds the engine against the naive filesystem.
type machine struct {
	*stand
	actors []*actor
	a      *actor // whose turn it is
	ops    int
	linked map[int]bool // inodes that ever had a second name
	deaf   bool         // nobody tells it what moves change
	late   bool         // something may have been written unseen after a move: the next task is of that too
	family bool         // the actor is the parent of others, who work in its directory
	log    []string     // what was done, for the one who reads a failure
}

// peopled has an actor in each of some directories.
func peopled(s *stand, dirs ...string) *machine {
	m := &machine{stand: s, linked: map[int]bool{}}
	for _, name := range dirs {
		m.agent = "setup"
		m.must(m.mkdir(name, 0o755))
		a := &actor{agent: tasktree.Agent("agent-" + name), dir: name, fs: newNaive(), tasks: map[tasktree.TaskID]*remembered{}, last: map[tasktree.TaskID]tasktree.TaskID{}, files: map[*Handle]int{}}
		m.actors = append(m.actors, a)
		m.turn(a)
		// What is there before the first task is made as "setup" would.
		m.agent = "setup"
		for range 25 {
			m.operation()
		}
		m.agent = a.agent
		m.old()
		m.releaseAll()
		a.tasks[0] = &remembered{}
	}
	for _, a := range m.actors {
		m.turn(a)
		m.leave()
	}
	return m
}

func (m *machine) turn(a *actor) { m.a, m.agent = a, a.agent }

func (m *machine) note(format string, args ...any) {
	m.log = append(m.log, fmt.Sprintf("%s@%d ", m.agent, m.a.at)+fmt.Sprintf(format, args...))
}

// fatal ends the test with the last things that were done.
func (m *machine) fatal(format string, args ...any) {
	m.t.Helper()
	m.t.Fatalf("%s\nafter %d operations, the last of which:\n  %s", fmt.Sprintf(format, args...), m.ops, strings.Join(m.log[max(0, len(m.log)-tail):], "\n  "))
}

// some is a random path of the actor's: most of the time one that is there and fits.
func (m *machine) some(fits func(i *inode) bool) string {
	var paths []string
	m.a.fs.each(func(path string, i *inode) {
		if path != "" && fits(i) {
			paths = append(paths, path)
		}
	})
	if len(paths) == 0 || m.rng.IntN(20) == 0 {
		return m.fresh()
	}
	return paths[m.rng.IntN(len(paths))]
}

// fresh is a path that may be there or not, in a directory.
func (m *machine) fresh() string {
	var dirs []string
	m.a.fs.each(func(path string, i *inode) {
		if i.kids != nil && strings.Count(path, "/") < 4 {
			dirs = append(dirs, path)
		}
	})
	return joinPath(dirs[m.rng.IntN(len(dirs))], string(rune('a'+m.rng.IntN(5))))
}

func any_(i *inode) bool   { return true }
func file(i *inode) bool   { return i.kind == unix.S_IFREG }
func notDir(i *inode) bool { return i.kids == nil }
func dir(i *inode) bool    { return i.kids != nil }

// bytes are random content, seldom large.
func (m *machine) bytes() string {
	n := []int{0, 1, 10, 100, 5000, 40_000, 200_000}[min(m.rng.IntN(7), m.rng.IntN(8))]
	return strings.Repeat(fmt.Sprintf("%x,", m.rng.Uint32()), n/2+1)[:n]
}

// offset is a place in a file, or a little past its end.
func (m *machine) offset(i *inode) int64 {
	if i == nil || m.rng.IntN(3) == 0 {
		return 0
	}
	return m.rng.Int64N(int64(len(i.data)) + 1 + m.rng.Int64N(3)*5000)
}

// full is the path in the workspace.
func (m *machine) full(path string) string { return joinPath(m.a.dir, path) }

// operation does one random operation in both worlds.
func (m *machine) operation() {
	m.ops++
	if m.rng.IntN(20) == 0 {
		m.forget(m.rng.Float64())
	}
	name, want, got := m.one()
	m.note("%s: %v", name, want)
	if (want == nil) != (got == nil) {
		m.fatal("%s: %v, should be %v", name, got, want)
	}
	if now := m.e.Active(m.a.agent); now != m.a.at {
		if m.a.tasks[m.a.at].fs == nil {
			m.fatal("%s: task %d began by itself while %d goes on", name, now, m.a.at)
		}
		m.began(now)
	}
}

func (m *machine) one() (name string, want, got error) {
	fs, regular := m.a.fs, func(path string) (*inode, error) {
		i := m.a.fs.find(path)
		if i == nil {
			return nil, unix.ENOENT
		}
		if i.kind != unix.S_IFREG {
			return i, unix.EINVAL
		}
		return i, nil
	}
	switch m.rng.IntN(24) {
	case 0, 1, 2:
		p, b := m.fresh(), m.bytes()
		i := fs.make(unix.S_IFREG, 0o640)
		i.data = []byte(b)
		return fmt.Sprintf("create %s %d", p, len(b)), fs.put(p, i), m.create(m.full(p), b, 0o640)
	case 3, 4:
		p := m.fresh()
		return "mkdir " + p, fs.put(p, fs.make(unix.S_IFDIR, 0o750)), m.mkdir(m.full(p), 0o750)
	case 5:
		p := m.fresh()
		i := fs.make(unix.S_IFLNK, 0o777)
		i.target = fmt.Sprint(m.rng.IntN(100))
		return "symlink " + p, fs.put(p, i), m.symlink(i.target, m.full(p))
	case 6:
		p := m.fresh()
		return "mkfifo " + p, fs.put(p, fs.make(unix.S_IFIFO, 0o600)), m.mkfifo(m.full(p), 0o600)
	case 7:
		p, q := m.some(notDir), m.fresh()
		i := fs.find(p)
		want := error(unix.ENOENT)
		if i != nil && i.kids == nil {
			want = fs.put(q, i)
			m.linked[i.id] = m.linked[i.id] || want == nil
		}
		return "link " + p + " " + q, want, m.link(m.full(p), m.full(q))
	case 8, 9, 10:
		p := m.some(notDir)
		return "unlink " + p, fs.remove(p, false), m.unlink(m.full(p))
	case 11:
		p := m.some(dir)
		return "rmdir " + p, fs.remove(p, true), m.rmdir(m.full(p))
	case 12:
		p := m.some(dir)
		i := fs.find(p)
		if i == nil || m.rng.IntN(3) > 0 {
			return "nothing", nil, nil
		}
		d, n := split(p)
		delete(fs.find(d).kids, n)
		return "rm -rf " + p, nil, m.removeAll(m.full(p))
	case 13, 14, 15, 16:
		return m.renaming()
	case 17:
		p, mode := m.some(func(i *inode) bool { return i.kind != unix.S_IFLNK }), 0o400+uint32(m.rng.IntN(0o400))
		i := fs.find(p)
		if i != nil && i.kind == unix.S_IFLNK {
			return "nothing", nil, nil
		}
		if i == nil {
			return "chmod " + p, unix.ENOENT, m.chmod(m.full(p), mode)
		}
		i.mode = mode
		return "chmod " + p, nil, m.chmod(m.full(p), mode)
	case 18:
		p, k := m.some(func(i *inode) bool { return file(i) || dir(i) }), fmt.Sprintf("user.%d", m.rng.IntN(3))
		i := fs.find(p)
		if i == nil || !file(i) && !dir(i) {
			return "nothing", nil, nil
		}
		if _, has := i.xattrs[k]; has && m.rng.IntN(2) == 0 {
			delete(i.xattrs, k)
			return "removexattr " + p, nil, m.removeXattr(m.full(p), k)
		}
		i.xattrs[k] = fmt.Sprint(m.ops)
		return "setxattr " + p, nil, m.setXattr(m.full(p), k, i.xattrs[k])
	case 19:
		p, b := m.some(file), m.bytes()
		i, want := regular(p)
		if want == nil {
			i.data = []byte(b)
		} else if i != nil {
			return "nothing", nil, nil // the kernel opens these itself
		}
		return fmt.Sprintf("rewrite %s %d", p, len(b)), want, m.rewrite(m.full(p), b)
	case 20:
		p := m.some(file)
		i, want := regular(p)
		if i == nil || want != nil {
			return "nothing", nil, nil
		}
		size := m.offset(i)
		i.resize(size)
		return fmt.Sprintf("truncate %s %d", p, size), nil, m.truncate(m.full(p), size)
	case 21:
		return m.byHandle()
	}
	p, b := m.some(file), m.bytes()
	i, want := regular(p)
	switch {
	case want != nil:
		return "nothing", nil, nil
	case m.rng.IntN(3) == 0:
		i.write(int64(len(i.data)), []byte(b))
		return fmt.Sprintf("append %s %d", p, len(b)), nil, m.append(m.full(p), b)
	case m.rng.IntN(5) == 0 && len(i.data) > 0:
		off := m.offset(i)
		n := 1 + m.rng.Int64N(int64(len(i.data)))
		if off < int64(len(i.data)) {
			i.write(off, make([]byte, min(n, int64(len(i.data))-off)))
		}
		return fmt.Sprintf("punch %s %d %d", p, off, n), nil, m.fallocate(m.full(p), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
	}
	off := m.offset(i)
	if len(b) > 0 {
		i.write(off, []byte(b))
	}
	return fmt.Sprintf("write %s %d %d", p, off, len(b)), nil, m.write(m.full(p), off, b)
}

func (m *machine) renaming() (name string, want, got error) {
	p, q := m.some(any_), m.fresh()
	if m.rng.IntN(2) == 0 {
		q = m.some(any_)
	}
	if p == q || strings.HasPrefix(p+"/", q+"/") || strings.HasPrefix(q+"/", p+"/") {
		return "nothing", nil, nil // the kernel answers these itself
	}
	flags := []uint{0, 0, 0, RenameNoReplace, RenameExchange}[m.rng.IntN(5)]
	return fmt.Sprintf("rename %s %s %d", p, q, flags), m.a.fs.rename(p, q, flags), m.rename(m.full(p), m.full(q), flags)
}

// began follows the engine into a new task.
func (m *machine) began(id tasktree.TaskID) {
	m.late = false
	m.a.tasks[id] = &remembered{parent: m.a.at}
	m.a.last[m.a.at] = id
	m.a.at = id
}

// mine is the part of the snapshot that is the actor's.
func (m *machine) mine() map[string]string {
	return m.snapshotBelow(m.a.dir, true)
}

// leave remembers the end of the active task.
func (m *machine) leave() {
	if r := m.a.tasks[m.a.at]; r.fs == nil {
		m.compare()
		r.fs, r.disk = m.a.fs.clone(), m.mine()
	}
}

// runMachine does n operations with moves, new starts and deaths between them.
func runMachine(t *testing.T, seed uint64, n int) {
	s := newStand(t, seed)
	s.passes(seed%3 == 1)
	m := peopled(s, "x", "y")
	for m.ops < n {
		m.turn(m.actors[m.rng.IntN(len(m.actors))])
		for range m.rng.IntN(60) {
			m.operation()
		}
		m.move()
		switch m.rng.IntN(60) {
		case 0:
			m.releaseAll()
			m.note("reopen")
			m.reopen()
		case 1:
			m.releaseAll()
			m.note("crash")
			m.crash()
		case 2:
			m.note("archive")
			m.must(m.e.Archive())
		case 3, 4:
			m.prune()
		}
	}
	for _, a := range m.actors {
		m.turn(a)
		m.leave()
		for _, id := range slices.Sorted(maps.Keys(a.tasks)) {
			if a.tasks[id].gone {
				continue
			}
			m.note("last move to %d", id)
			_, err := m.e.Switch(a.agent, id, MoveOptions{})
			m.must(err)
			m.arrive(id)
		}
	}
	m.verify()
}

// TestModel holds the engine against a naive filesystem. TTFS_NIGHTLY=1 does a million operations.
func TestModel(t *testing.T) {
	seeds, n := uint64(12), 2500
	if underRace {
		seeds, n = 3, 1200
	}
	if os.Getenv("TTFS_NIGHTLY") != "" {
		seeds, n = 200, 5000
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			runMachine(t, seed, n)
		})
	}
}
