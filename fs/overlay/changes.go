package overlay

import (
	"bytes"
	"io"
	"sort"

	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// Change is one path that a move would change. Op: create, modify, delete.
type Change struct{ Op, Path string }

// FileChange is one path that a task changed. Op: created, modified, deleted.
type FileChange struct{ Op, Path string }

// Ops of changes.
const (
	opCreate = "create"
	opModify = "modify"
	opDelete = "delete"
)

var pastTense = map[string]string{opCreate: "created", opModify: "modified", opDelete: "deleted"}

// comparer finds what is different between two views, looking only where images say that something may be.
type comparer struct {
	a, b *view
	out  map[string]string // path -> op
}

// compare is the paths that are different in b, sorted.
func (e *Engine) compare(a, b *view, keys *images) ([]Change, error) {
	c := &comparer{a: a, b: b, out: map[string]string{}}
	for _, at := range sortedSpots(keys.entries) {
		if err := c.entry(at); err != nil {
			return nil, err
		}
	}
	ids := map[OID]bool{}
	for id := range keys.contents {
		ids[id] = true
	}
	for id := range keys.metas {
		ids[id] = true
	}
	for _, id := range sortedOIDs(ids) {
		if err := c.object(id); err != nil {
			return nil, err
		}
	}
	out := make([]Change, 0, len(c.out))
	for path, op := range c.out {
		out = append(out, Change{op, path})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Path < out[j].Path })
	return out, nil
}

func at(v *view, s spot) (*ref, string, error) {
	dir, inTree := v.pathOf(s.dir, 0)
	if !inTree {
		return nil, "", nil
	}
	o, _, err := v.e.getObject(s.dir)
	if err != nil {
		return nil, "", err
	}
	r, err := v.lookup(&ref{id: s.dir, kind: o.kind}, s.name)
	if err == unix.ENOENT {
		return nil, joinPath(dir, s.name), nil
	}
	return r, joinPath(dir, s.name), err
}

func (c *comparer) entry(s spot) error {
	ra, pa, err := at(c.a, s)
	if err != nil {
		return err
	}
	rb, pb, err := at(c.b, s)
	if err != nil {
		return err
	}
	if ra != nil && rb != nil && pa == pb {
		if ra.id == rb.id && ra.id != 0 {
			return nil
		}
		if ra.kind != unix.S_IFDIR && rb.kind != unix.S_IFDIR {
			same, err := c.same(ra, rb)
			if err == nil && !same {
				c.out[pa] = opModify
			}
			return err
		}
	}
	if ra != nil {
		if err := c.walk(c.a, ra, pa, opDelete); err != nil {
			return err
		}
	}
	if rb != nil {
		return c.walk(c.b, rb, pb, opCreate)
	}
	return nil
}

// walk tells everything from a path down. What is deleted in one view and created in the other is modified, unless it
// is the same.
func (c *comparer) walk(v *view, r *ref, path, op string) error {
	if trimStore(path) {
		return nil
	}
	if was, has := c.out[path]; has && was != op {
		delete(c.out, path)
		ra, errA := c.a.resolve(path)
		rb, errB := c.b.resolve(path)
		if errA == nil && errB == nil {
			same, err := c.same(ra, rb)
			if err != nil {
				return err
			}
			if !same {
				c.out[path] = opModify
			}
		}
	} else {
		c.out[path] = op
	}
	if r.kind != unix.S_IFDIR {
		return nil
	}
	names, err := v.list(r)
	if err != nil {
		return err
	}
	for _, name := range names {
		sub, err := v.lookup(r, name)
		if err != nil {
			return err
		}
		if err := c.walk(v, sub, joinPath(path, name), op); err != nil {
			return err
		}
	}
	return nil
}

func (c *comparer) object(id OID) error {
	path, inTree := c.b.pathOf(id, 0)
	if !inTree || path == "" {
		return nil
	}
	if _, told := c.out[path]; told {
		return nil
	}
	was, existed := c.a.pathOf(id, 0)
	if !existed || was != path {
		return nil // its entries tell
	}
	o, found, err := c.a.e.getObject(id)
	if err != nil || !found {
		return err
	}
	r := &ref{id: id, kind: o.kind}
	same, err := c.same(r, r)
	if err == nil && !same {
		c.out[path] = opModify
	}
	return err
}

// same compares what is at a in the one view with what is at b in the other: content, and metadata but for times.
func (c *comparer) same(a, b *ref) (bool, error) {
	if a.kind != b.kind {
		return false, nil
	}
	ma, err := c.a.meta(a)
	if err != nil {
		return false, err
	}
	mb, err := c.b.meta(b)
	if err != nil {
		return false, err
	}
	ma.mtime, ma.atime = mb.mtime, mb.atime
	if !ma.equal(&mb) {
		return false, nil
	}
	switch a.kind {
	case unix.S_IFREG:
		return c.sameBytes(a, b)
	case unix.S_IFLNK:
		ta, err := c.a.readlink(a)
		if err != nil {
			return false, err
		}
		tb, err := c.b.readlink(b)
		return bytes.Equal(ta, tb), err
	}
	return true, nil
}

func (c *comparer) sameBytes(a, b *ref) (bool, error) {
	ra, na, doneA, err := c.a.reader(a)
	if err != nil {
		return false, err
	}
	defer doneA()
	rb, nb, doneB, err := c.b.reader(b)
	if err != nil {
		return false, err
	}
	defer doneB()
	if na != nb {
		return false, nil
	}
	ba, bb := make([]byte, 64<<10), make([]byte, 64<<10)
	for off := int64(0); off < na; off += int64(len(ba)) {
		n, err := ra.ReadAt(ba, off)
		if err != nil && err != io.EOF {
			return false, err
		}
		m, err := rb.ReadAt(bb, off)
		if err != nil && err != io.EOF {
			return false, err
		}
		if n != m || !bytes.Equal(ba[:n], bb[:m]) {
			return false, nil
		}
	}
	return true, nil
}

// between is the views at two tasks of an agent, with the images of all that may differ between them.
func (e *Engine) between(a tasktree.Agent, from, to tasktree.TaskID) (va, vb *view, keys *images, err error) {
	if va, err = e.viewAt(a, from); err != nil {
		return nil, nil, nil, err
	}
	if vb, err = e.viewAt(a, to); err != nil {
		return nil, nil, nil, err
	}
	keys = newImages()
	e.tasks.mu.Lock()
	back, forward := e.tasks.tree.Chain(from), e.tasks.tree.Chain(to)
	e.tasks.mu.Unlock()
	n := 0
	for n < len(back) && n < len(forward) && back[n] == forward[n] {
		n++
	}
	for _, id := range append(back[n:], forward[n:]...) {
		im, err := e.readImages(id)
		if err != nil {
			return nil, nil, nil, err
		}
		keys.merge(im)
	}
	return va, vb, keys, nil
}

func (im *images) merge(o *images) {
	for k, v := range o.entries {
		im.entries[k] = v
	}
	for k, v := range o.metas {
		im.metas[k] = v
	}
	for k, v := range o.contents {
		im.contents[k] = v
	}
}

// Files is what a task changed, sorted by path. Errors: NoTask, Damaged.
func (e *Engine) Files(id tasktree.TaskID) ([]FileChange, error) {
	k, has := e.Task(id)
	if !has {
		return nil, fail("files", "", NoTask, nil)
	}
	if err := e.enterOp(); err != nil {
		return nil, err
	}
	defer e.leaveOp()
	va, vb, keys, err := e.between(k.Agent, k.Parent, id)
	if err != nil {
		return nil, err
	}
	all, err := e.compare(va, vb, keys)
	if err != nil {
		return nil, err
	}
	out := make([]FileChange, len(all))
	for i, c := range all {
		out[i] = FileChange{pastTense[c.Op], c.Path}
	}
	return out, nil
}

// Preview is what Switch would change, sorted by path; nothing changes. Errors: NoTask, NotYours.
func (e *Engine) Preview(a tasktree.Agent, id tasktree.TaskID) ([]Change, error) {
	if err := e.enterOp(); err != nil {
		return nil, err
	}
	defer e.leaveOp()
	e.tasks.mu.Lock()
	p, err := e.tasks.tree.PlanSwitch(a, id)
	e.tasks.mu.Unlock()
	if err != nil {
		return nil, treeError("preview", err)
	}
	return e.preview(p)
}

// preview compares the live tree with that after a plan. Preconditions: gate is held.
func (e *Engine) preview(p tasktree.Plan) ([]Change, error) {
	live, err := e.newView(tasktree.Plan{})
	if err != nil {
		return nil, err
	}
	then, err := e.newView(p)
	if err != nil {
		return nil, err
	}
	keys := newImages()
	for _, s := range p.Steps {
		im, err := e.readImages(s.Task)
		if err != nil {
			return nil, err
		}
		keys.merge(im)
	}
	return e.compare(live, then, keys)
}
