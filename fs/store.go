package fs

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/ttfs/ttfs/cas"
	"github.com/ttfs/ttfs/fs/overlay"
	"github.com/ttfs/ttfs/journal"
	"golang.org/x/sys/unix"
)

// formatLine is the whole of `.tt/format`. The number is that of the layout of the store.
const formatLine = "ttfs 2\n"

// olderFormats are read as they are, and become formatLine before anything is written that they do not have.
var olderFormats = []string{"ttfs 1\n"}

// store is an open `.tt`, with the journal and the blobs, which may be elsewhere.
type store struct {
	dir string // where the journal and the blobs are
	// elsewhere: dir is not below .tt.
	elsewhere bool
	older     bool // it has one of olderFormats
	root      int  // the workspace
	tt        int  // .tt
	lock      *os.File
	log       *eventLog
	journal   *journal.Journal
	blobs     *cas.Store
	config    config         // of a mount
	text      []byte         // of config
	lost      []journal.Lost // by a repair
	cut       bool           // the machine stopped while it was open for writing
	written   bool           // it is open for writing, and noteBoot has said so
}

// storeOptions are how to open a store.
type storeOptions struct {
	dir       string // the workspace
	under     int    // a descriptor of it as it is below a mount; 0: none is over it
	elsewhere string // absolute path for the journal and the blobs; "" for where they are, or `.tt`
	create    bool
	readOnly  bool
	power     bool
	mount     bool         // read the configuration first
	repair    func(string) // mend what is damaged, and say what is done; nil: damage is an error
	config    string       // absolute path of the configuration; "" for the workspace's own
	inherit   int          // a descriptor of what a daemon before this one read of it; -1, 0: none has
	logger    *slog.Logger
}

func foreign(dir, what string) error {
	return &overlay.Error{Op: "open", Path: filepath.Join(dir, overlay.StoreName), Kind: overlay.Foreign, Err: errors.New(what)}
}

// openStore opens, or makes, the store of a workspace. Errors: Foreign for a `.tt` that is not ours, of another owner or
// of an unknown format; Invalid for a configuration that is not understood; Locked when a daemon serves it. Nothing of a foreign directory is changed.
func openStore(o storeOptions) (s *store, err error) {
	s = &store{root: -1, tt: -1}
	defer func() {
		if err != nil {
			s.close()
			s = nil
		}
	}()
	if o.under > 0 {
		s.root, err = unix.FcntlInt(uintptr(o.under), unix.F_DUPFD_CLOEXEC, 3)
	} else {
		s.root, err = unix.Open(o.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return s, &overlay.Error{Op: "open", Path: o.dir, Kind: overlay.Invalid, Err: fmt.Errorf("the workspace must be a directory that is there: %w", err)}
	}
	uid, gid, err := ownerOf(s.root)
	if err != nil {
		return s, err
	}
	if o.mount {
		if o.inherit > 0 {
			s.config, s.text, err = inheritConfig(o.inherit, o.config)
		} else {
			s.config, s.text, err = loadConfig(s.root, o.config, uid)
		}
		if err != nil {
			return s, err
		}
	}
	if err := s.openTT(o, int(uid), int(gid)); err != nil {
		return s, err
	}
	if s.lock, err = os.OpenFile(fdPath(s.tt, "lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600); err != nil && !o.readOnly {
		return s, fmt.Errorf("open the store's lock: %w", err)
	}
	if s.lock != nil {
		if err := lockStore(s.lock); err != nil {
			return s, &overlay.Error{Op: "open", Path: o.dir, Kind: overlay.Locked, Err: errors.New("a ttfs daemon serves this workspace already; `ttfs status` says which, `ttfs unmount` ends it, and says whose it is when it is not mounted here")}
		}
	}
	s.cut = wasCut(s.tt)
	if err := s.locate(o, int(uid), int(gid)); err != nil {
		return s, err
	}
	// Before either is opened: a store that is refused is left as it is.
	if err := errors.Join(journal.Recognize(filepath.Join(s.dir, "journal")), cas.Recognize(filepath.Join(s.dir, "cas"))); err != nil {
		return s, storeFailure(s.dir, err)
	}
	if s.older && !o.readOnly {
		if err := s.writeFormat(int(uid), int(gid)); err != nil {
			return s, err
		}
	}
	if !o.readOnly {
		if s.log, err = openEventLog(s.tt, int(uid), int(gid)); err != nil {
			s.log = nil
			return s, err
		}
		giveTo(s.tt, "lock", int(uid), int(gid))
	}
	floor := s.config.Limits.Floor.n
	if floor == 0 {
		floor = floorFor(s.tt)
	}
	jo := journal.Options{Logger: o.logger, SyncEvery: o.power, ReadOnly: o.readOnly, FloorBytes: floor}
	co := cas.Options{Logger: o.logger, ReadOnly: o.readOnly, FloorBytes: floor}
	if o.repair != nil {
		return s, s.repair(o.repair, jo, co)
	}
	if s.journal, err = journal.Open(filepath.Join(s.dir, "journal"), jo); err != nil {
		return s, storeFailure(s.dir, err)
	}
	if s.blobs, err = cas.Open(filepath.Join(s.dir, "cas"), co); err != nil {
		return s, storeFailure(s.dir, err)
	}
	s.journal.Reserve()
	return s, nil
}

// defaultFloor is the floor of journal and blobs.
const defaultFloor = 32 << 20

// floorFor is the free space that is kept on a small disk, where 32 MiB would be much of it: a fiftieth, at least 2 MiB.
// 0: the default.
func floorFor(fd int) int64 {
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return 0
	}
	floor := max(int64(st.Blocks)*st.Bsize/50, 2<<20)
	if floor >= defaultFloor {
		return 0
	}
	return floor
}

func storeFailure(dir string, err error) error {
	switch {
	case errors.Is(err, journal.ErrFormat), errors.Is(err, cas.ErrFormat):
		return &overlay.Error{Op: "open", Path: dir, Kind: overlay.Foreign, Err: fmt.Errorf("the store has a format that this ttfs does not know; use the ttfs that wrote it, or a newer one: %w", err)}
	case errors.Is(err, journal.ErrLocked), errors.Is(err, cas.ErrLocked):
		return &overlay.Error{Op: "open", Path: dir, Kind: overlay.Locked, Err: fmt.Errorf("another process has the store open; unmount it first: %w", err)}
	case errors.Is(err, journal.ErrNoSpace), errors.Is(err, cas.ErrNoSpace):
		return &overlay.Error{Op: "open", Path: dir, Kind: overlay.NoSpace, Err: fmt.Errorf("its disk has not even room for opening it; remove something from there, anything: a few hundred KiB do: %w", err)}
	}
	return fmt.Errorf("open the store in %s: %w", dir, err)
}

func fdPath(fd int, name string) string { return fmt.Sprintf("/proc/self/fd/%d/%s", fd, name) }

func giveTo(dir int, name string, uid, gid int) {
	if os.Geteuid() == 0 {
		_ = unix.Fchownat(dir, name, uid, gid, unix.AT_SYMLINK_NOFOLLOW) // the mode keeps others out in any case
	}
}

// openTT opens `.tt`, or makes it. What is there and not ours is left alone.
func (s *store) openTT(o storeOptions, uid, gid int) (err error) {
	s.tt, err = unix.Openat(s.root, overlay.StoreName, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case err == unix.ENOENT && o.create:
		return s.makeTT(uid, gid)
	case err == unix.ENOENT:
		return &overlay.Error{Op: "open", Path: o.dir, Kind: overlay.Invalid, Err: errors.New("this is no ttfs workspace; `ttfs mount` makes it one")}
	case err != nil:
		return foreign(o.dir, "it is there, but it is not a directory of ttfs; move it away to use ttfs here")
	}
	owner, _, err := ownerOf(s.tt)
	if err != nil {
		return err
	}
	if int(owner) != uid {
		return foreign(o.dir, fmt.Sprintf("it belongs to user %d and the workspace to user %d; give both to one owner (chown)", owner, uid))
	}
	format, err := os.ReadFile(fdPath(s.tt, "format"))
	switch {
	case errors.Is(err, os.ErrNotExist):
		// A death may have come right after mkdir: then it is empty.
		if names, err := os.ReadDir(fdPath(s.tt, ".")); err == nil && o.create && onlyOurs(names) {
			return s.fillTT(uid, gid)
		}
		return foreign(o.dir, "it holds no `format` file, so ttfs did not make it; move it away to use ttfs here")
	case err != nil:
		return err
	case !bytes.HasPrefix(format, []byte("ttfs ")):
		return foreign(o.dir, "ttfs did not make it; move it away to use ttfs here")
	case slices.Contains(olderFormats, string(format)):
		s.older = true
	case string(format) != formatLine:
		return foreign(o.dir, fmt.Sprintf("its format is %q and this ttfs knows only %q; use the ttfs that wrote it, or a newer one", strings.TrimSpace(string(format)), strings.TrimSpace(formatLine)))
	}
	return nil
}

// onlyOurs says whether a `.tt` without `format` holds nothing but what its making had come to.
func onlyOurs(names []os.DirEntry) bool {
	for _, n := range names {
		if n.Name() != ".gitignore" && n.Name() != "hold" && n.Name() != "daemon.log" && n.Name() != "format.new" {
			return false
		}
	}
	return true
}

func (s *store) makeTT(uid, gid int) (err error) {
	var st unix.Stat_t
	if err := unix.Fstatat(s.root, "", &st, unix.AT_EMPTY_PATH); err != nil {
		return err
	}
	// Mounting changes nothing of the workspace, not even the time of its directory.
	defer func() {
		_ = unix.UtimesNanoAt(unix.AT_FDCWD, fdPath(s.root, "."), []unix.Timespec{st.Atim, st.Mtim}, 0)
	}()
	if err := unix.Mkdirat(s.root, overlay.StoreName, 0o700); err != nil {
		return fmt.Errorf("make .tt: %w", err)
	}
	if s.tt, err = unix.Openat(s.root, overlay.StoreName, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != nil {
		return err
	}
	return s.fillTT(uid, gid)
}

// fillTT writes what makes a directory a store; `format` comes last, whole.
func (s *store) fillTT(uid, gid int) error {
	giveTo(s.root, overlay.StoreName, uid, gid)
	if err := unix.Mkdirat(s.tt, "hold", 0o700); err != nil && err != unix.EEXIST {
		return fmt.Errorf("make .tt/hold: %w", err)
	}
	giveTo(s.tt, "hold", uid, gid)
	if err := os.WriteFile(fdPath(s.tt, ".gitignore"), []byte("*\n"), 0o600); err != nil {
		return fmt.Errorf("make .tt/.gitignore: %w", err)
	}
	giveTo(s.tt, ".gitignore", uid, gid)
	return s.writeFormat(uid, gid)
}

// writeFormat says that the store has this ttfs's format, whole or not at all.
func (s *store) writeFormat(uid, gid int) error {
	if err := os.WriteFile(fdPath(s.tt, "format.new"), []byte(formatLine), 0o600); err != nil {
		return fmt.Errorf("make .tt/format: %w", err)
	}
	giveTo(s.tt, "format.new", uid, gid)
	return unix.Renameat(s.tt, "format.new", s.tt, "format")
}

// locate says where the journal and the blobs are: in `.tt`, or where the file `store` in it says.
func (s *store) locate(o storeOptions, uid, gid int) error {
	named, err := os.ReadFile(fdPath(s.tt, "store"))
	at := strings.TrimSuffix(string(named), "\n")
	switch {
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return err
	case err != nil && o.elsewhere == "":
		s.dir = fdPath(s.tt, ".")
		return nil
	case err != nil:
		if _, err := os.Lstat(fdPath(s.tt, "journal")); err == nil {
			return foreign(o.dir, "the store is in it already; move its journal and cas directories to the place that --store names, or leave --store out")
		}
		if err := os.MkdirAll(o.elsewhere, 0o700); err != nil {
			return fmt.Errorf("make the store: %w", err)
		}
		if names, err := os.ReadDir(o.elsewhere); err != nil || len(names) > 0 {
			return &overlay.Error{Op: "open", Path: o.elsewhere, Kind: overlay.Foreign, Err: errors.New("--store must name an empty directory, or one that this workspace uses already")}
		}
		if err := os.Chown(o.elsewhere, uid, gid); err != nil && os.Geteuid() == 0 {
			return err
		}
		if err := os.WriteFile(fdPath(s.tt, "store.new"), []byte(o.elsewhere+"\n"), 0o600); err != nil {
			return err
		}
		giveTo(s.tt, "store.new", uid, gid)
		if err := unix.Renameat(s.tt, "store.new", s.tt, "store"); err != nil {
			return err
		}
		s.dir, s.elsewhere = o.elsewhere, true
		return nil
	case o.elsewhere != "" && o.elsewhere != at:
		return foreign(o.dir, fmt.Sprintf("its store is in %s; leave --store out, or move the store there and write the new path into .tt/store", at))
	}
	var st syscall.Stat_t
	if err := syscall.Stat(at, &st); err != nil {
		return &overlay.Error{Op: "open", Path: at, Kind: overlay.IO, Err: fmt.Errorf("the store of this workspace is not there (.tt/store names it): %w", err)}
	}
	if int(st.Uid) != uid {
		return foreign(o.dir, fmt.Sprintf("its store in %s belongs to user %d, not to the owner of the workspace", at, st.Uid))
	}
	s.dir, s.elsewhere = at, true
	return nil
}

func (s *store) close() error {
	var errs []error
	if s.journal != nil {
		errs = append(errs, s.journal.Close())
	}
	if s.blobs != nil {
		errs = append(errs, s.blobs.Close())
	}
	if s.written && errors.Join(errs...) == nil {
		errs = append(errs, unix.Unlinkat(s.tt, bootName, 0))
	}
	if s.log != nil {
		errs = append(errs, s.log.close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	for _, fd := range []int{s.tt, s.root} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	return errors.Join(errs...)
}
