package overlay

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// ForkChanges are the paths that a merge of a fork would bring, sorted, where its parent has changed nothing of them: what
// DiffFork shows, told in a word each. Files that were made or removed are not read. Errors: NoFork, Damaged, IO.
func (e *Engine) ForkChanges(name ForkName) ([]FileChange, error) {
	var all, some []FileChange
	d := &forkDiff{}
	err := e.overFork("list", name, d, func(path string, a *was, b *ref) error {
		op, err := d.op(a, b)
		if err == nil && op != "" {
			some = append(some, FileChange{pastTense[op], path})
		}
		return err
	}, func() { some = some[:0] }, func() error { all = append(all, some...); return nil })
	slices.SortFunc(all, func(a, b FileChange) int { return strings.Compare(a.Path, b.Path) })
	return all, err
}

// op is what became of something of the base; "": nothing.
func (d *forkDiff) op(a *was, b *ref) (string, error) {
	switch {
	case a == nil && b == nil:
		return "", nil
	case a == nil:
		return opCreate, nil
	case b == nil:
		return opDelete, nil
	case a.kind != b.kind:
		return opModify, nil
	case b.low != nil && a.merged == nil:
		return "", nil // the fork has nothing of its own there
	}
	if same, err := d.sameMeta(a, b); err != nil || !same {
		return opModify, err
	}
	if same, err := d.sameContent(a, b); err != nil || !same {
		return opModify, err
	}
	return "", nil
}

// sameMeta says whether nothing but times is another.
func (d *forkDiff) sameMeta(a *was, b *ref) (bool, error) {
	is, err := d.live.meta(b)
	if err != nil {
		return false, err
	}
	var base meta
	switch {
	case a.merged != nil:
		base = a.merged.meta
	case a.low != nil:
		if base, err = d.f.lower.meta(a.low); err != nil {
			return false, err
		}
	default:
		return true, nil
	}
	base.atime, base.mtime = is.atime, is.mtime
	return base.equal(&is), nil
}

func (d *forkDiff) sameContent(a *was, b *ref) (bool, error) {
	switch a.kind {
	case unix.S_IFLNK:
		x, err := d.sideOf("", a)
		if err != nil {
			return false, err
		}
		y, err := d.live.readlink(b)
		return x.text == string(y)+"\n", err
	case unix.S_IFREG:
		if a.merged != nil {
			sum, err := sumOf(d.live, b)
			return sum == a.merged.sum, err
		}
		return d.sameBytes(a, b)
	}
	return true, nil
}
