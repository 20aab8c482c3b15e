package fs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/ttfs/ttfs/fs/control"
	"github.com/ttfs/ttfs/fs/identity"
	"github.com/ttfs/ttfs/fs/overlay"
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
	// Passthrough is auto (default) or off.
	Passthrough string
	// AllowOther lets other users in; a mount by root always does.
	AllowOther bool
	// Transport is auto (default) or classic.
	Transport string
	// Logger is the daemon's log.
	Logger *slog.Logger
	// ShowMoves starts the process that runs ShowMoves for this mount; empty: watchers (inotify) are not told of moves.
	ShowMoves []string
	// Known are more names of agent programs.
	Known []string
}

// Server is a mounted workspace.
type Server struct {
	o      Options
	store  *store
	engine *overlay.Engine
	fuse   *fuse.Server
	face   *face
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
	if s.store, err = openStore(storeOptions{dir: o.Dir, elsewhere: o.StoreDir, create: true, mount: true, config: o.Config, power: o.Durability == "power", logger: o.Logger}); err != nil {
		return nil, err
	}
	c := &s.store.config
	f := &face{RawFileSystem: fuse.NewDefaultRawFileSystem(), log: o.Logger, ids: identity.New(identity.Options{Known: known(o.Known, c.known()), Logger: o.Logger})}
	s.face = f
	f.replay.f, f.replay.command, f.replay.dir = f, o.ShowMoves, o.Dir
	if f.owner.Uid, f.owner.Gid, err = ownerOf(s.store.root); err != nil {
		return nil, err
	}
	blind, err := overlay.ParseBlind(cmp.Or(o.Blind, c.Blind.s))
	if err != nil {
		return nil, err
	}
	back := &backend{Refusals: &control.Refusals{}, ids: f.ids, log: s.store.log, logger: o.Logger}
	f.main = &space{back: back}
	s.engine, err = overlay.Open(overlay.Options{
		DirFDs: dirFDs(),
		Guard:  guardOn(cmp.Or(o.Guard, c.Guard.s), os.Getenv("TTFS_GUARD")), Blind: blind, Classes: c.Classes.classes(), Refused: back.Refused,
		Root: s.store.root, Store: s.store.tt, Journal: s.store.journal, Blobs: s.store.blobs,
		Notify: &notifier{f: f, sp: f.main}, Logger: o.Logger, Pass: o.OnStoreError == "pass", Power: o.Durability == "power",
		Events: func(line string) {
			if err := s.store.log.line(line); err != nil {
				o.Logger.Warn("the event log cannot be written", "err", err)
			}
		},
	})
	if err != nil {
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
	back.Engine, back.info = s.engine, control.Info{PID: os.Getpid(), Mount: o.Dir, Store: storeDir, Transport: "classic"}
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
	opts := &fuse.MountOptions{
		FsName: s.o.Dir, Name: "ttfs",
		Options:           []string{"default_permissions"},
		AllowOther:        s.o.AllowOther || root,
		DirectMount:       root,
		DirectMountFlags:  unix.MS_NOATIME,
		MaxWrite:          maxWrite,
		MaxBackground:     64,
		EnableAcl:         true,
		ExtraCapabilities: capabilities,
		MaxStackDepth:     1,
		Logger:            log.New(logWriter{s.o.Logger}, "", 0),
	}
	if root {
		opts.Options = append(opts.Options, "dev", "suid")
	}
	server, err := fuse.NewServer(s.face, s.o.Dir, opts)
	if err != nil {
		return fmt.Errorf("mount over %s: %w (`ttfs doctor` says what this machine allows)", s.o.Dir, err)
	}
	s.fuse, s.face.server = server, server
	closeOnExec("/dev/fuse")
	s.done.Go(server.Serve)
	if err := server.WaitMount(); err != nil {
		_ = server.Unmount()
		return fmt.Errorf("mount over %s: %w", s.o.Dir, err)
	}
	s.engine.SetPassthrough(s.o.Passthrough != "off" && s.canPass())
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.done.Go(func() { s.sweep(ctx) })
	return nil
}

// closeOnExec keeps a device from the daemon's children: one that outlived it would hold the connection, and every
// caller would wait for ever. go-fuse opens it without.
func closeOnExec(device string) {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, n := range names {
		fd, err := strconv.Atoi(n.Name())
		if err != nil {
			continue
		}
		if at, err := os.Readlink("/proc/self/fd/" + n.Name()); err == nil && at == device {
			unix.CloseOnExec(fd)
		}
	}
}

// canPass tries whether the kernel takes a backing file from this daemon.
func (s *Server) canPass() bool {
	if s.fuse.KernelSettings().Flags64()&fuse.CAP_PASSTHROUGH == 0 {
		return false
	}
	id, code := s.fuse.RegisterBackingFd(&fuse.BackingMap{Fd: int32(s.store.lock.Fd())})
	if code != 0 {
		s.o.Logger.Info("files are not passed through: reads and writes take the long way", "err", code)
		return false
	}
	s.fuse.UnregisterBackingFd(id)
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
			endIdle(s.face.ids, s.face.views.known, s.engine.EndAgent)
			s.face.ids.Sweep()
		}
	}
}

// Wait returns when the workspace is unmounted.
func (s *Server) Wait() { s.fuse.Wait() }

// Unmount unmounts. Errors: EBUSY while something in the workspace is open or a current directory.
func (s *Server) Unmount() error {
	s.face.replay.end()
	if os.Geteuid() == 0 {
		return unix.Unmount(s.o.Dir, unix.UMOUNT_NOFOLLOW)
	}
	return s.fuse.Unmount()
}

// UnmountLazy takes the mount out of the tree at once; it ends when the last that holds something of it lets go.
func (s *Server) UnmountLazy() error {
	s.face.replay.end()
	if os.Geteuid() == 0 {
		return unix.Unmount(s.o.Dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	}
	return s.fuse.Unmount()
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
		errs = append(errs, s.engine.Close())
	}
	if s.store != nil {
		errs = append(errs, s.store.close())
	}
	return errors.Join(errs...)
}

// logWriter gives go-fuse's own lines to the daemon's log.
type logWriter struct{ l *slog.Logger }

// Write is one line.
func (w logWriter) Write(b []byte) (int, error) {
	w.l.Warn(string(b), "from", "go-fuse")
	return len(b), nil
}

var _ io.Writer = logWriter{}

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
	o := overlay.Options{Root: st.root, Store: st.tt, Journal: st.journal, Blobs: st.blobs, Logger: logger, ReadOnly: readOnly}
	if st.log != nil {
		o.Events = func(line string) { _ = st.log.line(line) } // the move itself does not depend on its line
	}
	e, err := overlay.Open(o)
	if err != nil {
		return nil, errors.Join(err, st.close())
	}
	return &Detached{Engine: e, store: st}, nil
}

// Close closes the store.
func (d *Detached) Close() error { return errors.Join(d.Engine.Close(), d.store.close()) }

// User is whose timeline the command line acts on unless it is told otherwise.
const User = tasktree.User
