package overlay

import (
	"fmt"
	"hash/maphash"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// fork makes a fork of the stand's workspace, as a stand of its own.
func (s *stand) fork(name ForkName) *stand {
	s.t.Helper()
	_, err := s.e.Fork(ForkOptions{Name: name, Agent: "f-" + s.agent, Parent: s.agent})
	s.must(err)
	return s.forked(name)
}

// forked is the stand of a fork that there is.
func (s *stand) forked(name ForkName) *stand {
	s.t.Helper()
	e, _, open := s.e.ForkOf(name)
	if !open {
		s.t.Fatalf("fork %s is not open", name)
	}
	f := &stand{t: s.t, dir: filepath.Join(s.dir, StoreName, "forks", string(name), "tree"), e: e, j: s.j, blobs: s.blobs, agent: "f-" + s.agent, rng: s.rng}
	f.held, f.names, f.files = map[NodeID]uint64{}, map[dentry]NodeID{}, map[*Handle]string{}
	return f
}

// tree is everything that programs see, by path, "" for the root: type, mode, owner, mtime, attributes, links, content.
func (s *stand) tree() map[string]string {
	s.t.Helper()
	out, first := map[string]string{}, map[uint64]string{}
	s.treeAt("", RootNode, func(path string, st *Stat, id NodeID) {
		out[path] = fmt.Sprintf("mode=%o uid=%d gid=%d mtime=%d", st.Mode, st.Uid, st.Gid, nanos(st.Mtime)) + s.describe(id, st)
		if kindOf(st) != unix.S_IFDIR {
			out[path] += fmt.Sprintf(" links=%d", st.Nlink)
			if one, has := first[st.Ino]; has {
				out[path] += " same=" + one
			} else {
				first[st.Ino] = path
			}
		}
	})
	return out
}

// seen is the same as naive.describe has it.
func (s *stand) seen() map[string]string {
	s.t.Helper()
	out, first := map[string]string{}, map[uint64]string{}
	s.treeAt("", RootNode, func(path string, st *Stat, id NodeID) {
		out[path] = fmt.Sprintf("mode=%o", st.Mode) + s.describe(id, st)
		if one, has := first[st.Ino]; has {
			out[path] += " same=" + one
		} else {
			first[st.Ino] = path
		}
	})
	return out
}

// describe is what is told of an inode beside its attributes.
func (s *stand) describe(id NodeID, st *Stat) (out string) {
	switch kindOf(st) {
	case unix.S_IFREG:
		h, err := s.e.Open(s.caller(), id, unix.O_RDONLY, false, nil)
		s.must(err)
		b := make([]byte, st.Size+1)
		n, err := s.e.Read(h, b, 0)
		s.must(err)
		s.e.Release(h)
		out = fmt.Sprintf(" size=%d sum=%x", st.Size, maphash.Bytes(sumSeed, b[:n]))
	case unix.S_IFLNK:
		target, err := s.e.Readlink(id)
		s.must(err)
		return " -> " + string(target)
	}
	names, err := s.e.ListXattr(id)
	s.must(err)
	for _, name := range slices.Sorted(strings.SplitSeq(strings.TrimRight(string(names), "\x00"), "\x00")) {
		if strings.HasPrefix(name, "user.") {
			v, err := s.e.GetXattr(id, name)
			s.must(err)
			out += fmt.Sprintf(" %s=%q", name, v)
		}
	}
	return out
}

func (s *stand) treeAt(path string, id NodeID, f func(path string, st *Stat, id NodeID)) {
	s.t.Helper()
	st, err := s.e.GetAttr(id, nil)
	s.must(err)
	f(path, &st, id)
	if kindOf(&st) != unix.S_IFDIR {
		return
	}
	d, err := s.e.OpenDir(id)
	s.must(err)
	inos := map[string]uint64{}
	s.must(s.e.Next(d, 0, func(ent Dirent) bool {
		if ent.Name != "." && ent.Name != ".." {
			inos[ent.Name] = ent.Ino
		}
		return true
	}))
	s.e.CloseDir(d)
	for _, name := range slices.Sorted(maps.Keys(inos)) {
		ent, err := s.e.Lookup(id, name)
		if err != nil {
			s.t.Fatalf("%s is listed, but: %v", joinPath(path, name), err)
		}
		if ent.Stat.Ino != inos[name] {
			s.t.Errorf("%s is listed with inode %d and has %d", joinPath(path, name), inos[name], ent.Stat.Ino)
		}
		s.treeAt(joinPath(path, name), ent.Node, f)
		s.e.Forget(ent.Node, 1)
	}
}

// same fails when a tree is not what it should be.
func (s *stand) same(got, want map[string]string, what string) {
	s.t.Helper()
	if d := differ(got, want); d != "" {
		s.t.Fatalf("%s:%s", what, d)
	}
}
