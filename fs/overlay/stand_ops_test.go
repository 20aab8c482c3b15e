package overlay

import (
	"maps"
	"os"
	"time"

	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// The operations of a stand are those of programs, by path. Each is what the kernel makes of one call.

// create makes a file with content.
func (s *stand) create(path, content string, mode uint32) error {
	h, err := s.createOpen(path, unix.O_RDWR, mode)
	if err != nil {
		return err
	}
	defer s.release(h)
	return s.writeAt(h, 0, content)
}

func (s *stand) createOpen(path string, flags, mode uint32) (*Handle, error) {
	dir, name, err := s.parent(path)
	if err != nil {
		return nil, err
	}
	ent, h, err := s.e.Create(s.caller(), dir, name, flags, mode)
	if err != nil {
		return nil, err
	}
	s.enter(dentry{dir, name}, ent)
	s.files[h] = path
	return h, nil
}

// openFile opens a file that is there.
func (s *stand) openFile(path string, flags uint32) (*Handle, error) {
	id, err := s.walk(path)
	if err != nil {
		return nil, err
	}
	h, err := s.e.Open(s.caller(), id, flags, false, nil)
	if err != nil {
		return nil, err
	}
	s.files[h] = path
	return h, nil
}

func (s *stand) release(h *Handle) {
	delete(s.files, h)
	s.e.Release(h)
}

// writeAt writes as the kernel does: in pieces of at most 128 KiB, and by itself what is passed through.
func (s *stand) writeAt(h *Handle, off int64, content string) error {
	if s.pass && h.Mode() == Passthrough {
		return pwriteFull(h.FD(), []byte(content), off)
	}
	for b := []byte(content); len(b) > 0; {
		n, err := s.e.Write(s.caller(), h, b[:min(len(b), 128<<10)], off, false, false)
		if err != nil {
			return err
		}
		b, off = b[n:], off+int64(n)
	}
	return nil
}

func (s *stand) read(h *Handle) string {
	b := make([]byte, 16<<20)
	n, err := s.e.Read(h, b, 0)
	s.must(err)
	return string(b[:n])
}

// write overwrites bytes of a file from off on.
func (s *stand) write(path string, off int64, content string) error {
	return s.with(path, unix.O_WRONLY, func(h *Handle) error { return s.writeAt(h, off, content) })
}

// rewrite is open(O_TRUNC) and write.
func (s *stand) rewrite(path, content string) error {
	return s.with(path, unix.O_WRONLY|unix.O_TRUNC, func(h *Handle) error { return s.writeAt(h, 0, content) })
}

func (s *stand) append(path, content string) error {
	return s.with(path, unix.O_WRONLY|unix.O_APPEND, func(h *Handle) error {
		_, err := s.e.Write(s.caller(), h, []byte(content), 0, true, false)
		return err
	})
}

func (s *stand) with(path string, flags uint32, f func(h *Handle) error) error {
	h, err := s.openFile(path, flags)
	if err != nil {
		return err
	}
	defer s.release(h)
	return f(h)
}

func (s *stand) fallocate(path string, mode uint32, off, n int64) error {
	return s.with(path, unix.O_RDWR, func(h *Handle) error { return s.e.Fallocate(s.caller(), h, mode, off, n) })
}

func (s *stand) setAttr(path string, a SetAttr) error {
	id, err := s.walk(path)
	if err != nil {
		return err
	}
	_, err = s.e.SetAttributes(s.caller(), id, nil, a)
	return err
}

func (s *stand) truncate(path string, size int64) error { return s.setAttr(path, SetAttr{Size: &size}) }
func (s *stand) chmod(path string, mode uint32) error   { return s.setAttr(path, SetAttr{Mode: &mode}) }
func (s *stand) chown(path string, uid, gid uint32) error {
	return s.setAttr(path, SetAttr{UID: &uid, GID: &gid})
}
func (s *stand) utimes(path string, ns int64) error {
	at := time.Unix(0, ns)
	return s.setAttr(path, SetAttr{Atime: &at, Mtime: &at})
}

func (s *stand) setXattr(path, name, value string) error {
	id, err := s.walk(path)
	if err != nil {
		return err
	}
	return s.e.SetXattr(s.caller(), id, name, []byte(value), 0, false)
}

func (s *stand) removeXattr(path, name string) error {
	id, err := s.walk(path)
	if err != nil {
		return err
	}
	return s.e.RemoveXattr(s.caller(), id, name)
}

// making does what makes a name.
func (s *stand) making(path string, f func(dir NodeID, name string) (Entry, error)) error {
	dir, name, err := s.parent(path)
	if err != nil {
		return err
	}
	ent, err := f(dir, name)
	if err == nil {
		s.enter(dentry{dir, name}, ent)
	}
	return err
}

func (s *stand) mkdir(path string, mode uint32) error {
	return s.making(path, func(dir NodeID, name string) (Entry, error) { return s.e.Mkdir(s.caller(), dir, name, mode) })
}

func (s *stand) symlink(target, path string) error {
	return s.making(path, func(dir NodeID, name string) (Entry, error) { return s.e.Symlink(s.caller(), dir, name, target) })
}

func (s *stand) mkfifo(path string, mode uint32) error {
	return s.making(path, func(dir NodeID, name string) (Entry, error) {
		return s.e.Mknod(s.caller(), dir, name, unix.S_IFIFO|mode, 0)
	})
}

func (s *stand) link(from, path string) error {
	id, err := s.walk(from)
	if err != nil {
		return err
	}
	return s.making(path, func(dir NodeID, name string) (Entry, error) { return s.e.Link(s.caller(), id, dir, name) })
}

// lost drops a cached name, and those below it.
func (s *stand) lost(dir NodeID, name string) {
	id := s.names[dentry{dir, name}]
	delete(s.names, dentry{dir, name})
	maps.DeleteFunc(s.names, func(d dentry, _ NodeID) bool { return d.dir == id })
}

func (s *stand) unlink(path string) error {
	dir, name, err := s.parent(path)
	if err != nil {
		return err
	}
	if err := s.e.Unlink(s.caller(), dir, name); err != nil {
		return err
	}
	delete(s.names, dentry{dir, name})
	return nil
}

func (s *stand) rmdir(path string) error {
	dir, name, err := s.parent(path)
	if err != nil {
		return err
	}
	if err := s.e.Rmdir(s.caller(), dir, name); err != nil {
		return err
	}
	s.lost(dir, name)
	return nil
}

func (s *stand) rename(from, to string, flags uint) error {
	d1, n1, err := s.parent(from)
	if err != nil {
		return err
	}
	d2, n2, err := s.parent(to)
	if err != nil {
		return err
	}
	a, err := s.look(d1, n1)
	if err != nil {
		return err
	}
	b, over := s.names[dentry{d2, n2}]
	if err := s.e.Rename(s.caller(), d1, n1, d2, n2, flags); err != nil {
		return err
	}
	if over && b == a {
		return nil // two names of one inode: both stay
	}
	delete(s.names, dentry{d1, n1})
	if over && flags&RenameExchange != 0 {
		s.names[dentry{d1, n1}] = b
	}
	s.names[dentry{d2, n2}] = a
	return nil
}

// stat is the state of a path as programs see it.
func (s *stand) stat(path string) Stat {
	s.t.Helper()
	id, err := s.walk(path)
	s.must(err)
	st, err := s.e.GetAttr(id, nil)
	s.must(err)
	return st
}

// removeAll is rm -rf.
func (s *stand) removeAll(path string) error {
	id, err := s.walk(path)
	if err != nil {
		return err
	}
	st, err := s.e.GetAttr(id, nil)
	if err != nil {
		return err
	}
	if kindOf(&st) != unix.S_IFDIR {
		return s.unlink(path)
	}
	names, err := s.list(id)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := s.removeAll(joinPath(path, name)); err != nil {
			return err
		}
	}
	return s.rmdir(path)
}

func (s *stand) list(id NodeID) (names []string, err error) {
	d, err := s.e.OpenDir(id)
	if err != nil {
		return nil, err
	}
	defer s.e.CloseDir(d)
	err = s.e.Next(d, 0, func(ent Dirent) bool {
		if ent.Name != "." && ent.Name != ".." {
			names = append(names, ent.Name)
		}
		return true
	})
	return names, err
}

// mkdirAll is mkdir -p.
func (s *stand) mkdirAll(path string) error {
	if path == "" {
		return nil
	}
	dir, _ := split(path)
	if err := s.mkdirAll(dir); err != nil {
		return err
	}
	if err := s.mkdir(path, 0o755); err != nil && err != unix.EEXIST {
		return err
	}
	return nil
}

// owner is another owner that this process may give files to.
func owner() (uid, gid uint32) {
	if os.Getuid() == 0 {
		return 1234, 5678
	}
	return uint32(os.Getuid()), uint32(os.Getgid())
}

// begin begins a task.
func (s *stand) begin(title string) {
	s.t.Helper()
	_, err := s.e.BeginTask(s.agent, title)
	s.must(err)
}

func (s *stand) undo() { s.t.Helper(); _, err := s.e.Undo(s.agent, MoveOptions{}); s.must(err) }
func (s *stand) redo() { s.t.Helper(); _, err := s.e.Redo(s.agent, MoveOptions{}); s.must(err) }

// verify is fsck.
func (s *stand) verify() {
	n, err := s.e.Verify(s.t.Context(), func(problem string) { s.t.Error(problem) })
	s.must(err)
	if n.Tasks == 0 {
		s.t.Error("nothing was verified")
	}
}

// abandon closes the stores of an engine that died while it was opened.
func (s *stand) abandon() {
	s.must(s.blobs.Close())
	s.must(s.j.Close())
	s.e = nil
}

// taskID spares conversions.
func taskID(n int) tasktree.TaskID { return tasktree.TaskID(n) }
