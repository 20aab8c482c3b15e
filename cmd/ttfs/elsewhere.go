package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// A mount that is taken away here may be in another mount namespace still: one that was made while it was there, by `unshare -m`
// or a container, has its own. The daemon then serves on, and keeps the store, until the last process of that namespace has ended.

// elsewhere are processes with a mount of ours that is wanted in a mount namespace that is not this process's, one for each
// namespace, as far as /proc tells this user: `sh (123)`.
func elsewhere(wanted func(mountPoint) bool) []string {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	own, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return nil
	}
	var pids []int
	seen := map[string]bool{own: true}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", pid))
		if err != nil || seen[ns] {
			continue
		}
		all, err := mountsOf(strconv.Itoa(pid))
		if err != nil {
			continue // it has just ended
		}
		seen[ns] = true
		if slices.ContainsFunc(all, wanted) {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return named(pids)
}

// mountedElsewhere says in whose mount namespaces a directory is mounted which is not mounted here; nil: in nobody's.
func mountedElsewhere(dir string) error {
	users := elsewhere(func(m mountPoint) bool { return m.dir == dir })
	if len(users) == 0 {
		return nil
	}
	return &failure{code: exitFailed, text: dir + " is not mounted here, but " + whose(users), next: "end them, then its daemon ends and closes the store"}
}

// whose says in whose mount namespace a mount is.
func whose(users []string) string {
	return fmt.Sprintf("in the mount namespace of %s", strings.Join(users, ", "))
}
