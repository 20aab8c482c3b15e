package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/ttfs/ttfs/fs"
	"golang.org/x/sys/unix"
)

// The command of `run` is started stopped: first it is this program, which waits for a line in a pipe. Meanwhile its pid
// is registered. The line is the agent's name; then it begins the agent's task, as the agent, and becomes the command.

// gateFD is the descriptor of the pipe in the child.
const gateFD = 3

// stoppedChild is a command that waits.
type stoppedChild struct {
	pid  int
	gate *os.File
}

// startStopped starts the command of run, stopped.
func startStopped(m *mounted, here string, o runOptions, s streams) (*stoppedChild, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, failed("run", err, "")
	}
	defer r.Close()
	args := []string{"run-child"}
	if o.isolation == "fork" {
		args = append(args, "--fork-at", here)
	}
	cmd := exec.Command("/proc/self/exe", append(append(args, m.path("ctl"), oneLine(o.title), "--"), o.command...)...)
	if o.isolation == "fork" {
		cmd.SysProcAttr = fs.PrivateMounts()
	}
	cmd.Dir = here
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.in, s.out, s.err
	cmd.ExtraFiles = []*os.File{r}
	if err := cmd.Start(); err != nil {
		w.Close()
		return nil, failed("run "+o.command[0], err, "")
	}
	return &stoppedChild{pid: cmd.Process.Pid, gate: w}, nil
}

// release lets the command go on, hands signals on to it, and waits until it has ended.
func (c *stoppedChild) release(agent string) int {
	signals := make(chan os.Signal, 16)
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGWINCH, syscall.SIGQUIT} {
		if !signal.Ignored(sig) {
			signal.Notify(signals, sig)
		}
	}
	done := make(chan struct{})
	defer func() {
		signal.Stop(signals)
		close(done)
	}()
	go func() {
		for {
			select {
			case <-done:
				return
			case sig := <-signals:
				if sig == syscall.SIGTERM || !terminalTells() {
					_ = unix.Kill(c.pid, sig.(syscall.Signal)) // it may have ended
				}
			}
		}
	}()
	if _, err := fmt.Fprintln(c.gate, agent); err != nil {
		_ = unix.Kill(c.pid, unix.SIGKILL) // it has ended, or it never will
	}
	c.gate.Close()
	return c.wait()
}

// wait reaps until the command has ended: what it left behind has become a child of this process.
func (c *stoppedChild) wait() int {
	for {
		var s unix.WaitStatus
		pid, err := unix.Wait4(-1, &s, 0, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return int(exitFailed)
		}
		if pid == c.pid && (s.Exited() || s.Signaled()) {
			return exitOf(s)
		}
	}
}

// reap takes leave of children that have ended.
func reap() {
	for {
		if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); err != nil || pid <= 0 {
			return
		}
	}
}

// terminalTells says whether a terminal sends its signals to the command by itself, as it does to all of the group that
// is in its foreground: then it would have each twice.
func terminalTells() bool {
	tty, err := unix.Open("/dev/tty", unix.O_RDONLY|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(tty)
	group, err := unix.IoctlGetInt(tty, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// oneLine makes a title out of any text.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "?"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
}

// newRunChild is the command of run while it waits.
func newRunChild(s streams) *cobra.Command {
	forkAt := ""
	c := &cobra.Command{
		Use: "run-child CTL TITLE -- CMD...", Short: "what run starts", Hidden: true, Args: positional(cobra.MinimumNArgs(3)),
		RunE: func(c *cobra.Command, args []string) error {
			return runRunChild(args[0], args[1], forkAt, args[2:])
		},
	}
	c.Flags().StringVar(&forkAt, "fork-at", "", "enter the agent's fork, in the directory `DIR` of the workspace")
	return c
}

func runRunChild(ctl, title, forkAt string, command []string) error {
	gate := os.NewFile(gateFD, "gate")
	name, err := io.ReadAll(gate)
	gate.Close()
	agent := strings.TrimSpace(string(name))
	if err != nil || agent == "" {
		return status(126) // it was not registered; the parent says why
	}
	m := &mounted{dir: filepath.Dir(filepath.Dir(ctl))}
	if forkAt != "" {
		if err := m.enterFork(agent, forkAt); err != nil {
			return err
		}
	}
	path, err := exec.LookPath(command[0])
	if err == nil {
		if _, err := m.ctl("task " + title); err != nil {
			return &failure{code: 126, text: "run: its task cannot begin", err: err}
		}
		err = syscall.Exec(path, command, append(withoutAgent(os.Environ()), "TTFS_AGENT="+agent))
	}
	return &failure{code: exitCode(exitOfExec(err)), text: "run " + quoteArg(command[0]), err: err}
}

// withoutAgent is an environment without an agent's name.
func withoutAgent(env []string) []string {
	var rest []string
	for _, v := range env {
		if !strings.HasPrefix(v, "TTFS_AGENT=") {
			rest = append(rest, v)
		}
	}
	return rest
}
