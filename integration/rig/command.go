package rig

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// CommandLimit is how long any command may take before it and its process group
// are killed: far above what the slowest needs on a loaded machine.
const CommandLimit = 120 * time.Second

// Result is what a command that ended left.
type Result struct {
	Stdout, Stderr string
	Code           int // -1 when a signal ended it or it could not start

	t    testing.TB
	what string
	err  error
}

// String is the whole of it, for a failure.
func (r *Result) String() string {
	return fmt.Sprintf("%s\nexit %d (%v)\nstdout: %s\nstderr: %s", r.what, r.Code, r.err, clip(r.Stdout), clip(r.Stderr))
}

// OK fails the test when the command failed.
func (r *Result) OK() *Result {
	r.t.Helper()
	return r.Exit(0)
}

// Exit fails the test when the command did not exit with this code.
func (r *Result) Exit(code int) *Result {
	r.t.Helper()
	if r.Code != code {
		r.t.Fatalf("want exit %d: %s", code, r)
	}
	return r
}

// TTFS runs the binary in the workspace's directory.
func (w *Workspace) TTFS(args ...string) *Result {
	w.t.Helper()
	return w.TTFSIn(w.Dir, args...)
}

// TTFSIn runs the binary in another directory.
func (w *Workspace) TTFSIn(dir string, args ...string) *Result {
	w.t.Helper()
	if reason := os.Getenv(EnvBuildError); reason != "" {
		w.t.Fatalf("there is no ttfs to test: %s", reason)
	}
	return w.Run(dir, os.Getenv(EnvBinary), args...)
}

// Sh runs a script with sh -e in the workspace's directory. The shell is a
// process of its own, so what it does is what any program of the user does.
func (w *Workspace) Sh(script string, args ...string) *Result {
	w.t.Helper()
	return w.Run(w.Dir, "sh", append([]string{"-e", "-c", script, "sh"}, args...)...)
}

// Python runs a program with python3 in the workspace's directory.
func (w *Workspace) Python(program string, args ...string) *Result {
	w.t.Helper()
	return w.Run(w.Dir, os.Getenv(EnvPython), append([]string{"-c", program}, args...)...)
}

// Run runs a command to its end: no terminal, no standard input, its own process
// group, killed with that at CommandLimit. Output goes through files, so that a
// daemon which kept a descriptor could not hold the test up.
func (w *Workspace) Run(dir, name string, args ...string) *Result {
	w.t.Helper()
	result := &Result{t: w.t, what: strings.Join(append([]string{filepath.Base(name)}, args...), " ")}
	out, err := os.CreateTemp(w.home, "out")
	if err != nil {
		w.t.Fatal(err)
	}
	defer discard(out)
	errs, err := os.CreateTemp(w.home, "err")
	if err != nil {
		w.t.Fatal(err)
	}
	defer discard(errs)
	ctx, cancel := context.WithTimeout(context.Background(), CommandLimit)
	defer cancel()
	cmd := w.Command(ctx, dir, name, args...)
	cmd.Stdout, cmd.Stderr = out, errs
	result.err = cmd.Run()
	result.Code = -1
	if cmd.ProcessState != nil {
		result.Code = cmd.ProcessState.ExitCode()
	}
	result.Stdout, result.Stderr = content(out), content(errs)
	if ctx.Err() != nil {
		w.t.Errorf("took longer than %v and was killed: %s", CommandLimit, result)
	}
	return result
}

// Command prepares a command with the environment of the rig's children.
func (w *Workspace) Command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = w.Env()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// Env is the environment of the children: nothing of the caller's but the path
// and the Go caches, so that no agent and no setting slips in, and the transport
// that the whole run is to be made over.
func (w *Workspace) Env() []string {
	env := []string{
		"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin",
		"HOME=" + w.home,
		"LC_ALL=C.UTF-8",
		"TZ=UTC",
		"GIT_CONFIG_GLOBAL=" + filepath.Join(w.home, "gitconfig"),
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_DATE=2026-01-02T03:04:05Z",
		"GIT_COMMITTER_DATE=2026-01-02T03:04:05Z",
		"GOCACHE=" + os.Getenv(EnvGoCache),
		"GOMODCACHE=" + os.Getenv(EnvGoModCache),
		"GOFLAGS=-mod=mod -buildvcs=false",
		"GOPROXY=off",
		"GOTOOLCHAIN=local",
		"PYTHONDONTWRITEBYTECODE=1",
	}
	for _, given := range []string{EnvTransport, EnvPassthrough} {
		if v := os.Getenv(given); v != "" {
			env = append(env, given+"="+v)
		}
	}
	return env
}

func discard(f *os.File) {
	_ = f.Close()
	_ = os.Remove(f.Name())
}

func content(f *os.File) string {
	b, err := os.ReadFile(f.Name())
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func clip(s string) string {
	const most = 4000
	if len(s) > most {
		return s[:most/2] + "\n…\n" + s[len(s)-most/2:]
	}
	return s
}
