package overlay

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// maxDiffBytes is the size of a file above which a diff only names it.
const maxDiffBytes = 8 << 20

// DiffTask writes what a task changed as a unified diff. Errors: NoTask, Damaged.
func (e *Engine) DiffTask(w io.Writer, id tasktree.TaskID, paths []string) error {
	k, has := e.Task(id)
	if !has {
		return fail("diff", "", NoTask, nil)
	}
	return e.diff(w, k.Agent, k.Parent, id, paths)
}

// Diff writes what is different at the end of task to from the end of task from, as a unified diff with 3 lines of
// context; binary files are only named. Only paths at or below one of paths, if there are any. Both tasks belong to one
// agent; 0 is before its first. Errors: NoTask, NotYours, Damaged.
func (e *Engine) Diff(w io.Writer, from, to tasktree.TaskID, paths []string) error {
	var a tasktree.Agent
	for _, id := range []tasktree.TaskID{from, to} {
		if k, has := e.Task(id); has {
			a = k.Agent
		} else if id != 0 {
			return fail("diff", fmt.Sprintf("task %d", id), NoTask, nil)
		}
	}
	return e.diff(w, a, from, to, paths)
}

// diff reads and compares file by file: each as it was at one moment.
func (e *Engine) diff(w io.Writer, a tasktree.Agent, from, to tasktree.TaskID, paths []string) error {
	var all []Change
	var va, vb *view
	var swaps uint64
	look := func(ft *foot) (err error) {
		var keys *images
		swaps = e.swaps.Load()
		if va, vb, keys, err = e.between(ft, a, from, to); err == nil && all == nil {
			all, err = e.compare(va, vb, keys)
		}
		return err
	}
	if err := e.reading(func(ft *foot) error { all = nil; return look(ft) }); err != nil {
		return err
	}
	for _, c := range all {
		if !below(c.Path, paths) {
			continue
		}
		var text bytes.Buffer
		err := e.reading(func(ft *foot) error {
			text.Reset()
			if e.movedSince(swaps) { // what a move changed of the past is looked up anew
				if err := look(ft); err != nil {
					return err
				}
			}
			return diffOne(&text, va.by(ft), vb.by(ft), c)
		})
		if err != nil {
			return err
		}
		if _, err := text.WriteTo(w); err != nil {
			return err
		}
	}
	return nil
}

func below(path string, paths []string) bool {
	return len(paths) == 0 || slices.ContainsFunc(paths, func(p string) bool {
		p = strings.Trim(strings.TrimPrefix(p, "./"), "/")
		return p == "" || p == "." || path == p || strings.HasPrefix(path, p+"/")
	})
}

// side is one side of a diff.
type side struct {
	label  string
	mode   uint32
	text   string
	binary bool
}

func readSide(v *view, prefix, path string) (side, error) {
	r, err := absentNil(v.resolve(path))
	if err != nil {
		return side{}, err
	}
	if r == nil {
		return side{label: "/dev/null"}, nil
	}
	m, err := v.meta(r)
	if err != nil {
		return side{}, err
	}
	s := side{label: tasktree.Quote(prefix + "/" + path), mode: m.mode}
	switch r.kind {
	case unix.S_IFREG:
		rd, size, done, err := v.reader(r)
		if err != nil {
			return side{}, err
		}
		defer done()
		return s, s.read(rd, size)
	case unix.S_IFLNK:
		t, err := v.readlink(r)
		if err != nil {
			return side{}, err
		}
		s.text = string(t) + "\n"
	}
	return s, nil
}

// read reads a file.
func (s *side) read(rd io.ReaderAt, size int64) error {
	if size > maxDiffBytes {
		s.binary = true
		return nil
	}
	b := make([]byte, size)
	if _, err := rd.ReadAt(b, 0); err != nil && err != io.EOF {
		return err
	}
	s.text = string(b)
	s.binary = bytes.IndexByte(b[:min(len(b), 8000)], 0) >= 0
	return nil
}

func diffOne(w io.Writer, va, vb *view, c Change) error {
	a, err := readSide(va, "a", c.Path)
	if err != nil {
		return err
	}
	b, err := readSide(vb, "b", c.Path)
	if err != nil {
		return err
	}
	return diffSides(w, c.Path, a, b)
}

func diffSides(w io.Writer, path string, a, b side) (err error) {
	if a.mode&unix.S_IFMT == unix.S_IFDIR || b.mode&unix.S_IFMT == unix.S_IFDIR {
		if a.mode&unix.S_IFMT == b.mode&unix.S_IFMT {
			_, err = fmt.Fprintf(w, "directory %s: mode %04o -> %04o\n", tasktree.Quote(path), a.mode&0o7777, b.mode&0o7777)
		}
		if err != nil || a.text == "" && b.text == "" {
			return err
		}
	}
	if a.mode != 0 && b.mode != 0 && a.mode != b.mode {
		if _, err := fmt.Fprintf(w, "old mode %06o %s\nnew mode %06o %s\n", a.mode, tasktree.Quote(path), b.mode, tasktree.Quote(path)); err != nil {
			return err
		}
	}
	if a.binary || b.binary {
		_, err := fmt.Fprintf(w, "Binary files %s and %s differ\n", a.label, b.label)
		return err
	}
	text := udiff.Unified(a.label, b.label, a.text, b.text)
	if text == "" && (a.mode == 0 || b.mode == 0) {
		text = fmt.Sprintf("--- %s\n+++ %s\n", a.label, b.label) // an empty file came or went
	}
	_, err = io.WriteString(w, text)
	return err
}
