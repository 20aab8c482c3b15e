package fs

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/ttfs/ttfs/fs/overlay"
)

// processesIn are the living processes that are in a fork: those of its agent if that works in it alone, those whose mount namespace has the fork
// over the workspace, and those whose directory, root or program is below its tree. Nothing that is read makes the
// filesystem itself be asked, so that a request may wait for it. Processes that may not be looked into are not seen.
func (f *face) processesIn(sp *space) []int {
	var pids []int
	if sp.up.e.IsolationOf(sp.agent) == overlay.IsolateFork {
		pids = f.ids.PIDs(sp.agent)
	}
	self, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return pids
	}
	dev, ok := mountDevice(string(self), f.replay.dir)
	if !ok {
		return pids
	}
	s := forkScan{dev: fmt.Sprintf("%d:%d", dev>>20, dev&(1<<20-1)), root: "/" + sp.path, tree: f.replay.dir + "/" + sp.path, namespaces: map[string]bool{}}
	all, err := os.ReadDir("/proc")
	if err != nil {
		return pids
	}
	for _, ent := range all {
		if pid, err := strconv.Atoi(ent.Name()); err == nil && pid != os.Getpid() && s.has("/proc/"+ent.Name()) {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}

// forkScan looks for the processes in one fork.
type forkScan struct {
	dev  string // of the mount, as mountinfo has it
	root string // the fork's tree, from the root of the filesystem
	tree string // the same as a path
	// namespaces says of each mount namespace whether the fork is mounted in it.
	namespaces map[string]bool
}

func (s *forkScan) has(proc string) bool {
	for _, name := range []string{"cwd", "root", "exe"} {
		at, err := os.Readlink(proc + "/" + name)
		if err == nil && (at == s.tree || strings.HasPrefix(at, s.tree+"/")) {
			return true
		}
	}
	ns, err := os.Readlink(proc + "/ns/mnt")
	if err != nil {
		return false
	}
	in, known := s.namespaces[ns]
	if !known {
		text, err := os.ReadFile(proc + "/mountinfo")
		if err != nil {
			return false // it has ended
		}
		in = s.mounted(string(text))
		s.namespaces[ns] = in
	}
	return in
}

// mounted says whether a mountinfo has the fork, or a fork of it. Source: proc_pid_mountinfo(5).
func (s *forkScan) mounted(mountinfo string) bool {
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[2] != s.dev {
			continue
		}
		root := strings.TrimSuffix(unescapeMount(fields[3]), "//deleted")
		if root == s.root || strings.HasPrefix(root, s.root+"/") {
			return true
		}
	}
	return false
}

// numbers writes processes for a message.
func numbers(pids []int) string {
	const most = 8
	var s []string
	for i, pid := range pids {
		if i == most {
			s = append(s, fmt.Sprintf("and %d more", len(pids)-i))
			break
		}
		s = append(s, strconv.Itoa(pid))
	}
	return strings.Join(s, ", ")
}
