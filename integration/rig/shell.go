package rig

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// Shell is a shell that stays: a process with a current directory and open
// files of its own while the test moves the tree under it.
type Shell struct {
	t   testing.TB
	in  io.WriteCloser
	out chan string
}

// Shell starts one in a directory; it ends with the test.
func (w *Workspace) Shell(dir string) *Shell {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := w.Command(ctx, dir, "sh")
	in, err := cmd.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	shell := &Shell{t: w.t, in: in, out: make(chan string)}
	go func() {
		defer close(shell.out)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			shell.out <- lines.Text()
		}
	}()
	w.t.Cleanup(func() {
		cancel() // kills its process group
		for range shell.out {
		}
		_ = cmd.Wait()
	})
	return shell
}

// Say runs a line in the shell and returns what it wrote, errors included.
func (s *Shell) Say(line string) string {
	s.t.Helper()
	const mark = "--said--"
	if _, err := fmt.Fprintf(s.in, "{ %s\n} 2>&1; echo; echo %s\n", line, mark); err != nil {
		s.t.Fatalf("shell: %v", err)
	}
	limit := time.After(CommandLimit)
	var said []string
	for {
		select {
		case line, open := <-s.out:
			if !open {
				s.t.Fatalf("the shell ended after %q", said)
			}
			if line == mark {
				return strings.TrimSpace(strings.Join(said, "\n"))
			}
			said = append(said, line)
		case <-limit:
			s.t.Fatalf("the shell does not answer to %q; so far %q", line, said)
		}
	}
}
