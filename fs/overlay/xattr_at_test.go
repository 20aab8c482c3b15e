package overlay

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestXattrByName: attributes are the same by a file's name, where the kernel can, as by opening it; and never those of another file
// that has come to the name around the mount.
func TestXattrByName(t *testing.T) {
	for _, old := range []bool{false, true} {
		s := newStand(t, 1)
		s.e.noXattrAt.Store(old)
		long := strings.Repeat("x", 2*xattrRoom)
		s.must(s.create("a", "", 0o644))
		s.must(s.create("b", "", 0o644))
		s.must(s.mkdir("d", 0o755))
		s.must(s.symlink("a", "link"))
		for path, values := range map[string]map[string]string{"a": {"user.one": "1", "user.empty": "", "user.long": long}, "b": {"user.one": "2"}, "d": {"user.one": "3"}} {
			for name, v := range values {
				s.must(s.setXattr(path, name, v))
			}
		}
		get := func(path, name string) (string, error) {
			id, err := s.walk(path)
			s.must(err)
			v, err := s.e.GetXattr(id, name)
			return string(v), err
		}
		for _, c := range []struct {
			path, name, want string
			err              error
		}{
			{"a", "user.one", "1", nil}, {"a", "user.empty", "", nil}, {"a", "user.long", long, nil}, {"a", "user.none", "", unix.ENODATA},
			{"a", "system.posix_acl_access", "", unix.ENODATA}, {"b", "user.one", "2", nil}, {"d", "user.one", "3", nil}, {"", "user.one", "", unix.ENODATA},
			{"link", "user.one", "", unix.ENODATA}, {"a", "security.capability", "", unix.ENODATA},
		} {
			if got, err := get(c.path, c.name); got != c.want || err != c.err {
				t.Errorf("old kernel %v: %s of %q is %q, %v; want %q, %v", old, c.name, c.path, got, err, c.want, c.err)
			}
		}
		a, err := s.walk("a")
		s.must(err)
		s.must(os.Rename(filepath.Join(s.dir, "b"), filepath.Join(s.dir, "a")))
		if got, err := s.e.GetXattr(a, "user.one"); err == nil {
			t.Errorf("old kernel %v: of a file that is gone, the other's %q", old, got)
		}
		s.held, s.names = map[NodeID]uint64{}, map[dentry]NodeID{}
		if !old && s.e.noXattrAt.Load() {
			t.Log("this kernel has no getxattrat")
		}
		s.close()
	}
}
