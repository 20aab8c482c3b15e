package transport

import (
	"os"
	"os/exec"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

const envForbidden = "TTFS_TEST_WITHOUT_IO_URING"

// TestForbidden: where io_uring is forbidden, as in containers, a mount is classic by itself, says why, and one that insists
// is refused and leaves nothing.
func TestForbidden(t *testing.T) {
	if os.Getenv(envForbidden) == "" {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestForbidden$", "-test.v")
		cmd.Env = append(os.Environ(), envForbidden+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	forbidRings(t)
	if TryRing() == nil {
		t.Fatal("a ring can be made")
	}
	if c, _, err := mounted(t, Uring); err == nil {
		_ = c.Unmount(true)
		t.Error("a mount that insists on io_uring was made")
	}
	if rest := mountsBelow(t); len(rest) > 0 {
		t.Errorf("what is left: %v", rest)
	}
	c, b, err := mounted(t, Auto)
	if err != nil {
		if _, opened := os.Stat("/dev/fuse"); opened == nil && os.Geteuid() == 0 {
			t.Error(err)
		}
		return
	}
	if c.Kind() != Classic || c.Why() == nil || c.Threads() != 0 {
		t.Errorf("%s, %v, %d threads", c.Kind(), c.Why(), c.Threads())
	}
	if err := b.open("data"); err != nil {
		t.Error(err)
	}
	if err := c.Unmount(true); err != nil {
		t.Error(err)
	}
	c.Wait()
}

// forbidRings takes io_uring_setup(2) from this process, as container runtimes do.
func forbidRings(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const load, jump, ret = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	filter := []unix.SockFilter{
		{Code: load, K: 0}, // the system call's number
		{Code: jump, K: unix.SYS_IO_URING_SETUP, Jt: 0, Jf: 1},
		{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: ret, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program))); errno != 0 {
		t.Fatal(errno)
	}
}
