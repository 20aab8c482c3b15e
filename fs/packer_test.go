package fs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// packChild makes the test binary the process that packs.
const packChild = "pack-for-the-test"

func init() {
	if len(os.Args) == 2 && os.Args[1] == packChild {
		if err := Pack(os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// childOf is the pid of a child of this process with that argument; 0: none.
func childOf(t *testing.T, arg string) (pid int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		line, _ := os.ReadFile(path)
		if !strings.HasSuffix(string(line), "\x00"+arg+"\x00") {
			continue
		}
		status, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "status"))
		if strings.Contains(string(status), fmt.Sprintf("\nPPid:\t%d\n", os.Getpid())) && !strings.Contains(string(status), "\nState:\tZ") {
			pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(path)))
			return pid
		}
	}
	return 0
}

// TestPackerIsIdle: the process that packs has idle priority, of processor and disk, in all its threads; it ends when it is told to, and
// with its context.
func TestPackerIsIdle(t *testing.T) {
	for _, by := range []string{"stop", "context"} {
		ctx, cancel := context.WithCancel(t.Context())
		p, stop, err := startPacker(ctx, []string{"/proc/self/exe", packChild})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			if _, _, err := p.Pack(make([]byte, 1000*(i+1))); err != nil {
				t.Fatal(err)
			}
		}
		pid := childOf(t, packChild)
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil || len(threads) == 0 {
			t.Fatalf("%d threads, %v", len(threads), err)
		}
		for _, thread := range threads {
			tid, err := strconv.Atoi(thread.Name())
			if err != nil {
				t.Fatal(err)
			}
			attr, err := unix.SchedGetAttr(tid, 0)
			if err != nil || attr.Policy != schedIdle {
				t.Errorf("a thread has policy %+v, %v", attr, err)
			}
			prio, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, ioOfProcess, uintptr(tid), 0)
			if errno != 0 || prio>>13 != ioIdle>>13 {
				t.Errorf("a thread has the disk's priority %#x, %v", prio, errno)
			}
		}
		if by == "stop" {
			stop()
		}
		cancel()
		if by == "context" {
			defer stop()
		}
		for deadline := time.Now().Add(5 * time.Minute); childOf(t, packChild) != 0; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("ended by its %s, it is still there", by)
			}
		}
		if _, _, err := p.Pack([]byte("more")); err == nil {
			t.Errorf("ended by its %s, it packs", by)
		}
	}
}

// TestPackerEndsWithInput: when the daemon is killed, its end of the pipe is closed.
func TestPackerEndsWithInput(t *testing.T) {
	in, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	child, err := os.StartProcess("/proc/self/exe", []string{"test", packChild}, &os.ProcAttr{Files: []*os.File{in, nil, nil}})
	if err != nil {
		t.Fatal(err)
	}
	in.Close()
	w.Close()
	if state, err := child.Wait(); err != nil || !state.Success() {
		t.Errorf("it ended with %v, %v", state, err)
	}
}
