package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Workspace is one directory on the rig's disk, mounted or not.
type Workspace struct {
	Dir string // the workspace itself, the same path mounted and not

	t      testing.TB
	home   string // of the children
	daemon int    // pid, 0 when not mounted
}

// Disk makes a new directory on the rig's disk that goes at the end of the test.
func Disk(t testing.TB) string {
	t.Helper()
	disk := os.Getenv(EnvDisk)
	if disk == "" {
		t.Fatal("not under rig.Main: TestMain of this package must call it")
	}
	dir, err := os.MkdirTemp(disk, "t")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("the workspace does not go away: %v", err)
		}
	})
	return dir
}

// New makes an empty workspace, not yet mounted.
func New(t testing.TB) *Workspace {
	t.Helper()
	dir := Disk(t)
	w := &Workspace{t: t, Dir: filepath.Join(dir, "ws"), home: filepath.Join(dir, "home")}
	for _, d := range []string{w.Dir, w.home} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	config := "[user]\n\tname = A Person\n\temail = person@example.org\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n" +
		"[init]\n\tdefaultBranch = main\n[core]\n\tfsync = none\n[advice]\n\tdetachedHead = false\n[safe]\n\tdirectory = *\n"
	if err := os.WriteFile(filepath.Join(w.home, "gitconfig"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.end)
	return w
}

// NewMounted is New and Mount.
func NewMounted(t testing.TB, flags ...string) *Workspace {
	t.Helper()
	w := New(t)
	w.Mount(flags...)
	return w
}

// Path is a path inside the workspace.
func (w *Workspace) Path(name string) string { return filepath.Join(w.Dir, name) }

// Mount mounts the workspace; the test fails when that fails.
func (w *Workspace) Mount(flags ...string) {
	w.t.Helper()
	w.Adopt(w.TTFSIn("/", append(append([]string{"mount"}, flags...), w.Dir)...))
}

// Adopt takes the mount that a command has made, as Mount does its own.
func (w *Workspace) Adopt(made *Result) {
	w.t.Helper()
	made.OK()
	if !w.Mounted() {
		w.t.Fatalf("ttfs mount said that it serves, but %s is no FUSE mount", w.Dir)
	}
	pid, err := strconv.Atoi(w.Status()["pid"])
	if err != nil {
		w.t.Fatalf("the daemon's pid in .tt/status: %v", err)
	}
	w.daemon = pid
}

// Unmount detaches the workspace and waits until the daemon has ended: only
// then is the store whole.
func (w *Workspace) Unmount() {
	w.t.Helper()
	w.TTFSIn("/", "unmount", w.Dir).OK()
	if w.Mounted() {
		w.t.Fatalf("ttfs unmount said that it did, but %s is still a mount", w.Dir)
	}
	pid := w.daemon
	w.daemon = 0
	Eventually(w.t, fmt.Sprintf("the daemon %d to end after unmount", pid), func() bool { return !Alive(pid) })
}

// Daemon is the pid of the mounted workspace's daemon.
func (w *Workspace) Daemon() int { return w.daemon }

// Kill kills the daemon with SIGKILL, and before it the supervisor that would
// start another, and waits until they are gone. The dead mount
// stays, so that whoever is in a call gets an error and nothing falls through to
// the plain directory: Bury takes it away. A request that still waits means that
// some other process holds the daemon's /dev/fuse (a child that inherited it).
func (w *Workspace) Kill() {
	w.t.Helper()
	pid := w.daemon
	keeper := w.Supervisor()
	if keeper != 0 {
		if err := syscall.Kill(keeper, syscall.SIGKILL); err != nil {
			w.t.Fatalf("kill the supervisor: %v", err)
		}
		Eventually(w.t, fmt.Sprintf("the killed supervisor %d to end", keeper), func() bool { return !Alive(keeper) })
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		w.t.Fatalf("kill the daemon: %v", err)
	}
	w.daemon = 0
	Eventually(w.t, fmt.Sprintf("the killed daemon %d to end", pid), func() bool { return !Alive(pid) })
	if m, found := w.mount(); found && !poll(10*time.Second, func() bool { return waiting(m.minor) == 0 }) {
		left := waiting(m.minor)
		abortConnection(m.minor)
		if keeper == 0 { // else nobody is left who could end it: docs/design.md, "When the daemon dies"
			w.t.Errorf("the connection outlives its daemon: %d requests still wait", left)
		}
	}
}

// KillAlone kills the daemon alone and waits for nothing.
func (w *Workspace) KillAlone() {
	w.t.Helper()
	if err := syscall.Kill(w.daemon, syscall.SIGKILL); err != nil {
		w.t.Fatalf("kill the daemon: %v", err)
	}
	w.daemon = 0
}

// Supervisor is the process that starts another daemon when this one is killed;
// 0 when there is none.
func (w *Workspace) Supervisor() int {
	w.t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", w.daemon))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(after)
	if len(fields) < 2 {
		return 0
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", parent))
	if err != nil || strings.TrimSpace(string(comm)) != "ttfs-keep" {
		return 0
	}
	return parent
}

// KillDaemon kills the daemon alone, with SIGKILL, and waits until another goes
// on with the mount.
func (w *Workspace) KillDaemon() {
	w.t.Helper()
	pid := w.daemon
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		w.t.Fatalf("kill the daemon: %v", err)
	}
	Eventually(w.t, fmt.Sprintf("another daemon after %d", pid), func() bool {
		next, err := strconv.Atoi(w.Status()["pid"])
		if err == nil && next != pid {
			w.daemon = next
		}
		return w.daemon != pid
	})
}

// Bury detaches the mount whose daemon was killed, as a person would.
func (w *Workspace) Bury() {
	w.t.Helper()
	for w.Mounted() {
		if err := unix.Unmount(w.Dir, unix.MNT_DETACH); err != nil {
			w.t.Fatalf("detach the dead mount: %v", err)
		}
	}
}

// Mounted tells whether a FUSE filesystem is mounted on the workspace.
func (w *Workspace) Mounted() bool {
	_, found := w.mount()
	return found
}

func (w *Workspace) mount() (mount, bool) {
	var top mount
	for _, m := range mounts() {
		if m.point == w.Dir && strings.HasPrefix(m.kind, "fuse") {
			top = m
		}
	}
	return top, top.point != ""
}

// end leaves nothing mounted and nothing running, however the test went: first
// as a person would, then by force, on this workspace's own mount and daemon.
func (w *Workspace) end() {
	pid := w.daemon
	if w.Mounted() {
		if result := w.TTFSIn("/", "unmount", "--lazy", w.Dir); result.Code != 0 {
			w.t.Errorf("cleanup: %s", result)
		}
	}
	for m, found := w.mount(); found; m, found = w.mount() {
		w.t.Errorf("cleanup: %s is still mounted, aborting it", w.Dir)
		abortConnection(m.minor)
		if err := unix.Unmount(w.Dir, unix.MNT_DETACH); err != nil {
			w.t.Errorf("cleanup: %v", err)
			break
		}
	}
	if pid != 0 && !poll(10*time.Second, func() bool { return !Alive(pid) }) {
		w.t.Errorf("cleanup: the daemon %d does not end, killing it", pid)
		_ = syscall.Kill(pid, syscall.SIGKILL)
		poll(10*time.Second, func() bool { return !Alive(pid) })
	}
	if w.t.Failed() {
		w.t.Logf("daemon.log:\n%s", tail(w.Path(".tt/daemon.log"), 60))
	}
}

// Alive tells whether a process runs; a zombie does not.
func Alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// The name is in parentheses and may hold any byte; the state is after it.
	after := stat[strings.LastIndexByte(string(stat), ')')+1:]
	fields := strings.Fields(string(after))
	return len(fields) > 0 && fields[0] != "Z" && fields[0] != "X"
}

// Eventually polls until the condition holds; the test fails after a minute.
func Eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	if !poll(time.Minute, condition) {
		t.Fatalf("waited a minute for %s", what)
	}
}

// Patiently is Eventually for what is done at idle priority: on a busy machine it waits for ten minutes.
func Patiently(t testing.TB, what string, condition func() bool) {
	t.Helper()
	if !poll(10*time.Minute, condition) {
		t.Fatalf("waited ten minutes for %s", what)
	}
}

func poll(limit time.Duration, condition func() bool) bool {
	deadline := time.Now().Add(limit)
	for {
		if condition() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(5 * time.Millisecond) // the pause of the poll, not a wait for something
	}
}

func tail(path string, lines int) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return strings.Join(all, "\n")
}

// Abort ends the connection of the mount, as root may at any time, and waits until the daemon has ended by itself. The dead
// mount stays, as after Kill.
func (w *Workspace) Abort() {
	w.t.Helper()
	m, found := w.mount()
	if !found {
		w.t.Fatalf("%s is not mounted", w.Dir)
	}
	pid := w.daemon
	w.daemon = 0
	abortConnection(m.minor)
	Eventually(w.t, fmt.Sprintf("the daemon %d to end after an abort", pid), func() bool { return !Alive(pid) })
}
