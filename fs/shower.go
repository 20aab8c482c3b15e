package fs

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// shower is the child that shows moves (ShowMoves), seen from the daemon.
type shower struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	gone chan struct{} // closed when it has ended and is reaped

	mu   sync.Mutex
	dead bool           // +checklocks:mu it has ended; its pid may be another's soon
	mark *atomic.Uint32 // +checklocks:mu where its pid is written down
}

// endWait is how long the child may take to end by itself.
const endWait = time.Second

var errShowerGone = errors.New("the process that shows moves has ended")

// showFailure is what the child says of a step that it could not make.
type showFailure string

// Error is the child's own words.
func (f showFailure) Error() string { return string(f) }

// startShower starts the child. It ends when its input does: when the daemon ends it, or is dead.
func startShower(command []string) (*shower, error) {
	// go-fuse's own descriptor stays open at exec: the child would keep the connection alive when the daemon is killed.
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return nil, fmt.Errorf("keep the connection from the child: %w", err)
	}
	s := &shower{cmd: exec.Command(command[0], command[1:]...), gone: make(chan struct{})}
	s.cmd.Dir = "/"
	s.cmd.Env = []string{"GOMAXPROCS=1"}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	if err := s.cmd.Start(); err != nil {
		return nil, errors.Join(err, in.Close())
	}
	s.in, s.out = in, bufio.NewReader(out)
	go s.reap()
	return s, nil
}

// reap notes the child's end before its pid is free.
func (s *shower) reap() {
	for {
		if err := unix.Waitid(unix.P_PID, s.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != unix.EINTR {
			break
		}
	}
	s.mu.Lock()
	s.dead = true
	if s.mark != nil {
		s.mark.Store(0)
	}
	s.mu.Unlock()
	_ = s.cmd.Wait() // how it ended is nobody's concern
	close(s.gone)
}

func (s *shower) lives() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.dead
}

// owns writes the child's pid down, until disown or its end.
func (s *shower) owns(mark *atomic.Uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return errShowerGone
	}
	s.mark = mark
	mark.Store(uint32(s.cmd.Process.Pid))
	return nil
}

func (s *shower) disown(mark *atomic.Uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mark = nil
	mark.Store(0)
}

// ask has the child make one step. said is why it could not, "" if it did.
func (s *shower) ask(step *showStep) (said string, err error) {
	line, err := json.Marshal(step)
	if err != nil {
		return "", err
	}
	if _, err := s.in.Write(append(line, '\n')); err != nil {
		return "", errors.Join(errShowerGone, err)
	}
	answer, err := s.out.ReadString('\n')
	if err != nil {
		return "", errors.Join(errShowerGone, err)
	}
	return strconv.Unquote(strings.TrimSuffix(answer, "\n"))
}

func (s *shower) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.dead {
		_ = s.cmd.Process.Signal(os.Kill) // it may just have ended
	}
}

// end ends the child and waits until it is gone, or for two seconds.
func (s *shower) end() {
	_ = s.in.Close() // it reads the end of its input, and ends
	for range 2 {
		select {
		case <-s.gone:
			return
		case <-time.After(endWait):
			s.kill()
		}
	}
}
