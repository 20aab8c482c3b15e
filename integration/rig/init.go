package rig

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func initStage() (int, error) {
	scratch := os.Getenv(EnvScratch)
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return 1, fmt.Errorf("make the mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return 1, fmt.Errorf("mount /proc of the new pid namespace: %w", err)
	}
	// Where this is not allowed, the mounts are classic, and so are the tests.
	_ = os.WriteFile("/sys/module/fuse/parameters/enable_uring", []byte("Y"), 0)
	disk := filepath.Join(scratch, "disk")
	kind, err := mountDisk(scratch, disk)
	if err != nil {
		return 1, err
	}
	temp := filepath.Join(scratch, "tmp")
	if err := os.Mkdir(temp, 0o1777); err != nil {
		return 1, err
	}
	for name, value := range map[string]string{EnvStage: "run", EnvDisk: disk, EnvDiskKind: kind, "TMPDIR": temp} {
		if err := os.Setenv(name, value); err != nil {
			return 1, err
		}
	}
	code, err := supervise(os.Environ())
	abortConnections(scratch)
	return code, err
}

// mountDisk puts a journaled ext4 of 4 GiB, which takes room only as it is
// filled, on dir; or a tmpfs where loop devices are not allowed. Journaled
// because an ext4 without does not reuse inode numbers for minutes, and creates
// become slow.
func mountDisk(scratch, dir string) (string, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	image := filepath.Join(scratch, "disk.img")
	err := ext4(image, dir)
	// The loop device holds the inode: without its name it goes by itself.
	if removed := os.Remove(image); removed != nil && err == nil {
		return "", removed
	}
	if err == nil {
		return "ext4", nil
	}
	fmt.Fprintln(os.Stderr, "rig: no ext4 image, the disk is a tmpfs:", err)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4g,mode=0755"); err != nil {
		return "", fmt.Errorf("mount a tmpfs: %w", err)
	}
	return "tmpfs", nil
}

func ext4(image, dir string) error {
	f, err := os.Create(image)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(16 << 30); err != nil {
		return err
	}
	mkfs, err := exec.LookPath("mkfs.ext4")
	if err != nil {
		mkfs = "/usr/sbin/mkfs.ext4"
	}
	for _, args := range [][]string{
		{mkfs, "-q", "-F", "-m", "0", "-i", "8192", "-E", "lazy_itable_init=1,lazy_journal_init=1", image},
		{"mount", "-o", "loop,user_xattr,acl,nobarrier", image, dir},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", args[0], err, out)
		}
	}
	return nil
}

// supervise runs this program's next stage and, being process 1, reaps whatever
// else ends until that one has.
func supervise(env []string) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 1, err
	}
	defer null.Close()
	child, err := os.StartProcess(self, os.Args, &os.ProcAttr{Env: env, Files: []*os.File{null, os.Stdout, os.Stderr}})
	if err != nil {
		return 1, err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	go func() {
		<-stop
		_ = child.Kill()
	}()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR) || err == nil && pid != child.Pid:
			continue
		case err != nil:
			return 1, fmt.Errorf("wait: %w", err)
		case status.Exited():
			return status.ExitStatus(), nil
		default:
			return 1, fmt.Errorf("the tests ended by signal %v", status.Signal())
		}
	}
}

// abortConnections ends the FUSE connections of the mounts that are still there
// under dir, so that nobody sleeps in one when the namespace is torn down.
func abortConnections(dir string) {
	for _, m := range mounts() {
		if m.kind != "" && strings.HasPrefix(m.kind, "fuse") && strings.HasPrefix(m.point, dir+"/") {
			abortConnection(m.minor)
		}
	}
}

type mount struct {
	point string
	minor string // of the device number: the name of the FUSE connection
	kind  string
}

// mounts lists this namespace's, the topmost last. Source: proc(5), mountinfo.
func mounts() []mount {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	defer f.Close()
	var list []mount
	for lines := bufio.NewScanner(f); lines.Scan(); {
		left, right, found := strings.Cut(lines.Text(), " - ")
		fields, kinds := strings.Fields(left), strings.Fields(right)
		if !found || len(fields) < 5 || len(kinds) < 1 {
			continue
		}
		_, minor, _ := strings.Cut(fields[2], ":")
		list = append(list, mount{point: unescape(fields[4]), minor: minor, kind: kinds[0]})
	}
	return list
}

func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

func abortConnection(minor string) {
	_ = os.WriteFile(connection(minor, "abort"), []byte("1"), 0)
}

// waiting is how many requests of a connection have no answer yet.
func waiting(minor string) int {
	content, err := os.ReadFile(connection(minor, "waiting"))
	if err != nil {
		return 0 // the connection is gone
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(content)))
	return n
}

// connection is a file of the fusectl filesystem, which is mounted in this
// namespace when it is not there.
func connection(minor, name string) string {
	const dir = "/sys/fs/fuse/connections"
	path := filepath.Join(dir, minor, name)
	if _, err := os.Stat(path); err != nil {
		_ = unix.Mount("fusectl", dir, "fusectl", 0, "")
	}
	return path
}
