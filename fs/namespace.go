package fs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// PrivateMounts starts a child in a mount namespace of its own, so that it and its children can see a fork at the
// workspace's path. Without CAP_SYS_ADMIN it is also in a user namespace, which maps the caller to itself and nobody else:
// files have the owners that they have, and supplementary groups go on to count. The child keeps CAP_SYS_ADMIN over an exec
// until CoverWorkspace takes it away.
func PrivateMounts() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if mayMount() {
		return a
	}
	a.Cloneflags |= syscall.CLONE_NEWUSER
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	a.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
	return a
}

// mayMount says whether this process has CAP_SYS_ADMIN.
func mayMount() bool {
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var d [2]unix.CapUserData
	return unix.Capget(&h, &d[0]) == nil && d[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

// CoverWorkspace binds a directory over the workspace, and gives up what it needed for that. What is mounted and unmounted
// outside is seen inside (the mounts are slaves), and nothing the other way. Preconditions: the process was started with
// PrivateMounts.
func CoverWorkspace(workspace, tree string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("keep its mounts from others: %w", err)
	}
	if err := unix.Mount(tree, workspace, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s over %s: %w", tree, workspace, err)
	}
	if os.Geteuid() == 0 {
		return nil
	}
	// Every thread has capabilities of its own; an exec goes on with those of the thread that calls it.
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("give capabilities up: %w", err)
	}
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&h, &none[0])
}

// ProbeForks says why no command can be run in a fork at the workspace's path; nil when one can. It starts a child in its
// namespaces that ends at once. (A thread of this process would do, but for the first one: that cannot end.)
func ProbeForks() error {
	if !mayMount() {
		if err := forbidden("/proc/sys"); err != nil {
			return err
		}
	}
	child := exec.Cmd{Path: "/proc/self/no such program", SysProcAttr: PrivateMounts()}
	// The namespaces are made before the program is looked for: that there is none is the good answer.
	switch err := child.Start(); {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err == nil:
		return errors.Join(errors.New("a program that is not there was started"), child.Process.Kill(), child.Wait())
	default:
		return fmt.Errorf("no mount namespace can be made: %w; %s", err, forksNeed)
	}
}

const forksNeed = "a fork at the workspace's own path needs root (CAP_SYS_ADMIN) or unprivileged user namespaces"

// forbidden looks for the switches by which distributions forbid user namespaces, or let them be made and then of no use.
func forbidden(dir string) error {
	for _, c := range []struct{ name, bad, next string }{
		{"user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"},
		{"kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"},
		{"kernel/apparmor_restrict_unprivileged_userns", "1", "sysctl kernel.apparmor_restrict_unprivileged_userns=0"},
	} {
		b, err := os.ReadFile(filepath.Join(dir, c.name))
		if err == nil && strings.TrimSpace(string(b)) == c.bad {
			return fmt.Errorf("%s, which this machine forbids (%s is %s); root can allow them: %s", forksNeed, strings.ReplaceAll(c.name, "/", "."), c.bad, c.next)
		}
	}
	return nil
}
