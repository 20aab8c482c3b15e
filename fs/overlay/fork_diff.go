package overlay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// DiffFork writes what a merge of a fork would bring, as a unified diff: what the fork is, against what it was made of, or
// against what the last merge left, whoever in it has made the changes. What the parent has changed since does not show.
// Only what the fork's records name is looked at. Errors: NoFork, Damaged, IO.
func (e *Engine) DiffFork(w io.Writer, name ForkName) error {
	d := &forkDiff{w: new(bytes.Buffer)}
	return e.overFork("diff", name, d, d.write, d.w.Reset, func() error {
		_, err := d.w.WriteTo(w)
		return err
	})
}

// overFork has each path told at which a fork may be another than its base. What is told of what is below one path is told
// again, after forget, when a move came in between; else done follows.
func (e *Engine) overFork(op string, name ForkName, d *forkDiff, tell func(path string, a *was, b *ref) error, forget func(), done func() error) error {
	f, _, open := e.ForkOf(name)
	if !open {
		return fail(op, string(name), NoFork, nil)
	}
	defer f.keepOpen()()
	d.f, d.tell, d.seen = f, tell, map[string]bool{}
	var paths []string
	err := f.reading(func(ft *foot) (err error) {
		d.merged = map[OID]*mergeBase{}
		if d.live, err = f.viewOf(ft, 0); err == nil {
			paths, err = d.paths()
		}
		return err
	})
	if err != nil {
		return storeError(op, err)
	}
	for _, path := range paths {
		d.added = nil
		err := f.reading(func(ft *foot) error {
			forget()
			for _, p := range d.added {
				delete(d.seen, p)
			}
			d.live, d.added = d.live.by(ft), nil
			return d.path(path)
		})
		if err != nil {
			return storeError(op, err)
		}
		if err := done(); err != nil {
			return err
		}
	}
	return nil
}

type forkDiff struct {
	f      *Engine
	w      *bytes.Buffer // what is below one path, as it is at one moment
	tell   func(path string, a *was, b *ref) error
	live   *view
	merged map[OID]*mergeBase // what the last merge left, by the fork's object
	seen   map[string]bool
	added  []string // to seen, in this look
}

// was is something of the base: what the fork was made of, or what the last merge left.
type was struct {
	low    *ref       // in the lower; nil: the fork made it
	fork   OID        // what the fork has of it; 0: nothing of its own
	merged *mergeBase // as it was merged; nil: as it is in the lower
	kind   uint32
}

// paths is where something may be another than in the base.
func (d *forkDiff) paths() ([]string, error) {
	all := map[string]struct{}{}
	err := d.f.j.Scan([]byte{kTaken}, func(k, _ []byte) error {
		if up, inTree := d.f.pathOf(OID(keyNum(k, 0)), 0); inTree {
			all[joinPath(up, string(k[9:]))] = struct{}{}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	objects := map[OID]struct{}{}
	err = d.f.j.Scan([]byte{kOrigin}, func(k, _ []byte) error {
		objects[OID(keyNum(k, 0))] = struct{}{}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = d.f.j.Scan([]byte{kMergedAs}, func(k, v []byte) error {
		id := OID(keyNum(k, 0))
		objects[id] = struct{}{}
		d.merged[id], err = decodeMergeBase(v)
		return err
	})
	for id := range objects {
		for _, path := range d.live.pathsOf(id) {
			all[path] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(all)), err
}

// path compares one path, and what is below it where the directories at it are not the same one.
func (d *forkDiff) path(path string) error {
	if d.seen[path] {
		return nil
	}
	d.seen[path] = true
	d.added = append(d.added, path)
	a, err := d.base(path)
	if err != nil {
		return err
	}
	b, err := absentNil(d.live.resolve(path))
	if err != nil {
		return err
	}
	if err := d.tell(path, a, b); err != nil {
		return err
	}
	dirA, dirB := a != nil && a.kind == unix.S_IFDIR, b != nil && b.kind == unix.S_IFDIR
	if dirA && dirB && (b.low != nil || b.id == a.fork) && a.low != nil {
		return nil // what is in it is told by names of its own
	}
	names := map[string]struct{}{}
	if dirA {
		if err := d.namesIn(a, names); err != nil {
			return err
		}
	}
	if dirB {
		list, err := d.live.list(b)
		if err != nil {
			return err
		}
		for _, name := range list {
			names[name] = struct{}{}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if err := d.path(joinPath(path, name)); err != nil {
			return err
		}
	}
	return nil
}

// namesIn is the names in a directory of the base.
func (d *forkDiff) namesIn(a *was, names map[string]struct{}) error {
	if a.low != nil {
		low, err := d.f.lower.dirents(a.low)
		if err != nil {
			return err
		}
		for name := range low {
			names[name] = struct{}{}
		}
	}
	if a.fork == 0 {
		return nil
	}
	prefix := key(kMergedAt, uint64(a.fork))
	return d.f.j.Scan(prefix, func(k, _ []byte) error {
		names[string(k[len(prefix):])] = struct{}{}
		return nil
	})
}

// base is what is at a path of the base; nil for nothing.
func (d *forkDiff) base(path string) (*was, error) {
	at := &was{low: d.f.lower.v.root(), fork: rootOID, kind: unix.S_IFDIR}
	for name := range strings.SplitSeq(path, "/") {
		var err error
		if at, err = d.baseIn(at, name); err != nil || at == nil {
			return nil, err
		}
	}
	return at, nil
}

func (d *forkDiff) baseIn(up *was, name string) (*was, error) {
	if up.kind != unix.S_IFDIR {
		return nil, nil
	}
	if up.fork != 0 {
		v, merged, err := d.f.j.Get(append(key(kMergedAt, uint64(up.fork)), name...))
		if err != nil {
			return nil, err
		}
		if merged {
			in := dec{b: v}
			id := OID(in.u())
			if id == 0 || in.err != nil {
				return nil, in.err
			}
			return d.made(id)
		}
	}
	if up.low == nil {
		return nil, nil
	}
	low, st, err := d.f.lower.lookup(up.low, name)
	if err == unix.ENOENT || errors.Is(err, Gone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	id, err := d.f.raisedAs(keyOf(&st))
	return &was{low: low, fork: id, merged: d.merged[id], kind: low.kind}, err
}

// made is an object of the fork as it was merged.
func (d *forkDiff) made(id OID) (*was, error) {
	o, found, err := d.f.getObject(id)
	if err != nil || !found {
		return nil, err
	}
	out := &was{fork: id, merged: d.merged[id], kind: o.kind}
	from, _, err := d.f.originOf(id)
	if err == nil && from != nil {
		out.low = from.ref
	}
	return out, err
}

// write writes the difference at one path.
func (d *forkDiff) write(path string, a *was, b *ref) error {
	if a != nil && a.merged != nil && b != nil && a.kind == unix.S_IFREG && b.kind == unix.S_IFREG {
		// What was merged of a big file is not kept, but for its sum.
		m, err := d.live.meta(b)
		if err != nil {
			return err
		}
		if sum, err := sumOf(d.live, b); err != nil || sum == a.merged.sum && m.mode == a.merged.meta.mode {
			return err
		}
	}
	x, err := d.sideOf(path, a)
	if err != nil {
		return err
	}
	y, err := readSide(d.live, "b", path)
	if err != nil {
		return err
	}
	if x.mode == y.mode && x.text == y.text && x.binary == y.binary {
		if !x.binary || x.text != "" || x.mode == 0 {
			return nil
		}
		if same, err := d.sameBytes(a, b); err != nil || same {
			return err
		}
	}
	return diffSides(d.w, path, x, y)
}

func (d *forkDiff) sideOf(path string, a *was) (side, error) {
	if a == nil {
		return side{label: "/dev/null"}, nil
	}
	s := side{label: tasktree.Quote("a/" + path)}
	var m meta
	var err error
	if a.merged != nil {
		m = a.merged.meta
	} else if a.low != nil {
		m, err = d.f.lower.meta(a.low)
	}
	if err != nil {
		return s, err
	}
	s.mode = m.mode
	switch a.kind {
	case unix.S_IFREG:
		rd, size, done, err := d.reader(a)
		if err != nil || rd == nil {
			s.binary = true
			return s, err
		}
		defer done()
		return s, s.read(rd, size)
	case unix.S_IFLNK:
		var t []byte
		if a.low != nil {
			t, err = d.f.lower.readlink(a.low)
		} else {
			t, err = d.live.readlink(&ref{id: a.fork, kind: a.kind})
		}
		s.text = string(t) + "\n"
	}
	return s, err
}

// reader reads a file of the base; nil where its bytes were not kept.
func (d *forkDiff) reader(a *was) (io.ReaderAt, int64, func(), error) {
	if a.merged == nil && a.low != nil {
		return d.f.lower.reader(a.low)
	}
	if a.merged == nil || a.merged.bytes == nil {
		return nil, 0, func() {}, nil
	}
	if a.merged.bytes.size == 0 {
		return zeros{}, 0, func() {}, nil
	}
	v, found, err := d.f.j.Get(pieceKey(mergedRun, a.fork, 0))
	if err != nil || !found {
		return nil, 0, func() {}, err
	}
	p, err := decodePiece(0, v)
	if err != nil {
		return nil, 0, func() {}, fmt.Errorf("what was merged: %w", err)
	}
	rd, err := d.f.openPiece(&p)
	if err != nil {
		return nil, 0, func() {}, err
	}
	return rd, p.size, rd.close, nil
}

// sameBytes compares files that are too big for a diff.
func (d *forkDiff) sameBytes(a *was, b *ref) (bool, error) {
	if a.merged != nil {
		return false, nil
	}
	if b.low != nil {
		return true, nil
	}
	x, nx, doneX, err := d.reader(a)
	if err != nil || x == nil {
		return false, err
	}
	defer doneX()
	y, ny, doneY, err := d.live.reader(b)
	if err != nil {
		return false, err
	}
	defer doneY()
	if nx != ny {
		return false, nil
	}
	return sameReaders(x, y, nx)
}
