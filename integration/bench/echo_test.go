package bench

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// echo is another native program (cat) that answers by a pipe. To ask it is what a request to a daemon costs on this machine at
// this moment, without the daemon: two processes are woken, and wait for a processor among all that are busy.
type echo struct{ to, from int }

// beginRequests is how many requests it takes to begin a task: LOOKUP of `.tt` and of ctl, OPEN, WRITE and READ.
const beginRequests = 5

func startEcho() (*echo, error) {
	var in, out [2]int // blocking, so that Go's poller has no part in it
	if err := syscall.Pipe2(in[:], syscall.O_CLOEXEC); err != nil {
		return nil, err
	}
	if err := syscall.Pipe2(out[:], syscall.O_CLOEXEC); err != nil {
		return nil, err
	}
	stdin, stdout := os.NewFile(uintptr(in[0]), "in"), os.NewFile(uintptr(out[1]), "out")
	defer stdin.Close()
	defer stdout.Close()
	cmd := exec.Command("cat", "-u")
	cmd.Stdin, cmd.Stdout = stdin, stdout
	if err := cmd.Start(); err != nil { // it ends with its input, when this process has
		return nil, err
	}
	return &echo{to: in[1], from: out[0]}, nil
}

// ask is as many questions and answers as the beginning of a task has.
func (e *echo) ask() error {
	line := []byte("task round\n")
	for range beginRequests {
		if _, err := syscall.Write(e.to, line); err != nil {
			return err
		}
		if n, err := syscall.Read(e.from, make([]byte, len(line))); err != nil || n != len(line) {
			return errors.Join(err, errors.New("cat does not answer"))
		}
	}
	return nil
}

// delay is the times of one round of questions, at the beginning of which the asker has slept.
func (c *caller) delay() (times []time.Duration, err error) {
	if c.echo == nil {
		if c.echo, err = startEcho(); err != nil {
			return nil, err
		}
		if err = c.echo.ask(); err != nil { // it has to start first
			return nil, err
		}
		time.Sleep(time.Millisecond)
	}
	timed(&times, func() { err = c.echo.ask() })
	return times, err
}
