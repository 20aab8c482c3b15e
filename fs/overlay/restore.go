package overlay

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// Restore makes paths as they were at the end of a task, as a new task. A path that was not there then goes. It is refused when
// somebody else has changed what it would change after the tasks that it goes back over; Force does it all the same, Skip
// leaves those paths as they are. The agent's own later work is not in the way: to take a path back over it is what it asks for. Nor
// are the later tasks of the agent whose task is named, where it is one that the agent may move.
//
// Errors: NoTask, Invalid for a path that leads outside, NoPath for one that was there neither then nor is now; Conflict.
func (e *Engine) Restore(a tasktree.Agent, id tasktree.TaskID, paths []string, o MoveOptions) (MoveResult, error) {
	owner := a
	if k, has := e.Task(id); has {
		owner = k.Agent
	} else if id != 0 {
		return MoveResult{}, fail("restore", fmt.Sprintf("task %d", id), NoTask, nil)
	}
	title := fmt.Sprintf("restore %d", id)
	for _, p := range paths {
		title += " " + onOneLine(p)
	}
	var c *contested
	res, err := e.remake("restore", a, title, o, func(*foot) (*images, error) {
		back, err := e.planView(owner, id)
		if err != nil {
			return nil, err
		}
		then, err := e.newView(nil, back)
		if err != nil {
			return nil, err
		}
		now, err := e.newView(nil, tasktree.Plan{})
		if err != nil {
			return nil, err
		}
		im := newImages()
		for _, p := range paths {
			before := len(im.things())
			err := e.restorePath(im, then, now, strings.Trim(p, "/"))
			if (err == nil || errors.Is(err, NoPath)) && len(im.things()) == before && !o.Skip {
				if refused := e.overtaken(a, &back, now, strings.Trim(p, "/")); refused != nil {
					err = refused
				}
			}
			if err != nil {
				e.dropCopies(im)
				return nil, err
			}
		}
		if c, err = e.contestRestore(a, &back, im); err == nil && len(c.report) > 0 && !o.Force && !o.Skip {
			e.setConflicts(a, c.report)
			e.tellRefused("restore", a, c.report)
			how := fmt.Sprintf(" %d %s", id, onOneLine(strings.Join(paths, " ")))
			err = c.refuse("restore", "restore skip"+how, "restore force"+how)
		}
		if err != nil {
			e.dropCopies(im)
			return nil, err
		}
		if o.Skip {
			e.skipRestored(im, c.things[back.To])
		}
		return im, nil
	})
	if err == nil && len(c.report) > 0 {
		e.audit("restore", &tasktree.Plan{Agent: a, From: res.From, To: res.To}, o, c, res.To)
	}
	return res, err
}

// onOneLine is a path as it stands in a title, which is one line of text.
func onOneLine(path string) string {
	if utf8.ValidString(path) && strings.IndexFunc(path, unicode.IsControl) < 0 {
		return path
	}
	return strconv.Quote(path)
}

func (e *Engine) restorePath(im *images, then, now *view, path string) error {
	if path == "" || trimStore(path) {
		return fail("restore", path, Invalid, errors.New("name a path below the root of the workspace; `switch` moves all of it"))
	}
	for _, part := range strings.Split(path, "/") {
		if part == "" || part == "." || part == ".." {
			return fail("restore", path, Invalid, errors.New("the path must lead straight down from the root of the workspace"))
		}
	}
	dir, name := "", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		dir, name = path[:i], path[i+1:]
	}
	was, err := optional(then.resolve(path))
	if err != nil {
		return err
	}
	is, err := optional(now.resolve(path))
	if err != nil {
		return err
	}
	up, err := optional(now.resolve(dir))
	if err != nil {
		return err
	}
	switch {
	case was == nil && is == nil:
		return fail("restore", path, NoPath, nil)
	case up == nil:
		return fail("restore", path, NoPath, fmt.Errorf("its directory %q is not there now: restore that", dir))
	}
	return e.restoreRef(im, then, now, up, name, was, is)
}

// optional makes of what is not there nothing.
func optional(r *ref, err error) (*ref, error) {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil, nil
	}
	return r, err
}

// restoreRef puts into images that at a name in a directory is to be what was there, with all below it.
func (e *Engine) restoreRef(im *images, then, now *view, up *ref, name string, was, is *ref) error {
	same := was != nil && is != nil && was.id == is.id
	if same && was.id == 0 {
		return nil // nobody touched it since
	}
	if !same {
		if up.id == 0 {
			return fail("restore", name, Gone, nil)
		}
		at := spot{up.id, name}
		im.entries[at] = 0
		if was != nil {
			im.entries[at] = was.id
		}
		if err := keepMeta(im, now, up); err != nil {
			return err
		}
	}
	if was == nil {
		return nil
	}
	if m, has := then.metas[was.id]; has {
		im.metas[was.id] = m
	}
	if was.kind != unix.S_IFDIR {
		return e.restoreContent(im, then, was)
	}
	names, err := then.list(was)
	if err != nil {
		return err
	}
	all := map[string]bool{}
	for _, n := range names {
		all[n] = true
	}
	if same {
		if names, err = now.list(is); err != nil {
			return err
		}
		for _, n := range names {
			all[n] = true
		}
	}
	for n := range all {
		subWas, err := optional(then.lookup(was, n))
		if err != nil {
			return err
		}
		// Below a directory that comes back from hold is what is there on disk.
		subIs, err := optional(now.lookup(&ref{id: was.id, up: was.up, name: was.name, kind: was.kind}, n))
		if err != nil {
			return err
		}
		if err := e.restoreRef(im, then, now, was, n, subWas, subIs); err != nil {
			return err
		}
	}
	return nil
}

// keepMeta says that the metadata of a directory is to stay as it is, whatever comes and goes in it.
func keepMeta(im *images, now *view, dir *ref) error {
	if _, has := im.metas[dir.id]; has {
		return nil
	}
	m, err := now.meta(dir)
	if err == nil {
		im.metas[dir.id] = m
	}
	return err
}

// restoreContent puts a file's bytes as they were into images: those that any task of the view has an image of.
func (e *Engine) restoreContent(im *images, then *view, r *ref) error {
	layers := then.contents[r.id]
	if len(layers) == 0 {
		return nil
	}
	c := &content{size: layers[len(layers)-1].size}
	cov := covered{size: c.size}
	least := c.size
	for _, l := range layers {
		for _, p := range l.pieces {
			cov.add(p.off, min(p.off+p.size, c.size))
		}
		least = min(least, l.size)
	}
	cov.add(least, c.size)
	rd, _, done, err := then.reader(r)
	if err != nil {
		return err
	}
	defer done()
	im.contents[r.id] = c // who meets an error drops its copies
	for s := range cov.all(0) {
		p, err := e.keepBytes(rd, s)
		if err != nil {
			return err
		}
		c.pieces = append(c.pieces, p)
	}
	if _, has := im.metas[r.id]; !has {
		if im.metas[r.id], err = then.meta(r); err != nil {
			return err
		}
	}
	return nil
}

// keepBytes makes a piece of bytes that are read.
func (e *Engine) keepBytes(r io.ReaderAt, s span) (piece, error) {
	p := piece{off: s.from, size: s.to - s.from}
	if p.size <= smallBytes {
		b := make([]byte, p.size)
		if _, err := r.ReadAt(b, s.from); err != nil && err != io.EOF {
			return p, storeError("restore", err)
		}
		return keepData(s.from, b), nil
	}
	id, fd, err := e.newCopy()
	if err != nil {
		return p, err
	}
	defer unix.Close(fd)
	p.kind, p.copy = pieceCopy, id
	var buf []byte
	if err := copyFrom(r, s.from, fd, 0, p.size, &buf); err != nil {
		e.dropCopy(id)
		return p, storeError("restore", err)
	}
	return p, nil
}
