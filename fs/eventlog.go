package fs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// eventLog is `.tt/log`: a file in the store to which lines are appended. When it has grown past its bound it becomes
// `log.1`, in the place of the one before, and a new one begins. Who follows it (`tail -f`) sees it get shorter, and goes on
// from its beginning.
type eventLog struct {
	dir      int // descriptor of `.tt`, which outlives the log
	uid, gid int
	max      int64 // bytes from which on the next line begins a new file

	mu   sync.RWMutex
	file *os.File // +checklocks:mu
	size int64    // +checklocks:mu
}

// logName is the log's name in the store, and oldLogName that of the one before it.
const (
	logName    = "log"
	oldLogName = "log.1"
)

// maxLogBytes is the bound of the log.
const maxLogBytes = 16 << 20

// openEventLog opens the log in a store, or makes it.
func openEventLog(dir, uid, gid int) (*eventLog, error) {
	l := &eventLog{dir: dir, uid: uid, gid: gid, max: maxLogBytes}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l, l.openLocked()
}

// openLocked opens the file that lines go to from now on.
//
// +checklocks:l.mu
func (l *eventLog) openLocked() error {
	file, err := os.OpenFile(fdPath(l.dir, logName), os.O_RDWR|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("open the event log: %w", err)
	}
	fi, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	giveTo(l.dir, logName, l.uid, l.gid)
	if l.file != nil {
		_ = l.file.Close() // nothing is kept back: each line was written by itself
	}
	l.file, l.size = file, fi.Size()
	return nil
}

// line appends one. When a new file cannot be begun, the old one grows on, and the error says so.
func (l *eventLog) line(s string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var turn error
	if l.size >= l.max {
		if turn = unix.Renameat(l.dir, logName, l.dir, oldLogName); turn == nil || turn == unix.ENOENT { // it is away already when only the opening failed last time
			turn = l.openLocked()
		}
	}
	n, err := l.file.WriteString(s + "\n")
	l.size += int64(n)
	return errors.Join(turn, err)
}

// bytes is the log's size.
func (l *eventLog) bytes() int64 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.size
}

func (l *eventLog) readAt(b []byte, off int64) (int, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	n, err := l.file.ReadAt(b, off)
	if err == io.EOF {
		err = nil
	}
	return n, err
}

func (l *eventLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}
