package overlay

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/ttfs/ttfs/tasktree"
)

// world is one workspace or fork in the model: an engine, and what it must look like now and at each of its tasks.
type world struct {
	*machine
	name  string
	up    *world // nil: the workspace itself
	fork  ForkName
	kids  map[ForkName]*world
	tasks map[tasktree.TaskID]*naive
}

// worlds is the model: a workspace, its forks, and theirs.
type worlds struct {
	t    *testing.T
	root *world
	n    int
	log  []string
}

func newWorlds(t *testing.T, seed uint64) *worlds {
	ws := &worlds{t: t}
	ws.root = ws.world(nil, "", newStand(t, seed), newNaive(), "parent")
	return ws
}

func (ws *worlds) world(up *world, fork ForkName, s *stand, fs *naive, agent tasktree.Agent) *world {
	w := &world{name: string(agent), up: up, fork: fork, kids: map[ForkName]*world{}, tasks: map[tasktree.TaskID]*naive{0: fs.clone()}}
	s.agent = agent
	w.machine = &machine{stand: s, linked: map[int]bool{}, a: &actor{agent: agent, fs: fs, files: map[*Handle]int{}}}
	return w
}

// all is every world, a parent before its forks.
func (ws *worlds) all() (out []*world) {
	var add func(w *world)
	add = func(w *world) {
		out = append(out, w)
		for _, name := range slices.Sorted(maps.Keys(w.kids)) {
			add(w.kids[name])
		}
	}
	add(ws.root)
	return out
}

func (ws *worlds) note(w *world, format string, args ...any) {
	ws.log = append(ws.log, w.name+": "+fmt.Sprintf(format, args...))
}

func (ws *worlds) fatal(w *world, format string, args ...any) {
	ws.t.Helper()
	for _, line := range ws.log[max(0, len(ws.log)-tailOf()):] {
		ws.t.Log(line)
	}
	ws.t.Fatalf("%s, after %d operations: %s", w.name, ws.n, fmt.Sprintf(format, args...))
}

// check holds every world against what it should be.
func (ws *worlds) check(when string) {
	ws.t.Helper()
	for _, w := range ws.all() {
		if d := differ(w.seen(), w.a.fs.describe()); d != "" {
			ws.fatal(w, "%s:%s", when, d)
		}
		w.a.fs.each(func(path string, i *inode) {
			if i.kids != nil {
				return
			}
			if st := w.stat(path); int(st.Nlink) != w.a.fs.links(i) {
				ws.fatal(w, "%s: %s has %d links, should have %d", when, path, st.Nlink, w.a.fs.links(i))
			}
		})
	}
}

func (ws *worlds) operation(w *world) {
	ws.n++
	if w.rng.IntN(20) == 0 {
		w.forget(w.rng.Float64())
	}
	name, want, got := w.one()
	ws.note(w, "%s: %v", name, want)
	if (want == nil) != (got == nil) {
		ws.fatal(w, "%s: %v, should be %v", name, got, want)
	}
}

// left remembers the end of the active task.
func (w *world) left() {
	if now := w.e.Active(w.a.agent); now != 0 {
		if k, _ := w.e.Task(now); !k.Sealed || w.tasks[now] == nil {
			w.tasks[now] = w.a.fs.clone()
		}
	}
}

// move goes to some task of the world's.
func (ws *worlds) move(w *world) {
	w.left()
	w.machine.releaseOwn()
	ids := slices.Sorted(maps.Keys(w.tasks))
	id := ids[w.rng.IntN(len(ids))]
	ws.note(w, "switch %d", id)
	_, err := w.e.Switch(w.a.agent, id, MoveOptions{})
	if err != nil {
		ws.fatal(w, "switch %d: %v", id, err)
	}
	w.a.fs = w.tasks[id].clone()
	w.names = map[dentry]NodeID{}
	if d := differ(w.seen(), w.a.fs.describe()); d != "" {
		ws.fatal(w, "at task %d:%s", id, d)
	}
}

func (m *machine) releaseOwn() {
	for h := range m.a.files {
		m.release(h)
	}
	clear(m.a.files)
}

func (ws *worlds) forkOf(w *world) {
	if len(ws.all()) >= 5 {
		return
	}
	w.left()
	name := ForkName(fmt.Sprintf("n%d", ws.n))
	agent := tasktree.Agent(w.name + "-" + string(name))
	o := ForkOptions{Name: name, Agent: agent, Parent: w.a.agent}
	fs := w.a.fs
	if w.rng.IntN(3) == 0 {
		ids := slices.Sorted(maps.Keys(w.tasks))
		at := ids[w.rng.IntN(len(ids))]
		o.At, fs = &at, w.tasks[at]
	}
	if _, err := w.e.Fork(o); err != nil {
		ws.fatal(w, "fork: %v", err)
	}
	kid := ws.world(w, name, w.forked(name), fs.clone(), agent)
	w.kids[name] = kid
	if o.At != nil {
		ws.note(w, "fork %s at %d", name, *o.At)
	} else {
		ws.note(w, "fork %s", name)
	}
	if d := differ(kid.seen(), kid.a.fs.describe()); d != "" {
		ws.fatal(kid, "as it was made:%s", d)
	}
}

func (ws *worlds) discard(w *world) {
	if w.up == nil {
		return
	}
	for _, o := range ws.all() {
		o.releaseOwn()
	}
	ws.note(w, "discard")
	if err := w.up.e.Discard(w.fork, true); err != nil {
		ws.fatal(w, "discard: %v", err)
	}
	delete(w.up.kids, w.fork)
}

// restart opens everything anew, after a death or in good order.
func (ws *worlds) restart(death bool) {
	for _, w := range ws.all() {
		w.left()
		w.releaseOwn()
	}
	ws.note(ws.root, "restart, death %v", death)
	if death {
		ws.root.crash()
	} else {
		ws.root.reopen()
	}
	ws.found()
}

// found gives every fork the engine that it has now.
func (ws *worlds) found() {
	for _, w := range ws.all() {
		if w.up != nil {
			s := w.up.forked(w.fork)
			s.agent = w.a.agent
			w.machine.stand = s
		}
	}
}

// die ends an operation at a point in its midst. What it leaves is not compared, but that all of it is taken back.
func (ws *worlds) die(w *world) {
	w.left()
	for _, o := range ws.all() {
		o.left()
		o.releaseOwn()
	}
	w.begin("death")
	was := w.a.fs.clone()
	parent, _ := w.e.Task(w.e.Active(w.a.agent))
	ws.root.dieAt(w.rng.IntN(12))
	at, died := ws.root.dies(func() { w.one() })
	ws.root.point = nil
	ws.note(w, "death %v at %q", died, at)
	if died {
		for _, o := range ws.all() {
			o.machine.stand.releaseAll()
		}
		ws.root.close()
		ws.root.open()
		ws.found()
	}
	w.releaseOwn()
	if _, err := w.e.Switch(w.a.agent, parent.Parent, MoveOptions{}); err != nil {
		ws.fatal(w, "undo after a death at %q: %v", at, err)
	}
	w.a.fs = was
	w.names = map[dentry]NodeID{}
	ws.check("after a death at " + at)
}

func runWorlds(t *testing.T, seed uint64, n int) {
	ws := newWorlds(t, seed)
	w := ws.root
	for range 40 {
		ws.operation(w)
	}
	for ws.n < n {
		all := ws.all()
		w := all[w.rng.IntN(len(all))]
		for range w.rng.IntN(30) {
			ws.operation(w)
		}
		switch w.rng.IntN(14) {
		case 0, 1, 2:
			ws.forkOf(w)
		case 3, 4, 5:
			ws.move(w)
		case 6, 7:
			w.left()
			w.releaseOwn()
			w.begin(fmt.Sprint(ws.n))
			ws.note(w, "task %d", w.e.Active(w.a.agent))
		case 8:
			if w.rng.IntN(3) == 0 {
				ws.discard(w)
			}
		case 9:
			ws.restart(w.rng.IntN(2) == 0)
		case 10, 11:
			ws.die(w)
		case 13:
			ws.merge(w)
		case 12:
			w.must(w.e.Archive())
			w.must(second(w.e.Sweep()))
		}
		if w.rng.IntN(3) == 0 {
			ws.check("now and then")
		}
	}
	ws.check("at the end")
	for _, w := range slices.Backward(ws.all()) {
		ws.discard(w)
	}
	ws.check("alone again")
	if left := ws.root.e.epochs.from(0); len(left) > 0 {
		t.Errorf("epochs %v are left", left)
	}
	ws.root.verify()
}

// TestForkModel holds a workspace, its forks and theirs against naive filesystems. TTFS_NIGHTLY=1 does many more operations.
func TestForkModel(t *testing.T) {
	seeds, n := uint64(8), 1200
	if underRace {
		seeds, n = 2, 600
	}
	if os.Getenv("TTFS_NIGHTLY") != "" {
		seeds, n = 200, 4000
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			runWorlds(t, seed, n)
		})
	}
}

// tailOf is how many of the last operations a failure tells.
func tailOf() int {
	if os.Getenv("TTFS_LONG") != "" {
		return 1 << 20
	}
	return 60
}

// merge merges a fork and takes that back: what the parent was comes back exactly, and the fork stays as it is.
func (ws *worlds) merge(w *world) {
	if w.up == nil {
		return
	}
	for _, o := range ws.all() {
		o.left()
		o.releaseOwn()
	}
	up := w.up
	up.begin("merge")
	was := up.e.Active(up.a.agent)
	up.tasks[was] = up.a.fs.clone()
	force := []Prefer{PreferNone, PreferMine, PreferTheirs}[w.rng.IntN(3)]
	res, err := up.e.Merge(w.fork, MergeOptions{Force: force})
	ws.note(w, "merge %q: %d paths, %v", force, res.Changed, err)
	if err != nil && !errors.Is(err, Conflict) {
		ws.fatal(w, "merge: %v", err)
	}
	if err != nil && force != PreferNone {
		ws.fatal(w, "a forced merge: %v", err)
	}
	if err == nil && res.To != res.From {
		if _, err := up.e.Switch(up.a.agent, was, MoveOptions{}); err != nil {
			ws.fatal(w, "undo of a merge: %v", err)
		}
	}
	up.names = map[dentry]NodeID{}
	ws.check("after a merge was taken back")
}
