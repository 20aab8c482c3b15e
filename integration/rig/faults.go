package rig

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Fault is what becomes of a system call.
type Fault struct {
	Name string
	// Errno is what it fails with.
	Errno syscall.Errno
	// Short: a write takes half of its bytes first, and the next one fails.
	Short bool
	// Opens: only those that make a descriptor; Writes: only those that need room.
	Opens, Writes bool
}

// Faults are those that the kernel's files may have.
var Faults = []Fault{
	{Name: "EIO", Errno: syscall.EIO},
	{Name: "ENOSPC", Errno: syscall.ENOSPC, Writes: true},
	{Name: "EMFILE", Errno: syscall.EMFILE, Opens: true},
	{Name: "short write", Errno: syscall.ENOSPC, Writes: true, Short: true},
}

// Call is a system call that was made to fail.
type Call struct{ Name, Path string }

func (c Call) String() string { return c.Name + " " + c.Path }

// told is what is known of a system call: where its arguments say which file it is about.
type told struct {
	name          string
	fd, path      int // path -1: fd is the file itself; fd -1: the path is from the root
	opens, writes bool
}

// calls are those that a daemon makes of the files of the workspace and of the store, but those that only look: reading of bytes and of directories is told, stat is not.
var calls = map[int]told{
	unix.SYS_OPENAT:          {"openat", 0, 1, true, false},
	unix.SYS_OPENAT2:         {"openat2", 0, 1, true, false},
	unix.SYS_PREAD64:         {"pread64", 0, -1, false, false},
	unix.SYS_GETDENTS64:      {"getdents64", 0, -1, false, false},
	unix.SYS_WRITE:           {"write", 0, -1, false, true},
	unix.SYS_PWRITE64:        {"pwrite64", 0, -1, false, true},
	unix.SYS_FSYNC:           {"fsync", 0, -1, false, true},
	unix.SYS_FDATASYNC:       {"fdatasync", 0, -1, false, true},
	unix.SYS_SYNC_FILE_RANGE: {"sync_file_range", 0, -1, false, true},
	unix.SYS_FTRUNCATE:       {"ftruncate", 0, -1, false, true},
	unix.SYS_FALLOCATE:       {"fallocate", 0, -1, false, true},
	unix.SYS_COPY_FILE_RANGE: {"copy_file_range", 2, -1, false, true},
	unix.SYS_FCHMOD:          {"fchmod", 0, -1, false, true},
	unix.SYS_FCHOWN:          {"fchown", 0, -1, false, true},
	unix.SYS_FSETXATTR:       {"fsetxattr", 0, -1, false, true},
	unix.SYS_MKDIRAT:         {"mkdirat", 0, 1, false, true},
	unix.SYS_MKNODAT:         {"mknodat", 0, 1, false, true},
	unix.SYS_SYMLINKAT:       {"symlinkat", 1, 2, false, true},
	unix.SYS_LINKAT:          {"linkat", 2, 3, false, true},
	unix.SYS_RENAMEAT:        {"renameat", 2, 3, false, true},
	unix.SYS_RENAMEAT2:       {"renameat2", 2, 3, false, true},
	unix.SYS_UNLINKAT:        {"unlinkat", 0, 1, false, true},
	unix.SYS_FCHMODAT:        {"fchmodat", 0, 1, false, true},
	unix.SYS_FCHMODAT2:       {"fchmodat2", 0, 1, false, true},
	unix.SYS_FCHOWNAT:        {"fchownat", 0, 1, false, true},
	unix.SYS_UTIMENSAT:       {"utimensat", 0, 1, false, true},
	unix.SYS_SETXATTR:        {"setxattr", -1, 0, false, true},
}

func toldCalls() []int { return slices.Sorted(maps.Keys(calls)) }

// Injector fails system calls of a daemon.
type Injector struct {
	w        *Workspace
	listener int

	mu    sync.Mutex
	fault *Fault // nil: none
	next  int    // how many calls come before the one that fails
	short bool   // the one before was cut: the next write fails
	hit   *Call
	of    map[uint32]int // the process of a thread
}

// MountFaulty mounts as Mount does, with a daemon of which system calls can be made to fail.
func (w *Workspace) MountFaulty(flags ...string) *Injector {
	w.t.Helper()
	self, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), CommandLimit)
	defer cancel()
	args := append([]string{os.Getenv(EnvBinary), "mount"}, flags...)
	cmd := w.Command(ctx, "/", self, append(args, w.Dir)...)
	cmd.Env = append(cmd.Env, EnvStage+"="+stageFaulty)
	in, err := cmd.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := os.CreateTemp(w.home, "out")
	if err != nil {
		w.t.Fatal(err)
	}
	defer discard(out)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	i := &Injector{w: w, listener: -1, of: map[uint32]int{}}
	Eventually(w.t, "a listener for the daemon's system calls: "+content(out), func() bool {
		i.listener, err = takeListener(cmd.Process.Pid)
		return i.listener >= 0
	})
	go i.serve()
	in.Close()
	if err := cmd.Wait(); err != nil {
		w.t.Fatalf("mount: %v: %s", err, content(out))
	}
	w.Adopt(&Result{t: w.t, what: "mount"})
	return i
}

// serve answers until nobody is left who could ask.
func (i *Injector) serve() {
	defer unix.Close(i.listener)
	for {
		polled := []unix.PollFd{{Fd: int32(i.listener), Events: unix.POLLIN}}
		if _, err := unix.Poll(polled, -1); err != nil && err != unix.EINTR {
			return
		}
		if polled[0].Revents&unix.POLLIN == 0 {
			if polled[0].Revents != 0 {
				return
			}
			continue
		}
		var n notif
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(i.listener), notifReceive, uintptr(unsafe.Pointer(&n))); errno != 0 {
			continue // it was killed
		}
		a := i.answer(&n)
		_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(i.listener), notifSend, uintptr(unsafe.Pointer(&a)))
	}
}

// Arm has the n-th call from now on fail that the fault can hit.
func (i *Injector) Arm(f *Fault, n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.fault, i.next, i.short, i.hit = f, n, false, nil
}

// Disarm says which call failed; nil: there were not as many.
func (i *Injector) Disarm() *Call {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.fault = nil
	return i.hit
}

func (i *Injector) answer(n *notif) notifAnswer {
	a := notifAnswer{id: n.id, flags: flagContinue}
	i.mu.Lock()
	defer i.mu.Unlock()
	c := calls[int(n.nr)]
	f := i.fault
	if f == nil || i.next < 0 && !i.short || f.Opens && !c.opens || f.Writes && !c.writes || i.process(n.pid) != i.w.daemon {
		return a
	}
	path, ours := i.file(n, c)
	if !ours {
		return a
	}
	isWrite := c.name == "write" || c.name == "pwrite64"
	switch {
	case i.short && isWrite:
		i.short = false
	case f.Short && !isWrite:
		return a
	default:
		if i.next--; i.next != -1 {
			return a
		}
		i.hit = &Call{c.name, path}
		if f.Short {
			i.short = true
			return i.half(n, a)
		}
	}
	return notifAnswer{id: n.id, errno: -int32(f.Errno)}
}

// half writes half of what is to be written in the other's place.
func (i *Injector) half(n *notif, a notifAnswer) notifAnswer {
	b := make([]byte, n.args[2]/2)
	if len(b) == 0 || memory(int(n.pid), n.args[1], b) < len(b) {
		return a
	}
	fd, err := takeFile(int(n.pid), int(int32(n.args[0])))
	if err != nil {
		return a
	}
	defer unix.Close(fd)
	var done int
	if n.nr == unix.SYS_PWRITE64 {
		done, err = unix.Pwrite(fd, b, int64(n.args[3]))
	} else {
		done, err = unix.Write(fd, b)
	}
	if err != nil {
		return a
	}
	return notifAnswer{id: n.id, val: int64(done)}
}

// process is that of a thread.
func (i *Injector) process(tid uint32) int {
	if pid, known := i.of[tid]; known {
		return pid
	}
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	_, after, _ := strings.Cut(string(status), "\nTgid:")
	line, _, _ := strings.Cut(after, "\n")
	pid, _ := strconv.Atoi(strings.TrimSpace(line))
	i.of[tid] = pid
	return pid
}

// file is the path that a call is about, and whether it is of the workspace or its store.
func (i *Injector) file(n *notif, c told) (path string, ours bool) {
	link := func(fd string) string {
		to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", n.pid, fd))
		return to
	}
	if c.path >= 0 {
		b := make([]byte, unix.PathMax)
		for len(b) > 1 { // it may end at the end of what is mapped
			if got := memory(int(n.pid), n.args[c.path], b); got > 0 {
				b = b[:got]
				break
			}
			b = b[:len(b)/2]
		}
		path, _, _ = strings.Cut(string(b), "\x00")
	}
	if rest, is := strings.CutPrefix(path, "/proc/self/fd/"); is {
		fd, below, _ := strings.Cut(rest, "/")
		path = filepath.Join(link(fd), below)
	} else if !filepath.IsAbs(path) && c.fd >= 0 {
		path = filepath.Join(link(strconv.Itoa(int(int32(n.args[c.fd])))), path)
	}
	below, ours := strings.CutPrefix(path, i.w.Dir)
	return strings.TrimPrefix(below, "/"), ours && !strings.HasSuffix(path, "/daemon.log")
}
