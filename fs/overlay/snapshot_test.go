package overlay

import (
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// snapshot is everything in the workspace on disk, by path, "" for its root: type, mode, owner, mtime, attributes, links,
// content with its holes. What is in .tt is not of it. inodes says that each inode is to be told as well.
func (s *stand) snapshot(inodes bool) map[string]string {
	s.t.Helper()
	return s.snapshotBelow("", inodes)
}

// snapshotBelow is a snapshot of one directory; others may be at work elsewhere meanwhile.
func (s *stand) snapshotBelow(top string, inodes bool) map[string]string {
	s.t.Helper()
	held := map[uint64]bool{}
	hold := filepath.Join(s.dir, StoreName, "hold")
	all, err := os.ReadDir(hold)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, ent := range all {
		var st Stat
		if err := statAt(unix.AT_FDCWD, filepath.Join(hold, ent.Name()), &st); err == unix.ENOENT {
			continue // somebody has it back
		} else if err != nil {
			s.t.Fatal(err)
		}
		held[st.Ino] = true
	}
	out, first := map[string]string{}, map[uint64]string{}
	err = filepath.WalkDir(filepath.Join(s.dir, top), func(full string, ent os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path := strings.TrimPrefix(strings.TrimPrefix(full, s.dir), "/")
		if path == StoreName {
			return filepath.SkipDir
		}
		var st Stat
		if err := statAt(unix.AT_FDCWD, full, &st); err != nil {
			return err
		}
		out[path], err = describe(full, &st)
		if err != nil {
			return err
		}
		if kindOf(&st) != unix.S_IFDIR {
			links := int(st.Nlink)
			if held[st.Ino] {
				links--
			}
			if one, has := first[st.Ino]; has {
				out[path] += " same=" + one
			} else {
				first[st.Ino] = path
			}
			out[path] += fmt.Sprintf(" links=%d", links)
		}
		if inodes {
			out[path] += fmt.Sprintf(" ino=%d", st.Ino)
		}
		return nil
	})
	if err != nil {
		s.t.Fatalf("snapshot: %v", err)
	}
	return out
}

func describe(full string, st *Stat) (string, error) {
	d := fmt.Sprintf("mode=%o owner=%d:%d mtime=%d", st.Mode, st.Uid, st.Gid, nanos(st.Mtime))
	switch kindOf(st) {
	case unix.S_IFLNK:
		target, err := os.Readlink(full)
		return d + fmt.Sprintf(" -> %q", target), err
	case unix.S_IFREG:
		bytes, err := describeBytes(full, int64(st.Size))
		if err != nil {
			return "", err
		}
		d += bytes
	}
	fd, err := openAt(unix.AT_FDCWD, full, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	m, err := readMeta(fd, st)
	for _, name := range slices.Sorted(maps.Keys(m.xattrs)) {
		d += fmt.Sprintf(" %s=%q", name, m.xattrs[name])
	}
	return d, err
}

// sumSeed is one for all snapshots of a run.
var sumSeed = maphash.MakeSeed()

// describeBytes is the size, the holes and a sum of the rest of a file.
func describeBytes(full string, size int64) (string, error) {
	f, err := os.Open(full)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var sum maphash.Hash
	sum.SetSeed(sumSeed)
	var holes []string
	err = extents(int(f.Fd()), 0, size, func(s span, hole bool) error {
		if hole {
			holes = append(holes, fmt.Sprintf("%d-%d", s.from, s.to))
			return nil
		}
		_, err := io.Copy(&sum, io.NewSectionReader(f, s.from, s.to-s.from))
		return err
	})
	return fmt.Sprintf(" size=%d sum=%x holes=%s", size, sum.Sum64(), strings.Join(holes, ",")), err
}

// differ tells what is different between two snapshots, "" for nothing.
func differ(got, want map[string]string) string {
	var b strings.Builder
	all := maps.Clone(got)
	maps.Copy(all, want)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if got[path] != want[path] {
			fmt.Fprintf(&b, "\n%q\n   is        %s\n   should be %s", path, got[path], want[path])
		}
	}
	return b.String()
}

// check fails when the workspace is not as a snapshot was.
func (s *stand) check(what string, want map[string]string) {
	s.t.Helper()
	if d := differ(s.snapshot(true), want); d != "" {
		s.t.Fatalf("%s:%s", what, d)
	}
}
