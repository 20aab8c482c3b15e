package overlay

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// inode is one of the naive filesystem: what the engine's workspace is held against.
type inode struct {
	id     int
	kind   uint32
	mode   uint32
	data   []byte
	target string
	xattrs map[string]string
	kids   map[string]*inode // of a directory
}

// naive is a filesystem in memory, without any history.
type naive struct {
	root *inode
	next int
}

func newNaive() *naive {
	n := &naive{}
	n.root = n.make(unix.S_IFDIR, 0o755)
	return n
}

func (n *naive) make(kind, mode uint32) *inode {
	n.next++
	i := &inode{id: n.next, kind: kind, mode: mode, xattrs: map[string]string{}}
	if kind == unix.S_IFDIR {
		i.kids = map[string]*inode{}
	}
	return i
}

// clone copies everything; the bytes of files are shared, since they are never changed in place.
func (n *naive) clone() *naive {
	return &naive{root: n.root.clone(map[*inode]*inode{}), next: n.next}
}

func (i *inode) clone(seen map[*inode]*inode) *inode {
	if c := seen[i]; c != nil {
		return c
	}
	c := *i
	seen[i] = &c
	c.xattrs = maps.Clone(i.xattrs)
	if i.kids != nil {
		c.kids = map[string]*inode{}
		for name, kid := range i.kids {
			c.kids[name] = kid.clone(seen)
		}
	}
	return &c
}

// find is what is at a path; nil for nothing.
func (n *naive) find(path string) *inode {
	at := n.root
	for _, name := range strings.Split(path, "/") {
		if name == "" {
			continue
		}
		if at == nil || at.kids == nil {
			return nil
		}
		at = at.kids[name]
	}
	return at
}

// each calls f for everything, in the order of the paths' names.
func (n *naive) each(f func(path string, i *inode)) { n.root.each("", f) }

func (i *inode) each(path string, f func(path string, i *inode)) {
	f(path, i)
	for _, name := range slices.Sorted(maps.Keys(i.kids)) {
		i.kids[name].each(joinPath(path, name), f)
	}
}

// links counts the names of an inode.
func (n *naive) links(of *inode) (count int) {
	n.each(func(_ string, i *inode) {
		if i == of {
			count++
		}
	})
	return count
}

// byID is the inode of a number, nil when it has no name.
func (n *naive) byID(id int) (found *inode) {
	n.each(func(_ string, i *inode) {
		if i.id == id {
			found = i
		}
	})
	return found
}

// put makes a name, as open(O_CREAT|O_EXCL), mkdir and so on do.
func (n *naive) put(path string, i *inode) error {
	dir, name := split(path)
	d := n.find(dir)
	switch {
	case d == nil:
		return unix.ENOENT
	case d.kids == nil:
		return unix.ENOTDIR
	case d.kids[name] != nil:
		return unix.EEXIST
	}
	d.kids[name] = i
	return nil
}

func (n *naive) remove(path string, isDir bool) error {
	dir, name := split(path)
	i := n.find(path)
	switch {
	case i == nil:
		return unix.ENOENT
	case isDir && i.kids == nil:
		return unix.ENOTDIR
	case !isDir && i.kids != nil:
		return unix.EISDIR
	case len(i.kids) > 0:
		return unix.ENOTEMPTY
	}
	delete(n.find(dir).kids, name)
	return nil
}

// rename expects that neither path is below the other.
func (n *naive) rename(from, to string, flags uint) error {
	d1, n1 := split(from)
	d2, n2 := split(to)
	a, b, dir := n.find(from), n.find(to), n.find(d2)
	switch {
	case a == nil || dir == nil:
		return unix.ENOENT
	case dir.kids == nil:
		return unix.ENOTDIR
	case flags&RenameExchange != 0 && b == nil:
		return unix.ENOENT
	case flags&RenameNoReplace != 0 && b != nil:
		return unix.EEXIST
	case a == b:
		return nil
	case flags&RenameExchange != 0:
		n.find(d1).kids[n1], dir.kids[n2] = b, a
		return nil
	case b != nil && a.kids != nil && b.kids == nil:
		return unix.ENOTDIR
	case b != nil && a.kids == nil && b.kids != nil:
		return unix.EISDIR
	case b != nil && len(b.kids) > 0:
		return unix.ENOTEMPTY
	}
	delete(n.find(d1).kids, n1)
	dir.kids[n2] = a
	return nil
}

// resize gives a file another length.
func (i *inode) resize(size int64) {
	b := make([]byte, size)
	copy(b, i.data)
	i.data = b
}

func (i *inode) write(off int64, b []byte) {
	d := make([]byte, max(int64(len(i.data)), off+int64(len(b))))
	copy(d, i.data)
	copy(d[off:], b)
	i.data = d
}

// String is all that is compared of an inode, but for its names.
func (i *inode) String() string {
	if i == nil {
		return "nothing"
	}
	s := fmt.Sprintf("mode=%o", i.kind|i.mode)
	switch i.kind {
	case unix.S_IFREG:
		s += fmt.Sprintf(" size=%d sum=%x", len(i.data), maphash.Bytes(sumSeed, i.data))
	case unix.S_IFLNK:
		s += " -> " + i.target
	}
	for _, k := range slices.Sorted(maps.Keys(i.xattrs)) {
		s += fmt.Sprintf(" %s=%q", k, i.xattrs[k])
	}
	return s
}

// describe is every path with its inode, and the first path of the same inode.
func (n *naive) describe() map[string]string {
	out, first := map[string]string{}, map[*inode]string{}
	n.each(func(path string, i *inode) {
		out[path] = i.String()
		if one, has := first[i]; has {
			out[path] += " same=" + one
		} else {
			first[i] = path
		}
	})
	return out
}

// same says whether two inodes of different times look the same, names and entries aside.
func (i *inode) same(o *inode) bool {
	return i.kind == o.kind && i.mode == o.mode && i.target == o.target && maps.Equal(i.xattrs, o.xattrs) && bytes.Equal(i.data, o.data)
}

// changes are the paths that differ in b, with what happened to them.
func (n *naive) changes(b *naive) map[string]string {
	out := map[string]string{}
	n.each(func(path string, i *inode) {
		if now := b.find(path); now == nil {
			out[path] = opDelete
		} else if !i.same(now) {
			out[path] = opModify
		}
	})
	b.each(func(path string, i *inode) {
		if n.find(path) == nil {
			out[path] = opCreate
		}
	})
	return out
}
