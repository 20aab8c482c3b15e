package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// runOptions are the flags of run.
type runOptions struct {
	agent, parent, isolation, title string
	command                         []string
	mine                            bool // what run mounted, it unmounts
}

func newRun(g *global, s streams) *cobra.Command {
	o := runOptions{}
	c := &cobra.Command{
		Use:   "run [flags] [--] [CMD...]",
		Short: "run a command as an agent inside the workspace, and say how to undo what it did",
		Long: `run mounts the workspace if need be, runs CMD (a shell, if none is given) as the agent inside it, and exits with its
status. What changed and how to undo it goes to stderr. What it mounted it unmounts at the end.`,
		Example: "  ttfs run --agent claude --task 'fix the parser' -- claude -p 'fix the parser'",
		RunE: func(c *cobra.Command, args []string) error {
			o.command = args
			return runRun(g, o, s)
		},
	}
	f := c.Flags()
	f.SetInterspersed(false)
	f.StringVar(&o.agent, "agent", "", "the `NAME` of the agent (default: that of the command, and its pid)")
	f.StringVar(&o.parent, "parent", "", "the agent whose sub-agent it is")
	f.StringVar(&o.isolation, "isolation", "", "`none|fork|ro`: the same tree, a fork of its own, or the same tree without a change (default: what it was given before, else none)")
	f.StringVar(&o.title, "task", "", "the `TITLE` of its first task (default: the command line)")
	if err := isolationHelp(c); err != nil {
		panic(err) // the flag is declared above
	}
	return c
}

func runRun(g *global, o runOptions, s streams) (err error) {
	if o.isolation != "" && o.isolation != "none" && o.isolation != "fork" && o.isolation != "ro" {
		return usage("run: --isolation is none, fork or ro, not %q", o.isolation)
	}
	if len(o.command) == 0 {
		o.command = []string{shell()}
	}
	if o.title == "" {
		o.title = strings.Join(o.command, " ")
	}
	w, here, err := runPlace(g)
	if err != nil {
		return err
	}
	if o.mine = !w.mounted || w.dead(); o.mine {
		if err := runMount(mountOptions{dir: w.dir}, s); err != nil {
			return err
		}
		if w, err = atDir(w.dir); err != nil {
			return err
		}
		defer func() {
			if e := leave(w, s); e != nil && err == nil {
				err = e
			}
		}()
	}
	m, err := w.client()
	if err != nil {
		return err
	}
	if o.isolation, err = m.isolation(o); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return failed("run", err, "")
	}
	return superviseAgent(m, here, o, s)
}

// superviseAgent starts the command, stays until it has ended, and says what it changed.
func superviseAgent(m *mounted, here string, o runOptions, s streams) error {
	child, err := startStopped(m, here, o, s)
	if err != nil {
		return err
	}
	defer child.gate.Close()
	if o.agent == "" {
		o.agent = agentName(o.command[0], child.pid)
	}
	before, err := m.caller()
	if err == nil && before == o.agent {
		err = &failure{code: exitFailed, text: "run: you are " + before + " already", next: "run the command itself, or give --agent another name"}
	}
	var at agentMark
	if err == nil && o.isolation != "fork" {
		at, err = m.mark(o.agent)
	}
	if err == nil {
		_, err = m.ctl(o.registration(child.pid))
	}
	if err != nil {
		child.gate.Close() // it ends without having done anything
		child.wait()
		return err
	}
	end := child.release(o.agent)
	if o.isolation == "fork" {
		err = m.tellFork(o.agent, o.mine, s.err)
	} else {
		err = m.tell(o.agent, at, s.err)
	}
	if err != nil {
		fmt.Fprintln(s.err, "ttfs: what changed cannot be told:", err)
	}
	if end != 0 {
		return status(end)
	}
	return nil
}

// registration is the command that makes a process the agent.
func (o runOptions) registration(pid int) string {
	s := "agent " + o.agent
	if o.parent != "" {
		s += " parent=" + o.parent
	}
	if o.isolation != "" {
		s += " isolation=" + o.isolation
	}
	return s + fmt.Sprintf(" pid=%d", pid)
}

// runPlace is the workspace, and the directory in which the command is to run: the current one, if it is inside.
func runPlace(g *global) (w workspace, here string, err error) {
	cwd, err := os.Getwd()
	if err == nil {
		cwd, err = realDir(cwd)
	}
	if err != nil && g.workspace == "" {
		return w, "", failed("run: the current directory", err, "cd into the workspace, or name it with --workspace DIR")
	}
	if w, err = g.find(); err != nil {
		if g.workspace != "" || cwd == "" {
			return w, "", err
		}
		if w, err = atDir(cwd); err != nil { // none yet: it is to be here
			return w, "", err
		}
	}
	here = w.dir
	if cwd == w.dir || strings.HasPrefix(cwd, strings.TrimSuffix(w.dir, "/")+"/") {
		here = cwd
	}
	return w, here, nil
}

// leave unmounts what run mounted, unless something still runs in it.
func leave(w workspace, s streams) error {
	err := runUnmount(w, false, s)
	reap() // the daemon is a child of this process
	var f *failure
	if errors.As(err, &f) && f.code == exitFailed {
		if now, e := atDir(w.dir); e == nil && now.mounted {
			fmt.Fprintf(s.err, "ttfs: still mounted: %s\n", f.text)
			fmt.Fprintf(s.err, "unmount with: ttfs unmount %s\n", quoteArg(w.dir))
			return nil
		}
	}
	return err
}

// shell is what runs when nothing is named.
func shell() string {
	if s := os.Getenv("SHELL"); s != "" {
		return s
	}
	return "/bin/sh"
}

// agentName makes a name out of a program's: what is not allowed in one becomes a dash. Source: identity.ValidName.
func agentName(program string, pid int) string {
	name := strings.Map(func(r rune) rune {
		if r < 0x80 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r)) {
			return r
		}
		return '-'
	}, filepath.Base(program))
	name = strings.TrimLeft(name, ".")
	if len(name) > 48 {
		name = name[:48]
	}
	if name == "" {
		name = "agent"
	}
	return fmt.Sprintf("%s-%d", name, pid)
}

// exitOf is the exit status of a process as a shell tells it.
func exitOf(s unix.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}

// exitOfExec is what a shell tells of a command that it cannot run.
func exitOfExec(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, syscall.ENOENT) {
		return 127
	}
	return 126
}
