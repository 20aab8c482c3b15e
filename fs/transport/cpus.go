package transport

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

const cpuDir = "/sys/devices/system/cpu/"

// cpus are the CPUs that there may ever be, for each of which the kernel has a queue, and which of them are there now.
func cpus() (possible int, online []bool, err error) {
	last, err := readCPUs("possible")
	if err != nil {
		return 0, nil, err
	}
	now, err := readCPUs("online")
	if err != nil {
		return 0, nil, err
	}
	// The queues are numbered from 0 to their number; the list of possible CPUs has no holes on any machine that Linux runs
	// on with FUSE's per-CPU queues (num_possible_cpus).
	possible = len(last)
	online = make([]bool, possible)
	for _, c := range now {
		if c < possible {
			online[c] = true
		}
	}
	return possible, online, nil
}

func readCPUs(name string) ([]int, error) {
	text, err := os.ReadFile(cpuDir + name)
	if err != nil {
		return nil, fmt.Errorf("count the CPUs: %w", err)
	}
	return parseCPUs(string(text))
}

// parseCPUs reads a list like 0-3,8,10-11.
func parseCPUs(text string) ([]int, error) {
	var list []int
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, err := strconv.Atoi(first)
		to := from
		if err == nil && isRange {
			to, err = strconv.Atoi(last)
		}
		if err != nil || from < 0 || to < from || to > 1<<16 {
			return nil, fmt.Errorf("count the CPUs: %q is no list of CPUs", text)
		}
		for c := from; c <= to; c++ {
			list = append(list, c)
		}
	}
	return list, nil
}

// runsOn is the CPU that the calling thread is on; -1 when the kernel does not say.
func runsOn() int {
	var cpu uint32
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0); errno != 0 {
		return -1
	}
	return int(cpu)
}

// pin keeps the calling thread on a CPU. False: this process may not use it.
func pin(cpu int) bool {
	var set unix.CPUSet
	set.Set(cpu)
	return unix.SchedSetaffinity(0, &set) == nil
}

// affinity is where the calling thread may run.
func affinity() (set unix.CPUSet, ok bool) {
	return set, unix.SchedGetaffinity(0, &set) == nil
}
