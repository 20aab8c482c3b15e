package overlay

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// move goes to another task, or begins one, and checks that all is as it was there.
func (m *machine) move() {
	a := m.a
	goesOn := a.tasks[a.at].fs == nil
	m.leave()
	var res MoveResult
	var err error
	to := a.at
	ids := slices.Sorted(maps.Keys(a.tasks))
	ids = slices.DeleteFunc(ids, func(id tasktree.TaskID) bool { return a.tasks[id].gone && m.rng.IntN(5) > 0 })
	what := m.rng.IntN(8)
	if m.late {
		what = 0
	}
	switch what {
	case 0, 1, 2:
		m.note("begin")
		m.begin(fmt.Sprint(m.ops))
		m.began(m.e.Active(a.agent))
		return
	case 3, 4:
		if to != 0 {
			to = a.tasks[a.at].parent
		}
	case 5:
		to = a.last[a.at]
	default:
		to = ids[m.rng.IntN(len(ids))]
	}
	if os.Getenv("NOHIST") == "" && m.rng.IntN(3) == 0 && !a.tasks[to].gone {
		m.history(to, m.reachable(ids))
	}
	m.note("move to %d (%d)", to, what)
	if a.tasks[to].gone {
		m.refused(what, to)
		if goesOn {
			a.tasks[a.at].fs = nil
		}
		return
	}
	switch what {
	case 3, 4:
		res, err = m.e.Undo(a.agent, MoveOptions{})
	case 5:
		res, err = m.e.Redo(a.agent, MoveOptions{})
	default:
		res, err = m.e.Switch(a.agent, to, MoveOptions{})
	}
	if none := what != 5 && what > 4; !none && (a.at == 0 && what < 5 || to == 0 && what == 5) {
		if err == nil {
			m.fatal("a move to nowhere from %d", a.at)
		}
		if goesOn {
			a.tasks[a.at].fs = nil // it is not left
		}
		return
	}
	if err != nil || res.From != a.at || res.To != to || len(res.Lost) > 0 {
		m.fatal("move from %d to %d: %+v, %v", a.at, to, res, err)
	}
	m.arrive(to)
}

// arrive follows the engine to a task and compares.
func (m *machine) arrive(to tasktree.TaskID) {
	m.t.Helper()
	a := m.a
	a.at, a.fs = to, a.tasks[to].fs.clone()
	a.fs.next = m.ops * 1000 // numbers are not used twice, in no branch
	for id := to; id != 0; id = a.tasks[id].parent {
		a.last[a.tasks[id].parent] = id
	}
	if m.deaf {
		m.forget(1)
		m.names = map[dentry]NodeID{}
	}
	if d := differ(m.mine(), a.tasks[to].disk); d != "" {
		m.fatal("task %d is not as it was:%s", to, d)
	}
	if now := m.e.Active(a.agent); now != to {
		m.fatal("the active task is %d, not %d", now, to)
	}
	m.compare()
}

// history compares what the engine tells of tasks with what is remembered of them.
func (m *machine) history(to, id tasktree.TaskID) {
	a := m.a
	changes, err := m.e.Preview(a.agent, to)
	m.must(err)
	got := map[string]string{}
	for _, c := range changes {
		got[c.Path] = c.Op
	}
	m.listed(fmt.Sprintf("preview of %d", to), got, a.fs, a.tasks[to].fs)
	if r := a.tasks[id]; id != 0 && r.fs != nil && !m.family && !a.tasks[r.parent].gone {
		files, err := m.e.Files(id)
		m.must(err)
		got := map[string]string{}
		for _, c := range files {
			for op, past := range pastTense {
				if past == c.Op {
					got[c.Path] = op
				}
			}
		}
		m.listed(fmt.Sprintf("files of %d", id), got, a.tasks[r.parent].fs, r.fs)
	}
	tree, err := m.e.At(a.agent, id)
	m.must(err)
	want := map[string]string{}
	a.tasks[id].fs.each(func(path string, i *inode) { // views tell neither attributes nor links
		plain := *i
		plain.xattrs = nil
		want[path] = plain.String()
	})
	if d := differ(m.tree(tree), want); d != "" {
		m.fatal("the view of task %d at %d:%s", id, a.at, d)
	}
}

// listed compares a list of changes. Of a file that ever had several names the engine remembers only the last two that it
// has met: that its bytes changed may be told of the others or not.
func (m *machine) listed(what string, got map[string]string, from, to *naive) {
	want := map[string]string{}
	for path, op := range from.changes(to) {
		full := m.full(path)
		if i := to.find(path); op == opModify && got[full] == "" && m.linked[i.id] {
			continue
		}
		want[full] = op
	}
	if d := differ(got, want); d != "" {
		for path, op := range from.changes(to) {
			if full := m.full(path); got[full] != op {
				d += fmt.Sprintf("\n%s: %v, then %v", full, from.find(path), to.find(path))
			}
		}
		m.fatal("%s:%s", what, d)
	}
}

// tree reads a view through and through.
func (m *machine) tree(v *Tree) map[string]string {
	out := map[string]string{}
	var walk func(path string)
	walk = func(path string) {
		full := m.full(path)
		st, err := v.Stat(full)
		m.must(err)
		i := &inode{kind: kindOf(&st), mode: uint32(st.Mode) & 0o7777}
		switch i.kind {
		case unix.S_IFDIR:
			entries, err := v.List(full)
			m.must(err)
			for _, ent := range entries {
				st, err := v.Stat(joinPath(full, ent.Name))
				if m.must(err); ent.Type != kindOf(&st) {
					m.t.Fatalf("%s in %q is listed as %o and is %o", ent.Name, full, ent.Type, st.Mode)
				}
				walk(joinPath(path, ent.Name))
			}
		case unix.S_IFREG:
			i.data = make([]byte, st.Size)
			n, err := v.ReadAt(full, i.data, 0)
			m.must(err)
			i.data = i.data[:n]
		case unix.S_IFLNK:
			target, err := v.Readlink(full)
			m.must(err)
			i.target = string(target)
		}
		out[path] = i.String()
	}
	walk("")
	return out
}

var tail = 60

// compare holds the disk against the naive filesystem.
func (m *machine) compare() {
	m.t.Helper()
	got := map[string]string{}
	first := map[uint64]string{}
	top := filepath.Join(m.stand.dir, m.a.dir)
	err := filepath.WalkDir(top, func(full string, ent os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path := strings.TrimPrefix(strings.TrimPrefix(full, top), "/")
		var st Stat
		if err := statAt(unix.AT_FDCWD, full, &st); err != nil {
			return err
		}
		i, err := onDisk(full, &st)
		got[path] = i.String()
		if one, has := first[st.Ino]; has {
			got[path] += " same=" + one
		}
		if _, has := first[st.Ino]; !has {
			first[st.Ino] = path
		}
		return err
	})
	m.must(err)
	if d := differ(got, m.a.fs.describe()); d != "" {
		m.fatal("the workspace is not what the programs made:%s", d)
	}
	// What programs see of links in hold: nothing.
	p := m.some(any_)
	if i := m.a.fs.find(p); i != nil {
		id, err := m.walk(m.full(p))
		m.must(err)
		st, err := m.e.GetAttr(id, nil)
		m.must(err)
		if want := m.a.fs.links(i); i.kids == nil && int(st.Nlink) != want {
			m.fatal("%s has %d links, should have %d", p, st.Nlink, want)
		}
	}
}

func onDisk(full string, st *Stat) (i *inode, err error) {
	i = &inode{kind: kindOf(st), mode: uint32(st.Mode) & 0o7777, xattrs: map[string]string{}}
	switch i.kind {
	case unix.S_IFREG:
		i.data, err = os.ReadFile(full)
	case unix.S_IFLNK:
		i.target, err = os.Readlink(full)
		return i, err
	}
	if err != nil {
		return i, err
	}
	fd, err := openAt(unix.AT_FDCWD, full, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return i, err
	}
	defer unix.Close(fd)
	names, err := listXattrs(fd)
	for _, name := range names {
		v, err := getXattr(fd, name)
		if err != nil {
			return i, err
		}
		i.xattrs[name] = string(v)
	}
	return i, err
}
