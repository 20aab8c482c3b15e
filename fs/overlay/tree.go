package overlay

import (
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// Tree is the workspace as it was, read-only. Its methods take paths from its root, "" for the root itself.
type Tree struct {
	e    *Engine
	plan func() (tasktree.Plan, error)
	only map[string]bool // nil: everything; else these paths and what leads to them
}

// At is the workspace as it was at the end of a task, for the task's own agent; 0: before the caller's first task.
func (e *Engine) At(a tasktree.Agent, id tasktree.TaskID) (*Tree, error) {
	if id != 0 {
		k, has := e.Task(id)
		if !has {
			return nil, fail("at", "", NoTask, nil)
		}
		a = k.Agent
	}
	return &Tree{e: e, plan: func() (tasktree.Plan, error) {
		e.tasks.mu.Lock()
		defer e.tasks.mu.Unlock()
		p, err := e.tasks.tree.PlanView(a, id)
		return p, treeError("at", err)
	}}, nil
}

// Before is what a task changed, as it was before it.
func (e *Engine) Before(id tasktree.TaskID) (*Tree, error) {
	k, has := e.Task(id)
	if !has {
		return nil, fail("before", "", NoTask, nil)
	}
	files, err := e.Files(id)
	if err != nil {
		return nil, err
	}
	t, err := e.At(k.Agent, k.Parent)
	if err != nil {
		return nil, err
	}
	t.only = map[string]bool{"": true}
	for _, f := range files {
		for p := f.Path; p != ""; {
			t.only[p] = true
			i := strings.LastIndexByte(p, '/')
			if i < 0 {
				break
			}
			p = p[:i]
		}
	}
	return t, nil
}

// with gives f the view and what is at a path.
func (t *Tree) with(path string, f func(v *view, r *ref) error) error {
	if t.only != nil && !t.only[path] {
		return unix.ENOENT
	}
	return t.e.reading(func(ft *foot) error {
		p, err := t.plan()
		if err != nil {
			return err
		}
		v, err := t.e.cachedView(ft, p)
		if err != nil {
			return err
		}
		r, err := v.resolve(path)
		if err != nil {
			return err
		}
		if err := ft.only(t.e, &p, r); err != nil {
			return err
		}
		return f(v, r)
	})
}

// cachedView is the view of a plan, kept as long as nothing is recorded.
func (e *Engine) cachedView(ft *foot, p tasktree.Plan) (*view, error) {
	now := e.count.records.Load() + e.count.moves.Load() + e.count.tasks.Load()
	e.views.mu.Lock()
	defer e.views.mu.Unlock()
	if c := &e.views; c.view != nil && c.at == now && c.plan.To == p.To && c.plan.From == p.From && c.plan.Agent == p.Agent && slices.Equal(c.plan.Steps, p.Steps) {
		return c.view.by(ft), nil
	}
	v, err := e.newView(nil, p)
	if err != nil {
		return nil, err
	}
	e.views.view, e.views.plan, e.views.at = v, p, now
	return v.by(ft), nil
}

// Stat is the state of what is at a path. Errors: ENOENT.
func (t *Tree) Stat(path string) (st Stat, err error) {
	err = t.with(path, func(v *view, r *ref) (err error) { st, err = v.stat(r); return err })
	return st, err
}

// List is the entries of a directory with their types, in no order: who lists need not look each up. Errors: ENOENT, ENOTDIR.
func (t *Tree) List(path string) (entries []Dirent, err error) {
	err = t.with(path, func(v *view, r *ref) error {
		entries = nil
		if r.kind != unix.S_IFDIR {
			return unix.ENOTDIR
		}
		all, err := v.dirents(r)
		for name, ent := range all {
			if t.only == nil || t.only[joinPath(path, name)] {
				entries = append(entries, ent)
			}
		}
		return err
	})
	return entries, err
}

// Readlink is the target of the symbolic link at a path.
func (t *Tree) Readlink(path string) (target []byte, err error) {
	err = t.with(path, func(v *view, r *ref) (err error) { target, err = v.readlink(r); return err })
	return target, err
}

// ReadAt reads the file at a path.
func (t *Tree) ReadAt(path string, b []byte, off int64) (n int, err error) {
	err = t.with(path, func(v *view, r *ref) error {
		rd, _, done, err := v.reader(r)
		if err != nil {
			return err
		}
		defer done()
		n, err = rd.ReadAt(b, off)
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return err
	})
	return n, err
}
