package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// keeperLimit is how long a supervisor may take to end after its daemon.
const keeperLimit = 5 * time.Second

// openKeeper is a pidfd of a daemon's supervisor; -1: it has none.
func openKeeper(daemon int) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", daemon))
	if err != nil {
		return -1
	}
	parent := 0
	for line := range strings.Lines(string(status)) {
		if text, found := strings.CutPrefix(line, "PPid:"); found {
			parent, _ = strconv.Atoi(strings.TrimSpace(text)) // 0 is nobody
		}
	}
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", parent))
	if name := strings.TrimSpace(string(comm)); err != nil || name != keeperName && name != watcherName {
		return -1
	}
	fd, err := unix.PidfdOpen(parent, 0)
	if err != nil {
		return -1
	}
	return fd
}

// waitKeeper waits until a supervisor has ended, which has the daemon's log open, on the disk of the workspace: who unmounts that next would
// be told that it is in use. It is in nobody's way if it stays.
func waitKeeper(keeper int) {
	until := time.Now().Add(keeperLimit)
	for keeper >= 0 {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(keeper), Events: unix.POLLIN}}, int(max(0, time.Until(until).Milliseconds())))
		if err != unix.EINTR || n > 0 {
			return
		}
	}
}
