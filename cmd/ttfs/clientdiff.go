package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/aymanbagabas/go-udiff"

	"github.com/ttfs/ttfs/fs/control"
)

func (m *mounted) diffTask(w io.Writer, id uint64, paths []string) error {
	b, err := m.read(fmt.Sprintf("tasks/%d/diff", id))
	if errors.Is(err, os.ErrNotExist) {
		return m.gone(id)
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, filterDiff(string(b), paths))
	return err
}

// diffRange compares the two trees under `.tt/at`, looking only at what the tasks between them changed.
func (m *mounted) diffRange(w io.Writer, from, to uint64, paths []string) error {
	id := max(from, to)
	if id == 0 {
		return nil
	}
	t, err := m.task(id)
	if err != nil {
		return err
	}
	tasks, err := m.tasks(t.Agent)
	if err != nil {
		return err
	}
	back, forth := wayBetween(from, to, tasks)
	var steps [][]change
	for _, id := range append(back, forth...) {
		files, err := m.files(id)
		if err != nil {
			return err
		}
		for i := range files {
			files[i].Op = "modified" // only the path counts
		}
		steps = append(steps, files)
	}
	for _, c := range net(steps) {
		if !below(c.Path, paths) {
			continue
		}
		if err := m.diffPath(w, from, to, c.Path); err != nil {
			return err
		}
	}
	return nil
}

// maxDiffBytes is the size of a file above which a diff only names it.
const maxDiffBytes = 8 << 20

// diffSide is one side of a diff.
type diffSide struct {
	label, text string
	mode        uint32 // st_mode
	there       bool
	binary      bool
}

func (m *mounted) side(id uint64, prefix, path string) (diffSide, error) {
	full := m.path(filepath.Join("at", itoa(id), path))
	st, err := os.Lstat(full)
	if errors.Is(err, os.ErrNotExist) {
		return diffSide{label: "/dev/null"}, nil
	}
	if err != nil {
		return diffSide{}, failed("diff", err, "`ttfs diff N` shows another agent's tasks one by one")
	}
	s := diffSide{label: control.Quote(prefix + "/" + path), there: true}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		s.mode = sys.Mode
	}
	switch {
	case st.Mode()&os.ModeSymlink != 0:
		target, err := os.Readlink(full)
		if err != nil {
			return s, failed("diff", err, "")
		}
		s.text = target + "\n"
	case st.Mode().IsRegular() && st.Size() > maxDiffBytes:
		s.binary = true
	case st.Mode().IsRegular():
		b, err := os.ReadFile(full)
		if err != nil {
			return s, failed("diff", err, "")
		}
		s.text = string(b)
		s.binary = strings.IndexByte(s.text[:min(len(s.text), 8000)], 0) >= 0
	}
	return s, nil
}

func (m *mounted) diffPath(w io.Writer, from, to uint64, path string) error {
	a, err := m.side(from, "a", path)
	if err != nil {
		return err
	}
	b, err := m.side(to, "b", path)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, diffSides(path, a, b))
	return err
}

// diffSides is the part of a diff that is about one path. Shape: that of `.tt/tasks/N/diff`.
func diffSides(path string, a, b diffSide) string {
	text := ""
	isDir := a.mode&syscall.S_IFMT == syscall.S_IFDIR || b.mode&syscall.S_IFMT == syscall.S_IFDIR
	if a.there && b.there && a.mode != b.mode {
		if (a.mode^b.mode)&syscall.S_IFMT == 0 && isDir {
			return fmt.Sprintf("directory %s: mode %04o -> %04o\n", control.Quote(path), a.mode&0o7777, b.mode&0o7777)
		}
		text = fmt.Sprintf("old mode %06o %s\nnew mode %06o %s\n", a.mode, control.Quote(path), b.mode, control.Quote(path))
	}
	switch {
	case a.binary != b.binary, a.binary && a.text != b.text, a.binary && a.text == "":
		return text + fmt.Sprintf("Binary files %s and %s differ\n", a.label, b.label)
	case a.text != b.text:
		return text + udiff.Unified(a.label, b.label, a.text, b.text)
	case a.there != b.there && !isDir:
		return text + fmt.Sprintf("--- %s\n+++ %s\n", a.label, b.label) // an empty file came or went
	}
	return text
}
