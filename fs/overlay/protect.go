package overlay

import (
	"strings"

	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// An agent's move that would change a path of the classes System or Platform is refused unless it is forced, also where the
// agent's own tasks are the only ones that changed it: how a machine is set up is not to come and go with the turns of a
// conversation. The user moves them: they are theirs. What a task made below a directory that it made itself has no record of
// its own, and goes and comes with that directory.

// protectPlan adds to a report what of a plan is protected.
func (e *Engine) protectPlan(c *contested, p *tasktree.Plan) error {
	for _, s := range p.Steps {
		im, err := e.readImages(s.Task)
		if err != nil {
			return err
		}
		e.protect(c, s.Task, im)
	}
	c.sort()
	return nil
}

// protect adds to a report what of a task's images is protected and not in it yet.
func (e *Engine) protect(c *contested, id tasktree.TaskID, im *images) {
	told := map[thing]bool{}
	for _, t := range c.things[id] {
		told[t] = true
	}
	w := &placer{e: e, dirs: map[OID]placed{}}
	k, _ := e.Task(id)
	for _, t := range im.things() {
		if told[t] || t.obj != 0 && im.contents[t.obj] == nil && im.metas[t.obj].mode&unix.S_IFMT == unix.S_IFDIR && !e.hasShare(t, id) {
			continue // a directory in which something changed is not what changed
		}
		path, class := w.class(t, im)
		if class != System && class != Platform || gitIndex(path) {
			continue
		}
		c.things[id] = append(c.things[id], t)
		c.report = append(c.report, ConflictEntry{Path: path, Class: class, Agent: k.Agent, Task: id, Title: k.Title, Started: k.Started, Lost: im.loses(t)})
	}
}

func (e *Engine) hasShare(t thing, id tasktree.TaskID) bool {
	_, found, err := e.j.Get(t.key(id))
	return err == nil && found
}

// placer finds paths and their classes, each directory once.
type placer struct {
	e    *Engine
	dirs map[OID]placed
}

// placed is a directory: its path, and the verdict on it.
type placed struct {
	parts   []string
	verdict verdict
	known   bool
}

func (w *placer) dir(id OID, depth int) placed {
	if d, has := w.dirs[id]; has || id == rootOID {
		d.known = d.known || id == rootOID
		return d
	}
	var d placed
	if o, found, err := w.e.getObject(id); err == nil && found && o.at.dir != 0 && depth < maxDepth {
		if up := w.dir(o.at.dir, depth+1); up.known {
			d = w.join(up, o.at.name, true)
		}
	}
	w.dirs[id] = d
	return d
}

func (w *placer) join(up placed, name string, dir bool) placed {
	parts := append(up.parts[:len(up.parts):len(up.parts)], name)
	return placed{parts, w.e.classes.below(up.verdict, parts, dir), true}
}

// class is the path of a thing and its class. An entry counts as a directory if one is there or would be.
func (w *placer) class(t thing, im *images) (string, Class) {
	at, dir := t.at, false
	if t.obj != 0 {
		o, found, err := w.e.getObject(t.obj)
		if err != nil || !found {
			return "", User
		}
		at, dir = o.at, o.kind == unix.S_IFDIR
	}
	up := w.dir(at.dir, 0)
	if !up.known {
		return at.name, User // it is nowhere: a move of it shows nobody anything
	}
	is := w.join(up, at.name, dir)
	class := is.verdict.class(w.e.classes)
	if t.obj == 0 {
		if asDir := w.join(up, at.name, true).verdict.class(w.e.classes); asDir != class && w.isDir(t.at, im) {
			class = asDir
		}
	}
	return strings.Join(is.parts, "/"), class
}

// isDir says whether a directory is at an entry, or would come there.
func (w *placer) isDir(at spot, im *images) bool {
	if o, found, err := w.e.getObject(im.entries[at]); err == nil && found && o.kind == unix.S_IFDIR {
		return true
	}
	fd, done, err := w.e.openDir(at.dir, 0)
	if err != nil {
		return false
	}
	defer done()
	var st Stat
	return statAt(fd, at.name, &st) == nil && kindOf(&st) == unix.S_IFDIR
}
