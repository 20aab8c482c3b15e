package identity

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// procfs reads a proc directory.
type procfs struct{ dir string }

// stat is what /proc/PID/stat tells.
type stat struct {
	ppid, session int
	start         uint64
	image         image
	// dead: a zombie, which has neither memory nor further requests.
	dead bool
}

// image is what an exec changes: the name, and where the kernel put the program's arguments and environment. The
// addresses are 0 to a reader who may not trace the process; then the name alone must do.
type image struct {
	comm string
	at   [4]uint64
}

// moved says that the addresses tell the images apart.
func (a image) moved(b image) bool { return a.at != b.at }

// vanished says that an error of stat means that there is no such process; any other (no descriptors left) says nothing.
func vanished(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}

// errFormat is a proc file that does not look like one.
var errFormat = errors.New("unexpected format")

// file reads at most limitBytes of a process's file. It goes past package os, which asks of every file whether it can be
// polled: six system calls more for one of the most frequent reads of the daemon. whole says whether a read that does not
// fill its buffer was the last one.
func (p procfs) file(pid int, name string, limitBytes int, whole bool) ([]byte, error) {
	path := p.dir + "/" + strconv.Itoa(pid) + "/" + name
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	for err == unix.EINTR {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	b := make([]byte, 0, min(limitBytes, 1024))
	for len(b) < limitBytes {
		if len(b) == cap(b) {
			b = slices.Grow(b, min(len(b), limitBytes-len(b)))
		}
		room := b[len(b):min(cap(b), limitBytes)]
		n, err := unix.Read(fd, room)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, err
		}
		b = b[:len(b)+n]
		if n == 0 || whole && n < len(room) {
			break
		}
	}
	return b, nil
}

// stat reads /proc/PID/stat, of a process or of a thread.
func (p procfs) stat(pid int) (stat, error) {
	b, err := p.file(pid, "stat", 8<<10, true) // one read is one snapshot (seq_file)
	if err != nil {
		return stat{}, err
	}
	return parseStat(b)
}

// parseStat takes a line of stat apart. The name may hold blanks, newlines and parentheses: the last ')' ends it.
// Source: proc_pid_stat(5); fields are counted from 1 there.
func parseStat(b []byte) (stat, error) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || end < open {
		return stat{}, errFormat
	}
	rest := strings.Fields(string(b[end+1:]))
	const first = 3 // the field that rest begins with
	if len(rest) <= 22-first {
		return stat{}, errFormat
	}
	number := func(field int) uint64 {
		if field-first >= len(rest) {
			return 0
		}
		n, _ := strconv.ParseUint(rest[field-first], 10, 64)
		return n
	}
	ppid, err1 := strconv.Atoi(rest[4-first])
	session, err2 := strconv.Atoi(rest[6-first])
	start, err3 := strconv.ParseUint(rest[22-first], 10, 64)
	if errors.Join(err1, err2, err3) != nil {
		return stat{}, errFormat
	}
	return stat{
		ppid: ppid, session: session, start: start,
		// The first thread of a living process may have ended: a zombie among other threads.
		dead: strings.ContainsAny(rest[0], "ZXx") && number(20) <= 1,
		image: image{
			comm: string(b[open+1 : end]),
			at:   [4]uint64{number(26), number(28), number(48), number(50)},
		},
	}, nil
}

// tgid is the process of a thread.
func (p procfs) tgid(tid int) (int, error) {
	b, err := p.file(tid, "status", 64<<10, true)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "Tgid:"); ok {
			return strconv.Atoi(strings.TrimSpace(v))
		}
	}
	return 0, errFormat
}

// envAgent is the value of TTFS_AGENT in the initial environment of a process, "" when there is no valid one.
func (p procfs) envAgent(pid int) (tasktree.Agent, error) {
	b, err := p.file(pid, "environ", 4<<20, false)
	if err != nil {
		return "", err
	}
	for v := range bytes.SplitSeq(b, []byte{0}) {
		if name, ok := bytes.CutPrefix(v, []byte("TTFS_AGENT=")); ok {
			if a := tasktree.Agent(name); ValidName(a) {
				return a, nil
			}
			return "", nil
		}
	}
	return "", nil
}

// args are the first arguments of a process.
func (p procfs) args(pid int) ([]string, error) {
	b, err := p.file(pid, "cmdline", 4<<10, false)
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimRight(string(b), "\x00"), "\x00"), nil
}

// program is the name of the agent program that a process runs, "" when it runs none: its name, its first argument, or,
// below an interpreter, the script.
func program(known map[string]bool, comm string, args []string) string {
	if known[comm] {
		return comm
	}
	if len(args) == 0 {
		return ""
	}
	// A program that sets its title leaves one string: "claude --resume".
	argv0, _, _ := strings.Cut(filepath.Base(args[0]), " ")
	if known[argv0] {
		return argv0
	}
	if !interpreter(argv0) {
		return ""
	}
	for i := 1; i < len(args); i++ {
		arg := args[i]
		if arg == "-m" && i+1 < len(args) {
			arg = args[i+1]
		} else if strings.HasPrefix(arg, "-") {
			continue
		}
		name := filepath.Base(arg)
		if ext := filepath.Ext(name); ext == ".js" || ext == ".mjs" || ext == ".cjs" || ext == ".py" {
			name = strings.TrimSuffix(name, ext)
		}
		if known[name] {
			return name
		}
		return ""
	}
	return ""
}

// interpreter says that the script, not the program, is what runs.
func interpreter(name string) bool {
	return name == "node" || name == "bun" || name == "deno" || strings.HasPrefix(name, "python")
}
