package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// closeLimit is how long a daemon may take to close its store after an unmount.
const closeLimit = 2 * time.Minute

// elsewhereLimit is how long it may be so because another mount namespace has the mount, which may be about to end.
const elsewhereLimit = 5 * time.Second

// settleLimit is how long an unmount may be refused although nobody is seen to use the mount: a process that just ended
// lets its files go a moment later.
const settleLimit = 2 * time.Second

func newUnmount(g *global, s streams) *cobra.Command {
	lazy := false
	c := &cobra.Command{
		Use:     "unmount [--lazy] [DIR]",
		Aliases: []string{"umount"},
		Short:   "detach: the workspace is an ordinary directory again",
		Example: "  ttfs unmount ~/project",
		Args:    positional(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				g = &global{workspace: args[0]}
			}
			w, err := g.find()
			if err != nil {
				return err
			}
			return runUnmount(w, lazy, s)
		},
	}
	c.Flags().BoolVar(&lazy, "lazy", false, "detach it although it is in use; the daemon goes on for those that use it")
	return c
}

func runUnmount(w workspace, lazy bool, s streams) error {
	if !w.mounted {
		if err := mountedElsewhere(w.dir); err != nil {
			return err
		}
		return notMounted(w)
	}
	if w.dead() {
		if err := detach(w.dir, true); err != nil {
			return failed("unmount "+w.dir+", whose daemon has died", err, "do it as root: umount -l "+quoteArg(w.dir))
		}
		return nil
	}
	m, err := w.client()
	if err != nil {
		return err
	}
	if fork, err := m.fork(); err == nil && fork != "" {
		return &failure{code: exitFailed, text: w.dir + " is the fork " + fork + " here", next: "the workspace is unmounted from outside of it"}
	}
	pid, err := m.pid()
	if err != nil {
		return failed("find the daemon of "+w.dir, err, "see "+m.path("status"))
	}
	daemon, err := unix.PidfdOpen(pid, 0)
	if err != nil { // it is in another pid namespace, or ended just now
		daemon = -1
	} else {
		defer unix.Close(daemon)
	}
	keeper := openKeeper(pid)
	if keeper >= 0 {
		defer unix.Close(keeper)
	}
	inForks := m.forkUsers() // of them the kernel does not say that the mount is busy: theirs is another
	if len(inForks) > 0 && !lazy {
		return inUse(w, inForks)
	}
	users, err := detachUnused(w, pid, lazy)
	if err != nil {
		return err
	}
	if users = append(users, inForks...); len(users) > 0 {
		fmt.Fprintf(s.err, "ttfs: %s is detached; process %d goes on serving it to %s, and ends with them\n", w.dir, pid, strings.Join(users, ", "))
		return nil
	}
	err = waitClosed(w, pid, daemon)
	if err == nil {
		waitKeeper(keeper)
	}
	return err
}

// detachUnused takes the mount away. Users are those that go on using it, when lazy.
func detachUnused(w workspace, pid int, lazy bool) (users []string, err error) {
	if lazy {
		users = holders(w, pid)
		if err := detach(w.dir, true); err != nil {
			return nil, failed("unmount "+w.dir, err, "")
		}
		return users, nil
	}
	for until := time.Now().Add(settleLimit); ; time.Sleep(20 * time.Millisecond) {
		err := detach(w.dir, false)
		if err == nil {
			return nil, nil
		}
		if !isBusy(err) {
			return nil, failed("unmount "+w.dir, err, "")
		}
		users = holders(w, pid)
		if len(users) == 0 && time.Now().Before(until) {
			continue
		}
		return nil, inUse(w, users)
	}
}

// inUse refuses to unmount what processes use.
func inUse(w workspace, users []string) error {
	text := w.dir + " is in use"
	if len(users) > 0 {
		text += " by " + strings.Join(users, ", ")
	}
	return &failure{code: exitFailed, text: text, next: "end that, or detach it all the same with `ttfs unmount --lazy " + quoteArg(w.dir) + "`"}
}

// waitClosed waits until the daemon has ended: only then is the store closed.
func waitClosed(w workspace, pid, daemon int) error {
	if daemon < 0 {
		return nil
	}
	for began := time.Now(); time.Since(began) < closeLimit; {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(daemon), Events: unix.POLLIN}}, 1000)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return failed("wait for the daemon of "+w.dir, err, "")
		case n > 0:
			return nil
		case time.Since(began) < elsewhereLimit:
			continue
		}
		if users := elsewhere(func(m mountPoint) bool { return m.dev == w.mount.dev }); len(users) > 0 {
			return &failure{code: exitFailed, text: fmt.Sprintf("%s is unmounted here, but not %s: its daemon, process %d, goes on for them", w.dir, whose(users), pid),
				next: "end them, then it closes the store and ends"}
		}
	}
	return &failure{code: exitFailed, text: fmt.Sprintf("%s is unmounted, but after %v its daemon, process %d, has still not closed the store", w.dir, closeLimit, pid),
		next: "see " + w.dir + "/.tt/daemon.log"}
}

// detach unmounts, as root by itself, else by fusermount3. Errors: EBUSY, when it is in use and not lazy.
func detach(dir string, lazy bool) error {
	flags := unix.UMOUNT_NOFOLLOW
	if lazy {
		flags |= unix.MNT_DETACH
	}
	err := unix.Unmount(dir, flags)
	if !errors.Is(err, syscall.EPERM) {
		return err
	}
	args := []string{"-u", "--", dir}
	if lazy {
		args = []string{"-u", "-z", "--", dir}
	}
	name := "fusermount3"
	if _, err := exec.LookPath(name); err != nil {
		name = "fusermount"
	}
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	text := strings.TrimSpace(string(out))
	if strings.Contains(text, "busy") { // fusermount3 has one exit status for everything
		return syscall.EBUSY
	}
	return fmt.Errorf("%s: %w: %s", name, err, text)
}
