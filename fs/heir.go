package fs

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/ttfs/ttfs/fs/control"
	"github.com/ttfs/ttfs/fs/estate"
	"github.com/ttfs/ttfs/fs/overlay"
	"github.com/ttfs/ttfs/fs/transport"
	"github.com/ttfs/ttfs/guard"
	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// A mount outlives its daemon where a process keeps /dev/fuse and the estate for it (Options.Keeper). This is what of the
// face is kept, and how a daemon that follows takes it up.

// legacy is what is kept, or was.
type legacy struct {
	*estate.Estate
	keeper *estate.Keeper
	heir   bool // there was a daemon before
	// root and dev are what that one had: the directory below the mount, and /dev/fuse.
	root, dev int
	// text is what that one read of the configuration.
	text int
}

// openLegacy makes an estate, or opens the one that was left. nil: the mount will not outlive its daemon.
func (s *Server) openLegacy() (*legacy, error) {
	k := s.o.Keeper
	switch {
	case k == nil:
		return nil, nil
	case k.Heir():
		fd, err := k.Copy(estate.NameMemory)
		if err != nil {
			return nil, err
		}
		l := &legacy{keeper: k, heir: true, root: -1, dev: -1, text: -1}
		if l.Estate, err = estate.Open(fd); err != nil {
			return nil, err
		}
		if l.root, err = k.Copy(estate.NameRoot); err == nil {
			l.dev, err = k.Copy(estate.NameFuse)
		}
		if err == nil {
			l.text, err = k.Copy(estate.NameConfig)
		}
		if err != nil {
			l.close()
			return nil, err
		}
		return l, nil
	case s.kind() != transport.Classic && transport.Offered() == nil:
		s.alone(errByRing)
		return nil, nil
	}
	e, err := estate.New()
	if err != nil {
		s.alone(err)
		return nil, nil
	}
	return &legacy{Estate: e, keeper: k}, nil
}

// close lets go of what a daemon could not go on with.
func (l *legacy) close() {
	_ = l.Estate.Close() // nothing is written to it any more
	for _, fd := range []int{l.root, l.dev, l.text} {
		if fd > 0 {
			unix.Close(fd)
		}
	}
}

// kind is the transport that was asked for.
func (s *Server) kind() transport.Kind {
	return transport.Kind(cmp.Or(s.o.Transport, os.Getenv("TTFS_TRANSPORT"), string(transport.Auto)))
}

// alone lets the keeper go.
func (s *Server) alone(why error) {
	s.o.Logger.Info("the mount ends with this daemon if that is killed", "why", why)
	_ = s.o.Keeper.Say(estate.Alone) // it may be gone
}

// What a server asks of a legacy that it may not have.

func (l *legacy) under() int {
	if l == nil {
		return 0
	}
	return l.root
}

// config gives what was kept of the configuration, once; 0: nothing was.
func (l *legacy) config() int {
	if l == nil || l.text < 0 {
		return 0
	}
	fd := l.text
	l.text = -1
	return fd
}

func (l *legacy) nodes() overlay.Keeper {
	if l == nil {
		return nil
	}
	return l
}

func (l *legacy) ledger() []byte {
	if l == nil {
		return nil
	}
	return l.Notes()
}

func (l *legacy) round() uint32 {
	if l == nil {
		return 0
	}
	return l.Round()
}

func (l *legacy) connection() *transport.Legacy {
	if l == nil || !l.heir {
		return nil
	}
	return &transport.Legacy{FD: l.dev, Agreement: l.Agreement()}
}

// prepareLegacy gives numbers that no daemon before gave, and takes up the views. Preconditions: no fork is served yet.
func (f *face) prepareLegacy() {
	l := f.legacy
	if l == nil {
		return
	}
	f.handles.next, f.virtuals.above = uint64(l.Round())<<40, uint64(l.Round())<<40
	if l.heir {
		f.restoreViews()
	}
	f.views.keep = l.PutView
}

// settleLegacy settles whether the mount outlives this daemon, and takes up what one before has left. Preconditions: no request is
// handled yet.
func (s *Server) settleLegacy(conn *transport.Conn) {
	f := s.face
	if s.legacy == nil {
		return
	}
	if s.legacy.heir {
		f.past = conn
		f.restore()
		return
	}
	err := outlives(conn)
	if err == nil {
		err = s.entrust(conn)
	}
	if err != nil {
		s.alone(err)
		s.legacy, f.legacy = nil, nil
		return
	}
	f.past = conn
}

var _ overlay.Keeper = (*legacy)(nil)

func goneName(id overlay.NodeID) string { return estate.NameGone + strconv.FormatUint(uint64(id), 10) }

// Hold has the keeper keep the last descriptor of an inode. Without a keeper it is gone with this daemon.
func (l *legacy) Hold(id overlay.NodeID, fd int) { _ = l.keeper.Keep(goneName(id), fd) }

// Unhold lets it go.
func (l *legacy) Unhold(id overlay.NodeID) { _ = l.keeper.Drop(goneName(id)) }

// Held is what was kept.
func (l *legacy) Held(id overlay.NodeID) (int, bool) { return l.keeper.Take(goneName(id)) }

// entrust has the keeper keep what it takes to go on with the mount. The mount then outlives this daemon.
func (s *Server) entrust(conn *transport.Conn) error {
	l := s.legacy
	if err := l.SetAgreement(conn.Agreement()); err != nil {
		return err
	}
	dev, err := conn.Device()
	if err != nil {
		return err
	}
	defer unix.Close(dev)
	text, err := unix.MemfdCreate("ttfs configuration", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("memfd_create: %w", err)
	}
	defer unix.Close(text)
	if _, err := unix.Pwrite(text, s.store.text, 0); err != nil {
		return fmt.Errorf("keep the configuration: %w", err)
	}
	for _, what := range []struct {
		name string
		fd   int
	}{{estate.NameMemory, l.FD()}, {estate.NameRoot, s.store.root}, {estate.NameConfig, text}, {estate.NameFuse, dev}} {
		if err := l.keeper.Keep(what.name, what.fd); err != nil {
			return fmt.Errorf("have %s kept: %w", what.name, err)
		}
	}
	return nil
}

// errByRing: what the kernel is about to hand to a thread of a ring that ends is in nobody's hands, and it is not sent again
// (fuse_uring_send_in_task with IO_URING_F_TASK_DEAD; fuse_resend goes through /dev/fuse alone).
var errByRing = errors.New("requests come by io_uring, and what a ring has in hand is lost with its process")

// outlives says why the mount does not outlive its daemon; nil when it does.
func outlives(conn *transport.Conn) error {
	switch {
	case conn.MayRing():
		return errByRing
	case !conn.CanResend():
		return errors.New("the kernel does not send requests again (Linux 6.9)")
	}
	return nil
}

// Over says whether a daemon could not go on with a mount because that has gone meanwhile: there is nothing to do.
func Over(err error) bool { return transport.Over(err) }

// keepFile keeps an open file, before the kernel hears of it.
func (f *face) keepFile(id, fh uint64, h *overlay.Handle, backing int32) {
	if f.legacy == nil || !f.isKept(id) {
		return
	}
	k := h.Kept()
	record := f.legacy.PutHandle(&estate.Handle{
		FH: fh, Node: id, Kind: estate.File, Mode: uint8(k.Mode), Backed: k.Backed, Privileged: k.Privileged, Rewrites: k.Rewrites,
		Flags: k.Flags, Backing: backing, PID: uint32(k.Proc.PID), Start: k.Proc.Start, Agent: string(k.Agent),
	})
	f.endsWith(fh, h, record)
}

// isKept says whether what is open in the view of a node is kept: forks are not.
func (f *face) isKept(id uint64) bool { return f.space(id) == f.main }

func (f *face) endsWith(fh uint64, h *overlay.Handle, record uint32) {
	if record == 0 {
		return
	}
	f.handles.record(fh, record)
	l := f.legacy
	h.OnEnd(func() { l.DropHandle(record) })
}

// keepOther keeps what else is open.
func (f *face) keepOther(h estate.Handle) {
	if f.legacy == nil {
		return
	}
	if record := f.legacy.PutHandle(&h); record != 0 {
		f.handles.record(h.FH, record)
	}
}

// unkeep takes the record of what the kernel lets go. A file's stays until nothing is left of it.
func (f *face) unkeep(fh uint64, file bool) {
	if f.legacy == nil {
		return
	}
	record := f.handles.unrecord(fh)
	switch {
	case record == 0:
	case file:
		f.legacy.ReleaseHandle(record)
	default:
		f.legacy.DropHandle(record)
	}
}

// restore takes up what the kernel has of the daemon before. No request is under way yet.
func (f *face) restore() {
	l := f.legacy
	l.Taken()
	f.main.e.RestoreNodes(l.NextNode(), l.Nodes)
	var files []estate.Handle
	var records []uint32
	l.Handles(func(i uint32, h estate.Handle) { files, records = append(files, h), append(records, i) })
	lost := 0
	for i := range files {
		if !f.reopen(records[i], &files[i]) {
			if !files[i].Released {
				lost++
			}
			l.DropHandle(records[i])
		}
	}
	for _, name := range l.keeper.Rest() {
		_ = l.keeper.Drop(name) // of a node that is no more
	}
	f.log.Info("going on where a daemon before this one was killed", "round", l.Round(), "open", len(files), "lost", lost)
}

// reopen opens again what was open. False: it cannot be; of a file that is passed through, the kernel reads and writes on.
func (f *face) reopen(record uint32, k *estate.Handle) bool {
	switch k.Kind {
	case estate.File:
		h, err := f.main.e.Reopen(overlay.KeptHandle{
			Node: node(k.Node), Flags: k.Flags, Mode: overlay.Mode(k.Mode), Backed: k.Backed, Privileged: k.Privileged, Rewrites: k.Rewrites,
			Agent: tasktree.Agent(k.Agent), Proc: guard.Process{PID: int(k.PID), Start: k.Start},
		})
		if err != nil && k.Released {
			return false // nobody has a name of it, or it open: what a mapping may still do to it nobody can want back
		}
		if err != nil {
			f.log.Warn("an open file is lost with the daemon before", "node", k.Node, "err", err)
			return false
		}
		if k.Released {
			l := f.legacy
			h.OnEnd(func() { l.DropHandle(record) })
			f.main.e.Release(h)
			return true
		}
		f.handles.put(k.FH, h)
		f.endsWith(k.FH, h, record)
		f.mapped.opened(k.Node, k.Flags)
		if k.Backing != 0 {
			f.backings.again(backingKey{f.main, node(k.Node)}, k.Backing)
		}
		return true
	case estate.Dir:
		d, err := f.main.e.OpenDir(node(k.Node))
		if err != nil {
			f.log.Warn("an open directory is lost with the daemon before", "node", k.Node, "err", err)
			return false
		}
		f.handles.put(k.FH, d)
	case estate.Virtual, estate.VirtualDir:
		h, err := f.openAgain(k)
		if err != nil {
			f.log.Debug("an open file below .tt is lost with the daemon before", "path", k.Path, "err", err)
			return false
		}
		f.handles.put(k.FH, h)
	}
	f.handles.record(k.FH, record)
	return true
}

// openAgain opens a name below `.tt` that was open. Its content is that of now; the node is the kernel's, by its number.
func (f *face) openAgain(k *estate.Handle) (any, error) {
	c := control.Caller{Agent: tasktree.Agent(k.Agent), PID: int(k.PID)}
	v := virtual{path: overlay.StoreName, n: control.Tree(f.main.back)}
	for name := range strings.SplitSeq(strings.TrimPrefix(k.Path, overlay.StoreName), "/") {
		if name == "" {
			continue
		}
		var err error
		if v, err = f.below(&v, name, c); err != nil {
			return nil, err
		}
		if v.tree != nil || v.as || v.space != nil {
			return nil, unix.ESTALE
		}
	}
	f.virtuals.put(k.Node, v)
	if k.Kind == estate.VirtualDir {
		d, s := f.listVirtual(&v)
		if !s.Ok() {
			return nil, unix.Errno(s)
		}
		return d, nil
	}
	h, _, err := f.openVirtualFile(&v, c, k.Flags)
	return h, err
}
