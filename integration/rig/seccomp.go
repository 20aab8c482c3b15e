package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What seccomp_unotify(2) has, by its struct seccomp_notif and seccomp_notif_resp; x/sys has none of it.
const (
	notifReceive  = 0xc0502100
	notifSend     = 0xc0182101
	filterNotify  = 0x7fc00000 // SECCOMP_RET_USER_NOTIF
	filterAllow   = 0x7fff0000
	flagListener  = 1 << 3
	flagContinue  = 1
	setModeFilter = 1
	stageFaulty   = "faulty"
	listenerName  = "anon_inode:seccomp notify"
)

type notif struct {
	id    uint64
	pid   uint32 // of the thread
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

type notifAnswer struct {
	id    uint64
	val   int64
	errno int32 // negative
	flags uint32
}

// faulty is a stage: it has the system calls in question told to a listener, which its parent takes, waits for the end of its
// input, and becomes the command. Nothing that it does after the filter is there is told, or it would wait for ever.
func faulty() error {
	runtime.LockOSThread()
	program := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}} // the number, at 0 of struct seccomp_data
	nrs := toldCalls()
	for i, nr := range nrs {
		program = append(program, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(nr), Jt: uint8(len(nrs) - i)})
	}
	program = append(program, unix.SockFilter{Code: unix.BPF_RET, K: filterAllow}, unix.SockFilter{Code: unix.BPF_RET, K: filterNotify})
	fprog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	args, env := os.Args[1:], slices.DeleteFunc(os.Environ(), func(s string) bool { return s == EnvStage+"="+stageFaulty })
	path, err := syscall.BytePtrFromString(args[0])
	if err != nil {
		return err
	}
	argv, err := syscall.SlicePtrFromStrings(args)
	if err != nil {
		return err
	}
	envv, err := syscall.SlicePtrFromStrings(env)
	if err != nil {
		return err
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, setModeFilter, flagListener, uintptr(unsafe.Pointer(&fprog))); errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	var b [1]byte
	unix.RawSyscall(unix.SYS_READ, 0, uintptr(unsafe.Pointer(&b)), 1)
	_, _, errno := unix.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&envv[0])))
	return errno
}

// takeListener gets the listener of a process in that stage; -1 while it has none.
func takeListener(pid int) (fd int, err error) {
	names, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return -1, err
	}
	for _, name := range names {
		if to, err := os.Readlink(name); err != nil || to != listenerName {
			continue
		}
		var n int
		if _, err := fmt.Sscan(filepath.Base(name), &n); err != nil {
			return -1, err
		}
		return takeFile(pid, n)
	}
	return -1, nil
}

// takeFile is a descriptor of another process's open file.
func takeFile(pid, fd int) (int, error) {
	p, err := unix.PidfdOpen(pid, unix.PIDFD_THREAD)
	if err != nil {
		return -1, err
	}
	defer unix.Close(p)
	return unix.PidfdGetfd(p, fd, 0)
}

// memory reads from another process's memory: all of b, or up to where it ends.
func memory(pid int, at uint64, b []byte) int {
	local := []unix.Iovec{{Base: &b[0], Len: uint64(len(b))}}
	n, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: uintptr(at), Len: len(b)}}, 0)
	if err != nil {
		return 0
	}
	return n
}
