package fs

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"
)

// showStep is one thing that the daemon asks the process that shows moves to do on the mount. One line of JSON each way:
// the answer is a string, empty when it was done.
type showStep struct {
	Op showOp `json:"op"`
	// Path is relative to the root of the mount; of showBegin, that of the root itself.
	Path []byte `json:"path,omitempty"`
	// Dev is the device that the root must have, as stat(2) says it (showBegin).
	Dev uint64 `json:"dev,omitempty"`
	// Kind is the S_IFMT bits of what to make, and of what to remove.
	Kind uint32 `json:"kind,omitempty"`
}

type showOp string

const (
	showBegin  showOp = "begin"  // opens the root
	showDelete showOp = "delete" // unlink or rmdir
	showCreate showOp = "create" // open with O_EXCL, mkdir, symlink or mknod
	showModify showOp = "modify" // sets the modification time; opens for writing and closes
	showAttrib showOp = "attrib" // sets both times
	showEnd    showOp = "end"    // closes the root
)

// ShowMoves is the process that shows moves to watchers: it makes the system calls that it is told on the mount, where
// the daemon answers them without effect, until its input ends. It holds something of the mount only between begin and
// end. Preconditions: it runs on the process's first thread, by which alone the daemon knows it, and stays there.
func ShowMoves(in io.Reader, out io.Writer) error {
	if unix.Gettid() != os.Getpid() {
		return errors.New("not on the first thread")
	}
	s := shown{root: -1}
	defer s.close()
	for lines := bufio.NewReader(in); ; {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		var step showStep
		text := ""
		if err = json.Unmarshal(line, &step); err == nil {
			err = s.do(&step)
		}
		if err != nil {
			text = err.Error()
		}
		if _, err := fmt.Fprintln(out, strconv.Quote(text)); err != nil {
			return err
		}
	}
}

// shown is the mount as the process has it open.
type shown struct {
	root int // -1: it has not
}

func (s *shown) close() {
	if s.root >= 0 {
		unix.Close(s.root)
		s.root = -1
	}
}

func (s *shown) do(step *showStep) error {
	switch step.Op {
	case showBegin:
		return s.begin(string(step.Path), step.Dev)
	case showEnd:
		s.close()
		return nil
	}
	if s.root < 0 {
		return unix.EBADF
	}
	name := string(step.Path)
	if name == "" {
		return setTimes(s.root, ".", step.Op)
	}
	dir, err := openBeneath(s.root, path.Dir(name))
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	name = path.Base(name)
	switch step.Op {
	case showDelete:
		flags := 0
		if step.Kind == unix.S_IFDIR {
			flags = unix.AT_REMOVEDIR
		}
		return unix.Unlinkat(dir, name, flags)
	case showCreate:
		return create(dir, name, step.Kind)
	case showModify:
		return errors.Join(setTimes(dir, name, step.Op), openAndClose(dir, name))
	case showAttrib:
		return setTimes(dir, name, step.Op)
	}
	return unix.EINVAL
}

// begin opens the root, if what is mounted there is the filesystem that is meant.
func (s *shown) begin(root string, dev uint64) error {
	s.close()
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Dev != dev {
		unix.Close(fd)
		return errors.Join(errors.New("another filesystem is mounted over the workspace"), err)
	}
	s.root = fd
	return nil
}

func openBeneath(root int, dir string) (int, error) {
	return unix.Openat2(root, dir, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	})
}

// setTimes tells watchers of a change of content (only the modification time is set: IN_MODIFY) or of metadata (both
// are: IN_ATTRIB). Source: fsnotify_change of include/linux/fsnotify.h.
func setTimes(dir int, name string, op showOp) error {
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {}}
	if op != showModify {
		times[0] = unix.Timespec{}
	}
	return unix.UtimesNanoAt(dir, name, times, unix.AT_SYMLINK_NOFOLLOW)
}

// openAndClose tells them that a writer has closed the file. Nothing but a regular file is opened.
func openAndClose(dir int, name string) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return err
	}
	writer, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Close(writer)
}

func create(dir int, name string, kind uint32) error {
	switch kind {
	case unix.S_IFREG:
		fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return err
		}
		return errors.Join(setTimes(dir, name, showModify), unix.Close(fd))
	case unix.S_IFDIR:
		return unix.Mkdirat(dir, name, 0o700)
	case unix.S_IFLNK:
		return unix.Symlinkat("-", dir, name)
	}
	return unix.Mknodat(dir, name, kind|0o600, 0)
}
