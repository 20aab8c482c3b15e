package fs

import (
	"bytes"
	"errors"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/ttfs/ttfs/fs/overlay"
	"golang.org/x/sys/unix"
)

// A request that a daemon had begun before it was killed comes once more (transport.Conn.Begun). What it was to do may be
// done. Most operations can be done twice with the same result. Of those that cannot, what stands in the way tells: since the
// kernel keeps the directory locked until it has the answer, a name that is there now and was not then is the one that the first
// daemon made, and one that has gone is the one that it removed.

// past is what is known of requests that were begun by a daemon before this one: transport.Conn.
type past interface {
	Begun(unique uint64) (since time.Time, mark uint64, begun bool)
	Mark(unique, mark uint64)
}

// begun says whether an operation failed because it was done before.
func (f *face) begun(h *fuse.InHeader, err error, because unix.Errno) bool {
	if f.past == nil || !errors.Is(err, because) {
		return false
	}
	_, _, begun := f.past.Begun(h.Unique)
	return begun
}

// clockGrain is how much earlier than a request's note its effects may be dated: inodes get the time of the last tick.
const clockGrain = 20 * time.Millisecond

// made answers a request that makes a name. Of one that was begun before, what is there by the name is what it made, if it is
// no older than the request; same is the node that it is to be, 0 for a new one.
func (f *face) madeBefore(h *fuse.InHeader, name string, same overlay.NodeID, ent overlay.Entry, err error) (overlay.Entry, error) {
	if !f.begun(h, err, unix.EEXIST) {
		return ent, err
	}
	since, _, _ := f.past.Begun(h.Unique)
	found, e2 := f.of(h.NodeId).Lookup(node(h.NodeId), name)
	if e2 != nil {
		return ent, err
	}
	if same == 0 && youngerThan(&found.Stat, since) || same != 0 && found.Node == same {
		return found, nil
	}
	f.of(h.NodeId).Forget(found.Node, 1)
	return ent, err
}

// youngerThan says whether an inode was made after a time; of one that has no birth time, it is believed.
func youngerThan(st *overlay.Stat, since time.Time) bool {
	return st.Mask&unix.STATX_BTIME == 0 || !time.Unix(st.Btime.Sec, int64(st.Btime.Nsec)).Before(since.Add(-clockGrain))
}

// removedBefore turns the failure of a removal that was done before into its success.
func (f *face) removedBefore(h *fuse.InHeader, err error) error {
	if f.begun(h, err, unix.ENOENT) {
		return nil
	}
	return err
}

// exchangeMark keeps with an exchange, or a rename that leaves a whiteout, what inode was at the first name, and says of one that was
// begun before whether it is done: the one twice would be not at all, the other would put the whiteout in the place of what it moved.
func (f *face) exchangeMark(in *fuse.RenameIn, old string) (done bool) {
	if f.past == nil || in.Flags&(overlay.RenameExchange|overlay.RenameWhiteout) == 0 {
		return false
	}
	e := f.of(in.NodeId)
	ent, err := e.Lookup(node(in.NodeId), old)
	if err != nil {
		return false
	}
	e.Forget(ent.Node, 1)
	if _, mark, begun := f.past.Begun(in.Unique); begun && mark != 0 {
		return mark != ent.Stat.Ino
	}
	f.past.Mark(in.Unique, ent.Stat.Ino)
	return false
}

// renamedBefore turns the failure of a rename that was done before into its success.
func (f *face) renamedBefore(in *fuse.RenameIn, old, name string, err error) error {
	if !f.begun(&in.InHeader, err, unix.ENOENT) && !f.begun(&in.InHeader, err, unix.EEXIST) {
		return err
	}
	e := f.of(in.NodeId)
	if ent, e2 := e.Lookup(node(in.NodeId), old); e2 == nil {
		e.Forget(ent.Node, 1)
		return err
	}
	ent, e2 := e.Lookup(node(in.Newdir), name)
	if e2 != nil {
		return err
	}
	e.Forget(ent.Node, 1)
	return nil
}

// appendMark keeps with a write at the end of a file where the end was. One that was begun before is written there again.
func (f *face) appendMark(in *fuse.WriteIn, h *overlay.Handle, off int64, atEnd bool) (int64, bool) {
	if f.past == nil || !atEnd {
		return off, atEnd
	}
	if _, mark, begun := f.past.Begun(in.Unique); begun && mark != 0 {
		return int64(mark - 1), false
	}
	if st, err := f.of(in.NodeId).GetAttr(node(in.NodeId), h); err == nil {
		f.past.Mark(in.Unique, st.Size+1)
	}
	return off, atEnd
}

// commandMark keeps with a command of ctl what its agent's active task was. False: the command was begun before, and it is not
// certain that it was not done; twice it must not be.
func (f *face) commandMark(in *fuse.WriteIn, v *virtualFile, command []byte) bool {
	if f.past == nil || v.session == nil {
		return true
	}
	active := uint64(v.active()) + 1
	_, mark, begun := f.past.Begun(in.Unique)
	if !begun || mark == 0 {
		f.past.Mark(in.Unique, active)
		return true
	}
	verb, _, _ := bytes.Cut(bytes.TrimSpace(command), []byte(" "))
	switch string(verb) {
	case "agent", "end", "guard":
		return true // the same twice
	case "task", "undo", "redo", "switch", "revert", "restore":
		return mark == active && !bytes.Contains(command, []byte("agent=")) // it makes another task the active one
	}
	return false
}
