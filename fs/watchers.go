package fs

import (
	"bytes"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// scanLimit is how long the search for watchers may take. What is not known by then counts as watched.
const scanLimit = 50 * time.Millisecond

// watched is which inodes of one filesystem somebody watches with inotify(7).
type watched struct {
	// all: it could not be found out; any may be.
	all  bool
	inos map[uint64]bool
}

func (w watched) none() bool { return !w.all && len(w.inos) == 0 }

func (w watched) has(ino uint64) bool { return w.all || w.inos[ino] }

// findWatched asks the processes of /proc (procDir) for their inotify watches on a device. It reads nothing that makes
// the filesystem itself be asked. Processes that may not be looked into count as watching nothing: they belong to others.
func findWatched(procDir string, dev uint64, limit time.Duration) watched {
	until := time.Now().Add(limit)
	w := watched{inos: map[uint64]bool{}}
	proc, err := unix.Open(procDir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return watched{all: true}
	}
	defer unix.Close(proc)
	s := scan{dev: dev, found: w.inos}
	err = s.names(proc, func(pid string) bool {
		if pid[0] >= '1' && pid[0] <= '9' {
			s.process(proc, pid)
		}
		return time.Now().Before(until)
	})
	if err != nil || !time.Now().Before(until) {
		return watched{all: true}
	}
	return w
}

// scan is a search under way.
type scan struct {
	dev   uint64
	found map[uint64]bool
	link  [64]byte
}

// names calls f with each name in an open directory until f says false. A buffer that is not full is not the last: a
// signal cuts it short (filldir64 of fs/readdir.c), and the runtime sends many.
func (s *scan) names(dir int, f func(string) bool) error {
	buf := make([]byte, 8192)
	var names []string
	for {
		n, err := unix.ReadDirent(dir, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return err
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names[:0])
		for _, name := range names {
			if !f(name) {
				return nil
			}
		}
	}
}

// process looks at the descriptors of a process. What fails is passed over: the process has ended, or is not ours.
func (s *scan) process(proc int, pid string) {
	fds, err := unix.Openat(proc, pid+"/fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fds)
	_ = s.names(fds, func(fd string) bool {
		if n, err := unix.Readlinkat(fds, fd, s.link[:]); err == nil && isInotify(s.link[:n]) {
			s.watches(proc, pid+"/fdinfo/"+fd)
		}
		return true
	})
}

func isInotify(link []byte) bool {
	s := string(link)
	return s == "anon_inode:inotify" || s == "anon_inode:[inotify]"
}

// watches reads the watches of one inotify descriptor. Source: proc(5), fdinfo.
func (s *scan) watches(proc int, info string) {
	fd, err := unix.Openat(proc, info, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	buf := make([]byte, 16<<10)
	var rest []byte
	for {
		n, err := unix.Read(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			break
		}
		rest = append(rest, buf[:n]...)
		for {
			line, after, whole := bytes.Cut(rest, []byte("\n"))
			if !whole {
				break
			}
			rest = after
			s.line(line)
		}
	}
	s.line(rest)
}

func (s *scan) line(line []byte) {
	if ino, dev, ok := parseWatch(line); ok && dev == s.dev {
		s.found[ino] = true
	}
}

// parseWatch reads a line of fdinfo like
//
//	inotify wd:1 ino:5a3 sdev:2d mask:fce ignored_mask:0 fhandle-bytes:c fhandle-type:81 f_handle:…
//
// whose numbers are hexadecimal, and whose sdev is the device as the kernel keeps it: major<<20 | minor.
func parseWatch(line []byte) (ino, dev uint64, ok bool) {
	fields := strings.Fields(string(line))
	if len(fields) == 0 || fields[0] != "inotify" {
		return 0, 0, false
	}
	seen := 0
	for _, field := range fields[1:] {
		name, value, _ := strings.Cut(field, ":")
		var to *uint64
		switch name {
		case "ino":
			to = &ino
		case "sdev":
			to = &dev
		default:
			continue
		}
		n, err := strconv.ParseUint(value, 16, 64)
		if err != nil {
			return 0, 0, false
		}
		*to = n
		seen++
	}
	return ino, dev, seen == 2
}

// mountDevice finds, in the text of /proc/self/mountinfo, the device of the topmost ttfs that is mounted at a directory,
// as the kernel keeps it.
func mountDevice(mountinfo, dir string) (dev uint64, ok bool) {
	dir = path.Clean(dir)
	for line := range strings.Lines(mountinfo) {
		left, right, found := strings.Cut(line, " - ")
		fields, kinds := strings.Fields(left), strings.Fields(right)
		if !found || len(fields) < 5 || len(kinds) < 1 || !strings.HasPrefix(kinds[0], "fuse.ttfs") || unescapeMount(fields[4]) != dir {
			continue
		}
		first, second, _ := strings.Cut(fields[2], ":")
		major, err1 := strconv.ParseUint(first, 10, 32)
		minor, err2 := strconv.ParseUint(second, 10, 32)
		if err1 == nil && err2 == nil {
			dev, ok = major<<20|minor, true
		}
	}
	return dev, ok
}

// unescapeMount takes back what proc(5) escapes in a path.
func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
