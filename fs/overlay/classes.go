package overlay

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
	"github.com/ttfs/ttfs/guard"
	"golang.org/x/sys/unix"
)

// What is not guarded, though always recorded. It is asked only of what would be refused, so it may look at the disk.

// sqliteSides are the endings of the files beside a database: SQLite keeps their order by locks of its own.
var sqliteSides = []string{"-journal", "-wal", "-shm"}

// maxIgnoreBytes is the size above which a .gitignore is not read.
const maxIgnoreBytes = 1 << 20

// unguardedClass says whether a path is of a class that the guard lets pass. st may be nil.
func (e *Engine) unguardedClass(c *Caller, p guard.Path, st *Stat) bool {
	if p == "" {
		return true // it has no name: nobody else can have read it by one
	}
	parts := strings.Split(string(p), "/")
	for _, part := range parts {
		if part == ".git" {
			return true
		}
	}
	for _, end := range sqliteSides {
		if strings.HasSuffix(string(p), end) {
			return true
		}
	}
	if e.classes.of(string(p)) == Temp {
		return true
	}
	return matches(e.ignorePatterns(parts), parts) || e.isDatabase(string(p)) || st != nil && holdsLock(c.Proc.PID, st)
}

// matches says whether the patterns take in a path: the last that applies to it or to a directory above it decides.
func matches(patterns []gitignore.Pattern, parts []string) bool {
	m := gitignore.NewMatcher(patterns)
	for i := 1; i < len(parts); i++ {
		if m.Match(parts[:i], true) {
			return true
		}
	}
	return m.Match(parts, false)
}

// ignorePatterns reads the .gitignore files of the directories that lead to a path, and git's own list.
func (e *Engine) ignorePatterns(parts []string) []gitignore.Pattern {
	var out []gitignore.Pattern
	out = append(out, e.readIgnore(".git/info/exclude", nil)...)
	for i := 0; i < len(parts); i++ {
		out = append(out, e.readIgnore(path.Join(path.Join(parts[:i]...), ".gitignore"), parts[:i])...)
	}
	return out
}

func (e *Engine) readIgnore(name string, domain []string) []gitignore.Pattern {
	b := e.readBelow(name, maxIgnoreBytes)
	var out []gitignore.Pattern
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		line := strings.TrimRight(s.Text(), "\r")
		if line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, gitignore.ParsePattern(line, domain))
		}
	}
	return out
}

// readBelow reads the beginning of a file of the workspace, without leaving it by any link; nothing when it cannot.
func (e *Engine) readBelow(name string, limit int) []byte {
	if e.lower != nil {
		return e.readMerged(name, limit)
	}
	fd, err := unix.Openat2(e.root, name, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	b := make([]byte, limit)
	n, err := preadFull(fd, b, 0)
	if err != nil {
		return nil
	}
	return b[:n]
}

// isDatabase says whether a file is a SQLite database.
func (e *Engine) isDatabase(p string) bool {
	return string(e.readBelow(p, 16)) == "SQLite format 3\x00"
}

// holdsLock says whether a process holds a lock on a file of the mount. Source: /proc/locks, whose inode is of the
// filesystem that the program sees; its device is the mount's, which is not known here, so the inode alone decides.
func holdsLock(pid int, st *Stat) bool {
	if pid == 0 {
		return false
	}
	b, err := os.ReadFile("/proc/locks")
	if err != nil {
		return false
	}
	inode := fmt.Sprintf(":%d", st.Ino)
	for _, line := range strings.Split(string(b), "\n") {
		f := strings.Fields(line)
		if len(f) >= 6 && f[1] != "->" && f[4] == strconv.Itoa(pid) && strings.HasSuffix(f[5], inode) {
			return true
		}
	}
	return false
}
