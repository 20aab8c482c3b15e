package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxHolders bounds the processes that a message names.
const maxHolders = 8

// holders are the processes that use a mount, as far as /proc tells this user, for a message: `sh (123)`. What the daemon started itself, to show
// watchers a move, lets go by itself.
func holders(w workspace, daemon int) []string {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid != daemon && pid != os.Getpid() && parentOf(pid) != daemon && holds(pid, w.mount.id) {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return named(pids)
}

// named are processes as a message names them.
func named(pids []int) (names []string) {
	for i, pid := range pids {
		if i == maxHolders {
			names = append(names, fmt.Sprintf("%d more", len(pids)-i))
			break
		}
		names = append(names, fmt.Sprintf("%s (%d)", commandOf(pid), pid))
	}
	return names
}

// parentOf is the parent of a process; 0: it has ended.
func parentOf(pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name is in parentheses and may hold any byte; the state and the parent are after it.
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(fields) < 2 {
		return 0
	}
	n, _ := strconv.Atoi(fields[1])
	return n
}

// holds says whether a process has its working directory, its root, its program or a descriptor in a mount.
func holds(pid, mount int) bool {
	dir := fmt.Sprintf("/proc/%d/", pid)
	paths := []string{dir + "cwd", dir + "root", dir + "exe"}
	if fds, err := os.ReadDir(dir + "fd"); err == nil {
		for _, fd := range fds {
			paths = append(paths, dir+"fd/"+fd.Name())
		}
	}
	return slices.ContainsFunc(paths, func(path string) bool {
		var st unix.Statx_t
		// AT_STATX_DONT_SYNC: the mount's daemon is not asked.
		err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, unix.STATX_MNT_ID, &st)
		return err == nil && st.Mask&unix.STATX_MNT_ID != 0 && st.Mnt_id == uint64(mount)
	})
}

// commandOf is the name of a process.
func commandOf(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return "process"
	}
	return strings.TrimSpace(string(b))
}
