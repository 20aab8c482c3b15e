package treecmp

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

// Extent is one run of data in a file, as SEEK_DATA and SEEK_HOLE tell it.
// Units: bytes.
type Extent struct{ Start, End int64 }

// Entry is all that one path is.
type Entry struct {
	Type      string // file, dir, symlink, fifo, socket, char or block
	Mode      uint32 // the twelve permission bits
	UID, GID  uint32
	SizeBytes int64 // regular files and symlinks only
	MtimeNS   int64
	Rdev      uint64
	Nlink     uint64   // not of directories
	Group     []string // every path of the tree that shares the inode, when there are several
	Target    string
	Xattrs    map[string]string
	Sum       [sha256.Size]byte
	Extents   []Extent
	DiskBytes int64 // allocated
}

// Tree is a picture: paths relative to its top, "." being the top itself.
type Tree map[string]Entry

type inode struct{ dev, ino uint64 }

// Take makes the picture of the tree at dir.
//
// Errors: of the first path that could not be looked at, named; the tree must
// not change meanwhile.
func Take(dir string) (Tree, error) {
	tree := Tree{}
	groups := map[inode][]string{}
	if err := walk(dir, ".", tree, groups); err != nil {
		return nil, err
	}
	if err := readAll(dir, tree); err != nil {
		return nil, err
	}
	for _, paths := range groups {
		if len(paths) < 2 {
			continue
		}
		sort.Strings(paths)
		for _, path := range paths {
			entry := tree[path]
			entry.Group = paths
			tree[path] = entry
		}
	}
	return tree, nil
}

func walk(top, rel string, tree Tree, groups map[inode][]string) error {
	full := filepath.Join(top, rel)
	var st unix.Stat_t
	if err := unix.Lstat(full, &st); err != nil {
		return &os.PathError{Op: "lstat", Path: full, Err: err}
	}
	entry, err := look(full, &st)
	if err != nil {
		return err
	}
	tree[rel] = entry
	if entry.Type != "dir" {
		if st.Nlink > 1 {
			key := inode{st.Dev, st.Ino}
			groups[key] = append(groups[key], rel)
		}
		return nil
	}
	children, err := names(full)
	if err != nil {
		return err
	}
	for _, name := range children {
		if rel == "." && name == ".tt" {
			continue
		}
		if err := walk(top, filepath.Join(rel, name), tree, groups); err != nil {
			return err
		}
	}
	return nil
}

func names(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list, err := f.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("readdir %s: %w", dir, err)
	}
	sort.Strings(list)
	return list, nil
}

var types = map[uint32]string{
	unix.S_IFREG: "file", unix.S_IFDIR: "dir", unix.S_IFLNK: "symlink", unix.S_IFIFO: "fifo",
	unix.S_IFSOCK: "socket", unix.S_IFCHR: "char", unix.S_IFBLK: "block",
}

func look(full string, st *unix.Stat_t) (Entry, error) {
	entry := Entry{
		Type:    types[st.Mode&unix.S_IFMT],
		Mode:    st.Mode & 0o7777,
		UID:     st.Uid,
		GID:     st.Gid,
		MtimeNS: st.Mtim.Nano(),
	}
	var err error
	if entry.Xattrs, err = xattrs(full); err != nil {
		return Entry{}, err
	}
	if entry.Type == "dir" {
		return entry, nil
	}
	entry.Nlink = uint64(st.Nlink)
	switch entry.Type {
	case "char", "block":
		entry.Rdev = st.Rdev
	case "symlink":
		entry.SizeBytes = st.Size
		entry.Target, err = os.Readlink(full)
	case "file":
		entry.SizeBytes, entry.DiskBytes = st.Size, st.Blocks*512 // readAll adds the rest
	}
	return entry, err
}

func xattrs(full string) (map[string]string, error) {
	list := make([]byte, 4096)
	n, err := unix.Llistxattr(full, list)
	if err == unix.ERANGE {
		list = make([]byte, 1<<16)
		n, err = unix.Llistxattr(full, list)
	}
	if err == unix.EOPNOTSUPP || n == 0 && err == nil {
		return nil, nil
	}
	if err != nil {
		return nil, &os.PathError{Op: "llistxattr", Path: full, Err: err}
	}
	attrs := map[string]string{}
	for _, name := range strings.Split(strings.TrimSuffix(string(list[:n]), "\x00"), "\x00") {
		if name == "security.selinux" { // the policy's, not the programs'
			continue
		}
		value := make([]byte, 1<<16)
		size, err := unix.Lgetxattr(full, name, value)
		if err != nil {
			return nil, &os.PathError{Op: "lgetxattr " + name, Path: full, Err: err}
		}
		attrs[name] = string(value[:size])
	}
	return attrs, nil
}

// Lines is the picture as text, a line for each path, sorted: what a stored example is compared with. Which blocks are
// allocated depends on the page cache when it is taken, and is not in it.
func (t Tree) Lines() string {
	var b strings.Builder
	for _, path := range allPaths(t, nil) {
		e := t[path]
		fmt.Fprintf(&b, "%q %s %04o %d:%d %d", path, e.Type, e.Mode, e.UID, e.GID, e.MtimeNS)
		if e.Type == "file" {
			fmt.Fprintf(&b, " %d bytes %x", e.SizeBytes, e.Sum[:8])
		}
		if e.Target != "" {
			fmt.Fprintf(&b, " -> %q", e.Target)
		}
		if len(e.Group) > 1 {
			fmt.Fprintf(&b, " links %q", e.Group)
		}
		for _, name := range slices.Sorted(maps.Keys(e.Xattrs)) {
			fmt.Fprintf(&b, " %s=%q", name, e.Xattrs[name])
		}
		b.WriteByte('\n')
	}
	return b.String()
}
