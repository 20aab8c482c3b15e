package rig

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What one stage tells the next.
const (
	EnvStage       = "TTFS_RIG_STAGE"       // "", "init", "run" or stageFaulty
	EnvScratch     = "TTFS_RIG_SCRATCH"     // directory of this run, outside the disk
	EnvDisk        = "TTFS_RIG_DISK"        // mount point of the disk
	EnvDiskKind    = "TTFS_RIG_DISK_KIND"   // "ext4" or "tmpfs"
	EnvBinary      = "TTFS_BINARY"          // the ttfs under test; given by the user or built
	EnvTransport   = "TTFS_TRANSPORT"       // given by the user: the mounts are made over it
	EnvPassthrough = "TTFS_PASSTHROUGH"     // given by the user: off, and no mount passes files through
	EnvBuildError  = "TTFS_RIG_BUILD_ERROR" // why there is no binary
	EnvGoCache     = "TTFS_RIG_GOCACHE"
	EnvGoModCache  = "TTFS_RIG_GOMODCACHE"
	EnvPython      = "TTFS_RIG_PYTHON" // the interpreter itself, not a shim that needs HOME
)

// stopLimit is how long an interrupted run may take to end by itself.
const stopLimit = 20 * time.Second

// Main is the body of a TestMain: it runs m in a world of its own (see the
// package comment) and never returns.
func Main(m *testing.M) {
	var code int
	var err error
	switch stage := os.Getenv(EnvStage); stage {
	case "":
		code, err = outer()
	case "init":
		code, err = initStage()
	case stageFaulty:
		err = faulty()
	case "run":
		syscall.Umask(0o022)
		code = m.Run()
	default:
		err = fmt.Errorf("%s=%q is no stage", EnvStage, stage)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "rig:", err)
		code = 1
	}
	os.Exit(code)
}

func outer() (int, error) {
	scratch, err := os.MkdirTemp("", "ttfs-integration-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(scratch)
	env := append(os.Environ(), EnvStage+"=init", EnvScratch+"="+scratch)
	env = append(env, goSettings()...)
	env = append(env, EnvPython+"="+python())
	binary, err := binary(scratch)
	if err != nil {
		env = append(env, EnvBuildError+"="+err.Error())
	}
	env = append(env, EnvBinary+"="+binary)
	return isolated(env)
}

// isolated runs the init stage. The thread is locked because Pdeathsig fires
// when the thread that started the child ends, not the process (prctl(2)).
func isolated(env []string) (int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
	}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	if err := cmd.Start(); err != nil {
		return 1, fmt.Errorf("cannot start in namespaces of its own (needs root or user namespaces): %w", err)
	}
	stop := make(chan os.Signal, 1)
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(sig) { // nohup, or a job in the background: leave it ignored
			signal.Notify(stop, sig)
		}
	}
	go func() {
		<-stop
		_ = cmd.Process.Signal(syscall.SIGTERM) // the init stage ends its connections first
		time.Sleep(stopLimit)
		_ = cmd.Process.Kill()
	}()
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if code := exit.ExitCode(); code > 0 {
			return code, nil
		}
		return 1, fmt.Errorf("the tests ended by %v", exit)
	}
	return 0, err
}

// binary finds the program under test, or builds it once.
func binary(scratch string) (string, error) {
	if given := os.Getenv(EnvBinary); given != "" {
		return filepath.Abs(given)
	}
	root, err := output("go", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return "", err
	}
	path := filepath.Join(scratch, "ttfs")
	build := exec.Command("go", "build", "-o", path, "./cmd/ttfs")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/ttfs: %w: %s", err, out)
	}
	return path, nil
}

// goSettings are the caches of this machine, for the go command in workspaces:
// children get a HOME of their own, so they cannot find them.
func goSettings() []string {
	cache, _ := output("go", "env", "GOCACHE")
	mod, _ := output("go", "env", "GOMODCACHE")
	return []string{EnvGoCache + "=" + cache, EnvGoModCache + "=" + mod}
}

func python() string {
	path, err := output("python3", "-c", "import sys; print(sys.executable)")
	if err != nil {
		return "python3"
	}
	return path
}

func output(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(append([]string{name}, args...), " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
