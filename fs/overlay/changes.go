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

// comparer finds what is different between two views, looking only where images say that something may be: at the entries,
// with all that is below them, and at the objects whose bytes or metadata are kept.
type comparer struct {
	a, b *view
	seen map[string]bool
	out  map[string]string // path -> op
}

// compare is the paths that are different in b, sorted.
func (e *Engine) compare(a, b *view, keys *images) ([]Change, error) {
	c := &comparer{a: a, b: b, seen: map[string]bool{}, out: map[string]string{}}
	for _, at := range sortedSpots(keys.entries) {
		for _, v := range []*view{a, b} {
			if dir, inTree := v.pathOf(at.dir, 0); inTree {
				if err := c.path(joinPath(dir, at.name), true); err != nil {
					return nil, err
				}
			}
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
		for _, v := range []*view{a, b} {
			for _, path := range v.pathsOf(id) {
				if err := c.path(path, false); err != nil {
					return nil, err
				}
			}
		}
	}
	out := make([]Change, 0, len(c.out))
	for path, op := range c.out {
		out = append(out, Change{op, path})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Path < out[j].Path })
	return out, nil
}

// path compares what is at a path; with deep also what is below it, unless it is one and the same object.
func (c *comparer) path(path string, deep bool) error {
	if path == "" && deep || c.seen[path] {
		return nil
	}
	ra, err := absentNil(c.a.resolve(path))
	if err != nil {
		return err
	}
	rb, err := absentNil(c.b.resolve(path))
	if err != nil {
		return err
	}
	if deep {
		return c.below(path, ra, rb)
	}
	return c.judge(path, ra, rb)
}

// absentNil makes of "there is nothing" a nil.
func absentNil(r *ref, err error) (*ref, error) {
	if err == unix.ENOENT || err == unix.ENOTDIR {
		return nil, nil
	}
	return r, err
}

func (c *comparer) below(path string, ra, rb *ref) error {
	if c.seen[path] || trimStore(path) || ra != nil && rb != nil && ra.id == rb.id && ra.id != 0 {
		return nil // what changed of one object is told by its own images
	}
	c.seen[path] = true
	if err := c.judge(path, ra, rb); err != nil {
		return err
	}
	subs := map[string][2]*ref{}
	for i, v := range []*view{c.a, c.b} {
		dir := [2]*ref{ra, rb}[i]
		if dir == nil || dir.kind != unix.S_IFDIR {
			continue
		}
		names, err := v.list(dir)
		if err != nil {
			return err
		}
		for _, name := range names {
			sub, err := v.lookup(dir, name)
			if err != nil {
				return err
			}
			pair := subs[name]
			pair[i] = sub
			subs[name] = pair
		}
	}
	for name, pair := range subs {
		if err := c.below(joinPath(path, name), pair[0], pair[1]); err != nil {
			return err
		}
	}
	return nil
}

func (c *comparer) judge(path string, ra, rb *ref) error {
	switch {
	case ra == nil && rb == nil:
	case ra == nil:
		c.out[path] = opCreate
	case rb == nil:
		c.out[path] = opDelete
	default:
		same, err := c.same(ra, rb)
		if err == nil && !same {
			c.out[path] = opModify
		}
		return err
	}
	return nil
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
	return sameReaders(ra, rb, na)
}

// sameReaders compares the first n bytes of two files.
func sameReaders(ra, rb io.ReaderAt, na int64) (bool, error) {
	unit := min(na, 64<<10)
	ba, bb := make([]byte, unit), make([]byte, unit)
	for off := int64(0); off < na; off += unit {
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
func (e *Engine) between(ft *foot, a tasktree.Agent, from, to tasktree.TaskID) (va, vb *view, keys *images, err error) {
	if va, err = e.viewAt(ft, a, from); err != nil {
		return nil, nil, nil, err
	}
	if vb, err = e.viewAt(ft, a, to); err != nil {
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
	var all []Change
	err := e.reading(func(ft *foot) error {
		va, vb, keys, err := e.between(ft, k.Agent, k.Parent, id)
		if err != nil {
			return err
		}
		all, err = e.compare(va, vb, keys)
		return err
	})
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
	var all []Change
	err := e.reading(func(ft *foot) error {
		e.tasks.mu.Lock()
		p, err := e.tasks.tree.PlanSwitch(a, id)
		e.tasks.mu.Unlock()
		if err != nil {
			return treeError("preview", err)
		}
		all, err = e.preview(ft, p)
		return err
	})
	return all, err
}

// preview compares the live tree with that after a plan.
func (e *Engine) preview(ft *foot, p tasktree.Plan) ([]Change, error) {
	live, err := e.newView(ft, tasktree.Plan{})
	if err != nil {
		return nil, err
	}
	then, err := e.newView(ft, p)
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
