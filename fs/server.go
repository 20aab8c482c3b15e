package fs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/ttfs/ttfs/fs/control"
	"github.com/ttfs/ttfs/fs/estate"
	"github.com/ttfs/ttfs/fs/identity"
	"github.com/ttfs/ttfs/fs/overlay"
	"github.com/ttfs/ttfs/fs/transport"
	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// Options are those of a mount; the strings are as DESIGN section 2 spells them, "" for the default.
type Options struct {
	// Dir is the workspace, absolute. It is mounted over itself.
	Dir string
	// StoreDir is where the journal and the blobs are, absolute; "": in Dir/.tt.
	StoreDir string
	// Config is the configuration, absolute; "": ConfigName in the workspace, if it is there. What is given here beats it.
	Config string
	// Guard is on (default) or off. TTFS_GUARD set to 0, false, off or no switches it off as well.
	Guard string
	// Blind is allow (default), contested or deny.
	Blind string
	// Durability is process (default) or power.
	Durability string
	// OnStoreError is refuse (default) or pass.
	OnStoreError string
	// Passthrough is auto or off; "": what TTFS_PASSTHROUGH says, auto by default.
	Passthrough string
	// AllowOther lets other users in; a mount by root always does.
	AllowOther bool
	// Transport is auto (default), classic or uring.
	Transport string
	// Logger is the daemon's log.
	Logger *slog.Logger
	// ShowMoves starts the process that runs ShowMoves for this mount; empty: watchers (inotify) are not told of moves.
	ShowMoves []string
	// Pack starts the process that runs Pack for the archiver; empty: the daemon packs itself.
	Pack []string
	// Keeper keeps what a daemon that follows needs when this one is killed, or has kept it of one before; nil: the mount ends with
	// this daemon.
	Keeper *estate.Keeper
	// Known are more names of agent programs.
	Known []string
}

// Server is a mounted workspace.
type Server struct {
	o      Options
	store  *store
	engine *overlay.Engine
	conn   *transport.Conn
	face   *face
	legacy *legacy // nil: the mount ends with this daemon
	stop   context.CancelFunc
	done   sync.WaitGroup
}

// Mount opens the store, completes what a death interrupted, and mounts; it returns when the mount serves. Errors:
// *overlay.Error with Foreign, Locked or NoSpace; what mount(2) or fusermount3 says.
func Mount(o Options) (*Server, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	unix.Umask(0) // the callers' counts
	s := &Server{o: o}
	var err error
	ok := false
	defer func() {
		if !ok {
			_ = s.Close()
		}
	}()
	if s.legacy, err = s.openLegacy(); err != nil {
		return nil, err
	}
	if s.store, err = openStore(storeOptions{dir: o.Dir, under: s.legacy.under(), elsewhere: o.StoreDir, create: true, mount: true, config: o.Config, inherit: s.legacy.config(), power: o.Durability == "power", logger: o.Logger}); err != nil {
		return nil, err
	}
	c := &s.store.config
	f := &face{RawFileSystem: fuse.NewDefaultRawFileSystem(), log: o.Logger, ids: identity.New(identity.Options{Known: known(o.Known, c.known()), Logger: o.Logger}), legacy: s.legacy}
	s.face = f
	f.replay.f, f.replay.command, f.replay.dir = f, o.ShowMoves, o.Dir
	if f.owner.Uid, f.owner.Gid, err = ownerOf(s.store.root); err != nil {
		return nil, err
	}
	blind, err := overlay.ParseBlind(cmp.Or(o.Blind, c.Blind.s))
	if err != nil {
		return nil, err
	}
	back := &backend{f: f, Refusals: &control.Refusals{}, ids: f.ids, log: s.store.log, logger: o.Logger, conn: &link{}, checks: &checks{}}
	f.main = &space{back: back}
	back.sp = f.main
	s.engine, err = overlay.Open(overlay.Options{
		DirFDs: dirFDs(), Keeper: s.legacy.nodes(), Packer: packer(o.Pack),
		Guard: s.legacy.guarded(guardOn(cmp.Or(o.Guard, c.Guard.s), os.Getenv("TTFS_GUARD"))), Blind: blind, Classes: c.Classes.classes(), Refused: back.Refused,
		Root: s.store.root, Store: s.store.tt, Journal: s.store.journal, Blobs: s.store.blobs, Cut: s.store.cut,
		Notify: &notifier{f: f, sp: f.main}, ForkNotify: func(n overlay.ForkName) overlay.Notifier { return &forkNotifier{f: f, name: string(n)} }, Logger: o.Logger, Pass: o.OnStoreError == "pass", Power: o.Durability == "power",
		Events: func(line string) {
			if err := s.store.log.line(line); err != nil {
				o.Logger.Warn("the event log cannot be written", "err", err)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	s.store.noteBoot(o.Logger)
	f.carry = &carrier{ids: f.ids, e: s.engine, log: o.Logger}
	if err := f.carry.restore(); err != nil {
		return nil, err
	}
	for _, a := range s.engine.Agents() {
		f.ids.Activated(a, s.engine.Active(a))
	}
	storeDir := s.store.dir
	if !s.store.elsewhere {
		storeDir = o.Dir + "/" + overlay.StoreName
	}
	f.main.e = s.engine
	back.limits = c.limits(s.store.tt)
	back.Engine, back.info = s.engine, control.Info{PID: os.Getpid(), Mount: o.Dir, Store: storeDir}
	f.prepareLegacy()
	if err := f.serveForks(f.main); err != nil {
		return nil, err
	}
	if err := s.serve(); err != nil {
		return nil, err
	}
	ok = true
	return s, nil
}

// dirFDs is how many descriptors of directories may be kept open: a quarter of what the process may have, 2048 at most.
func dirFDs() int {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 64
	}
	return int(min(max(r.Cur/4, 16), 2048))
}

// guardOn says whether the guard is on: unless the flag or the environment says no.
func guardOn(flag, env string) bool {
	for _, s := range []string{flag, env} {
		switch strings.ToLower(strings.TrimSpace(s)) {
		case "0", "false", "off", "no":
			return false
		}
	}
	return true
}

func known(more ...[]string) []string {
	return append(slices.Clone(identity.KnownPrograms), slices.Concat(more...)...)
}

// capabilities are those that go-fuse does not ask for by itself: see DESIGN section 7.
const capabilities = fuse.CAP_ATOMIC_O_TRUNC | fuse.CAP_DIRECT_IO_ALLOW_MMAP | fuse.CAP_DONT_MASK | fuse.CAP_HANDLE_KILLPRIV_V2 |
	fuse.CAP_SETXATTR_EXT | fuse.CAP_NO_EXPORT_SUPPORT | fuse.CAP_READDIRPLUS_AUTO | fuse.CAP_ASYNC_DIO

// maxWrite is the size of the largest request: what the kernel allows without more privileges.
const maxWrite = 1 << 20

func (s *Server) serve() error {
	root := os.Geteuid() == 0
	connection := s.legacy.connection()
	conn, err := transport.Mount(transport.Options{
		Dir: s.o.Dir, Source: s.o.Dir, Type: "ttfs", FS: s.face,
		Kind: transport.Kind(cmp.Or(s.o.Transport, os.Getenv("TTFS_TRANSPORT"))), Privileged: root, AllowOther: s.o.AllowOther || root,
		MaxWrite: maxWrite, MaxBackground: 64, Capabilities: capabilities, SymlinkCaching: true,
		Slow: func(h *fuse.InHeader) bool { return isVirtual(h.NodeId) }, Logger: s.o.Logger,
		Legacy: connection, Ledger: s.legacy.ledger(), Round: s.legacy.round(),
	})
	if transport.Over(err) {
		return err
	}
	if err != nil {
		return fmt.Errorf("mount over %s: %w (`ttfs doctor` says what this machine allows)", s.o.Dir, err)
	}
	s.face.server, s.face.main.back.conn.conn = conn, conn
	can := cmp.Or(s.o.Passthrough, os.Getenv("TTFS_PASSTHROUGH")) != "off" && s.canPass(conn)
	for _, sp := range s.face.spaces() {
		sp.e.SetPassthrough(can)
	}
	s.settleLegacy(conn)
	if err := conn.Start(); err != nil {
		return fmt.Errorf("mount over %s: %w", s.o.Dir, err)
	}
	s.conn = conn
	if why := conn.Why(); why != nil {
		s.o.Logger.Info("requests come by /dev/fuse", "not by io_uring because", why)
	} else {
		s.o.Logger.Info("requests come by io_uring")
	}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.done.Go(func() { s.sweep(ctx) })
	s.done.Go(func() { s.face.carry.run(ctx) })
	s.done.Go(func() { s.keepLimits(ctx, s.store.config.limits(s.store.tt)) })
	return nil
}

// canPass tries whether the kernel takes a backing file from this daemon.
func (s *Server) canPass(conn *transport.Conn) bool {
	if !conn.Has(fuse.CAP_PASSTHROUGH) {
		return false
	}
	id, code := conn.RegisterBackingFd(&fuse.BackingMap{Fd: int32(s.store.lock.Fd())})
	if code != 0 {
		s.o.Logger.Info("files are not passed through: reads and writes take the long way", "err", code)
		return false
	}
	conn.UnregisterBackingFd(id)
	return true
}

// sweep ends agents without a process and forgets processes that have ended.
func (s *Server) sweep(ctx context.Context) {
	t := time.NewTicker(time.Minute)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			endIdle(s.face.ids, s.face.views.known, s.face.endAgent)
			s.face.ids.Sweep()
		}
	}
}

// Wait returns when the workspace is unmounted.
func (s *Server) Wait() {
	s.conn.Wait()
	if s.o.Keeper != nil {
		_ = s.o.Keeper.Say(estate.Over) // a keeper that is gone does nothing
	}
}

// Unmount unmounts. Errors: EBUSY while something in the workspace is open or a current directory.
func (s *Server) Unmount() error {
	s.face.replay.end()
	return s.conn.Unmount(false)
}

// UnmountLazy takes the mount out of the tree at once; it ends when the last that holds something of it lets go.
func (s *Server) UnmountLazy() error {
	s.face.replay.end()
	return s.conn.Unmount(true)
}

// Close ends what Mount began, after Wait.
func (s *Server) Close() error {
	var errs []error
	if s.face != nil {
		s.face.replay.close()
	}
	if s.stop != nil {
		s.stop()
		s.done.Wait()
	}
	if s.engine != nil {
		s.face.closing.Store(true)
		s.face.main.back.checks.end()
		errs = append(errs, s.engine.Close())
	}
	if s.store != nil {
		errs = append(errs, s.store.close())
	}
	if s.legacy != nil && s.face == nil {
		s.legacy.close()
	}
	return errors.Join(errs...)
}

// Detached is a store without a mount.
type Detached struct {
	Engine *overlay.Engine
	store  *store
}

// OpenDetached opens the store of a workspace that is not mounted. Errors: Locked when it is, Foreign, Invalid when there
// is no store.
func OpenDetached(dir string, readOnly bool, logger *slog.Logger) (*Detached, error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	st, err := openStore(storeOptions{dir: dir, readOnly: readOnly, logger: logger})
	if err != nil {
		return nil, err
	}
	o := overlay.Options{Root: st.root, Store: st.tt, Journal: st.journal, Blobs: st.blobs, Logger: logger, ReadOnly: readOnly, Cut: st.cut}
	if st.log != nil {
		o.Events = func(line string) { _ = st.log.line(line) } // the move itself does not depend on its line
	}
	e, err := overlay.Open(o)
	if err != nil {
		return nil, errors.Join(err, st.close())
	}
	if !readOnly {
		st.noteBoot(logger)
	}
	return &Detached{Engine: e, store: st}, nil
}

// Close closes the store.
func (d *Detached) Close() error { return errors.Join(d.Engine.Close(), d.store.close()) }

// User is whose timeline the command line acts on unless it is told otherwise.
const User = tasktree.User
