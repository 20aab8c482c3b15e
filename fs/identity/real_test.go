package identity

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// machine is a resolver of this machine that waits as long as a loaded one needs.
func machine() *Resolver { return New(Options{EnvTimeout: 30 * time.Second}) }

// child is a running shell.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// start runs a shell that ends when its input does.
func start(t *testing.T, script string, env ...string) *child {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: cmd, in: in, out: bufio.NewReader(out)}
	t.Cleanup(func() {
		in.Close()
		_, _ = io.Copy(io.Discard, c.out)
		_ = cmd.Wait()
	})
	return c
}

// number reads a pid that the shell printed.
func (c *child) number(t *testing.T) int {
	t.Helper()
	line, err := c.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestRealThread(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	done := make(chan struct{})
	go func() { // a thread that is surely not the first one
		defer close(done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		tid := unix.Gettid()
		if who := machine().Resolve(uint32(tid)); who.Proc.PID != os.Getpid() || !who.Known {
			t.Errorf("thread %d of %d: %+v", tid, os.Getpid(), who)
		}
	}()
	<-done
}

func TestRealEnvironment(t *testing.T) {
	c := start(t, "echo $$; read x", "TTFS_AGENT=real.bot")
	pid := c.number(t)
	if who := machine().Resolve(uint32(pid)); who.Agent != "real.bot" || who.Proc.PID != pid {
		t.Fatalf("%+v", who)
	}
}

// A grandchild that nobody saw before its parent, the registered process, died.
func TestRealOrphan(t *testing.T) {
	c := start(t, "exec 3<&0; echo $$; read go; (cat <&3 >/dev/null & echo $!)")
	pid := c.number(t)
	r := machine()
	if err := r.Register(pid, "main", ""); err != nil {
		t.Fatal(err)
	}
	if who := r.Resolve(uint32(pid)); who.Agent != "main" || !who.Root {
		t.Fatalf("%+v", who)
	}
	if got := r.PIDs("main"); !slices.Equal(got, []int{pid}) {
		t.Errorf("%v, want %d", got, pid)
	}
	if _, err := io.WriteString(c.in, "\n"); err != nil {
		t.Fatal(err)
	}
	orphan := c.number(t)
	if _, err := c.cmd.Process.Wait(); err != nil {
		t.Fatal(err)
	}
	r.Sweep()
	if who := r.Resolve(uint32(orphan)); who.Agent != "main" || who.Root || !who.Known {
		t.Fatalf("%+v", who)
	}
	if got := r.PIDs("main"); !slices.Equal(got, []int{orphan}) {
		t.Errorf("%v, want %d", got, orphan)
	}
}

// The clock of Activated and the kernel's start times are the same one.
func TestRealTicks(t *testing.T) {
	before := bootTicks()
	c := start(t, "echo $$; read x")
	pid := c.number(t)
	after := bootTicks()
	who := machine().Resolve(uint32(pid))
	if s := who.Proc.Start; s < before || s > after {
		t.Fatalf("started at %d, between %d and %d", s, before, after)
	}
}
