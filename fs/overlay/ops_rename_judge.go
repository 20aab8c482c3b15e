package overlay

import (
	"github.com/ttfs/ttfs/guard"
	"golang.org/x/sys/unix"
)

// judge asks the guard about what the rename takes away.
func (r *renaming) judge(c *Caller, from, to guard.Path) error {
	if r.b == nil {
		return nil
	}
	if r.flags&RenameExchange != 0 {
		a, b := r.a, r.b
		if a.n.dir != nil {
			// The guard is asked about files: a directory may only be the other end.
			a, b, from, to = b, a, to, from
		}
		if a.n.dir != nil {
			return nil
		}
		q := guard.Question{Op: guard.Exchange, Path: from, Other: guard.End{File: fileOf(b.n.ident()), Path: to, SizeBytes: int64(b.st.Size), Dir: b.n.dir != nil}}
		return r.e.judge(c, q, a.n, &a.st)
	}
	if r.b.n.dir != nil {
		return nil
	}
	return r.e.judge(c, guard.Question{Op: guard.RenameOver, Path: to}, r.b.n, &r.b.st)
}

// learn tells the guard what the rename did.
func (r *renaming) learn(c *Caller, from, to guard.Path) {
	r.e.learn(c, func(s *guard.State, a guard.Actor) {
		fa := fileOf(r.a.n.ident())
		if r.flags&RenameExchange != 0 {
			s.Exchanged(a, guard.End{File: fa, Path: from, Dir: r.a.n.dir != nil}, guard.End{File: fileOf(r.b.n.ident()), Path: to, Dir: r.b.n.dir != nil})
			return
		}
		s.Renamed(a, fa, from, to, r.a.n.dir != nil)
	})
}

// mayReplace is rename(2)'s word on what may be put over what.
func (r *renaming) mayReplace() error {
	aDir, bDir := r.a.n.dir != nil, r.b.n.dir != nil
	switch {
	case aDir && !bDir:
		return unix.ENOTDIR
	case !aDir && bDir:
		return unix.EISDIR
	case bDir:
		if r.b.n == r.from || r.b.n == r.to {
			return unix.ENOTEMPTY
		}
		empty, err := r.e.emptyDir(r.b.n, r.tf.fd, r.new)
		if err == nil && !empty {
			err = unix.ENOTEMPTY
		}
		return err
	}
	return nil
}
