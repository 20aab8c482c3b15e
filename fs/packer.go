package fs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/ttfs/ttfs/cas"
	"golang.org/x/sys/unix"
)

// schedIdle and ioIdle are the classes of who works when nobody else wants to. Source: SCHED_IDLE in linux/sched.h,
// IOPRIO_CLASS_IDLE and IOPRIO_CLASS_SHIFT in linux/ioprio.h.
const (
	schedIdle   = 5
	ioIdle      = 3 << 13
	ioOfProcess = 1
)

// Pack is the process that hashes and compresses for the archiver (cas.ServePacks), at idle priority: of the processor, and of
// the disk where its scheduler knows priorities. It ends when its input does.
//
// The priority is a thread's, and Go has several before any line of ours runs. So the first time the process only makes
// the one thread idle, and becomes itself once more: what it starts then is idle too. What the system forbids of it is done
// without.
func Pack(in io.Reader, out io.Writer) error {
	runtime.LockOSThread()
	if policy, err := unix.SchedGetAttr(0, 0); err == nil && policy.Policy != schedIdle {
		_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, ioOfProcess, 0, ioIdle)
		if unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: schedIdle}, 0) == nil {
			_ = syscall.Exec("/proc/self/exe", os.Args, os.Environ()) // without /proc it stays as it is
		}
	}
	return cas.ServePacks(in, out)
}

// packer starts that process for the engine.
func packer(command []string) func(context.Context) (cas.Packer, func(), error) {
	if len(command) == 0 {
		return nil
	}
	return func(ctx context.Context) (cas.Packer, func(), error) { return startPacker(ctx, command) }
}

// startPacker starts that process. It ends with ctx, with this process, or when it is told to stop.
func startPacker(ctx context.Context, command []string) (cas.Packer, func(), error) {
	// go-fuse's own descriptor stays open at exec: the child would keep the connection alive when the daemon is killed.
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("keep the connection from the child: %w", err)
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = "/", []string{"GOMAXPROCS=1"}, &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, errors.Join(err, in.Close())
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, errors.Join(err, in.Close())
	}
	stop := func() {
		_ = cmd.Process.Kill() // it may just have ended
		go cmd.Wait()          // on a busy machine it has no time to end; how it ends is nobody's concern
	}
	return cas.NewPacker(in, out), stop, nil
}
