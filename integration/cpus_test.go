package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ttfs/ttfs/integration/rig"
)

// cpuset is a control group that lets its processes use one CPU. "" where this machine lets nobody make one.
func cpuset(t *testing.T, cpu int) string {
	t.Helper()
	const top = "/sys/fs/cgroup/"
	parent, unified := top+"cpuset", false
	if _, err := os.Stat(parent + "/cpuset.cpus"); err != nil {
		parent, unified = top, true
		if err := os.WriteFile(parent+"cgroup.subtree_control", []byte("+cpuset"), 0); err != nil {
			t.Logf("no cpuset can be made here: %v", err)
			return ""
		}
	}
	dir, err := os.MkdirTemp(parent, "ttfs-test-")
	if err != nil {
		t.Logf("no cpuset can be made here: %v", err)
		return ""
	}
	t.Cleanup(func() {
		rig.Eventually(t, "the cpuset to be empty", func() bool {
			err := unix.Rmdir(dir)
			return err == nil || !errors.Is(err, unix.EBUSY)
		})
	})
	files := map[string]string{"cpuset.cpus": strconv.Itoa(cpu)}
	if !unified {
		files["cpuset.mems"] = "0"
	}
	for name, value := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0); err != nil {
			t.Logf("no cpuset can be made here: %v", err)
			return ""
		}
	}
	return dir
}

// TestConfined: a daemon that may not use every CPU serves callers on all of them, by the transport that it would have
// otherwise; also when it is confined, or let loose, or its threads are moved, while it works.
func TestConfined(t *testing.T) {
	t.Parallel()
	w := rig.New(t)
	want := map[bool]string{true: "uring", false: "classic"}[uringWorks(t, w)]
	group := cpuset(t, 0)
	into := func(group string, pid any) string {
		if group == "" {
			return ""
		}
		return fmt.Sprintf("echo %v >%s/cgroup.procs; ", pid, group)
	}
	w.Adopt(w.Run("/", "sh", "-e", "-c", into(group, "$$")+`exec "$1" mount "$2"`, "sh", os.Getenv(rig.EnvBinary), w.Dir))
	if got := w.Status()["transport"]; got != want {
		t.Errorf("in a cpuset the transport is %s, not %s", got, want)
	}
	load := startLoad(t, w, "confined")
	load.until(200)
	for cpu := range runtime.NumCPU() {
		if group != "" {
			w.Sh(into(filepath.Dir(group), w.Daemon())).OK()
		}
		w.Sh(fmt.Sprintf("taskset -a -p -c %d %d", cpu, w.Daemon())).OK()
		load.until(load.turns.Load() + 200)
		w.Sh(into(group, w.Daemon())).OK()
		load.until(load.turns.Load() + 200)
	}
	load.end()
	for i := range 4 {
		if left, err := filepath.Glob(w.Path(fmt.Sprintf("confined/%d/b*", i))); err != nil || len(left) < 20 {
			t.Errorf("the load left %d files behind: %v", len(left), err)
		}
	}
	w.Unmount()
	w.TTFSIn("/", "--workspace", w.Dir, "fsck").OK()
}
