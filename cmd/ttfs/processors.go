package main

import (
	"os"
	"runtime"
)

// roomThreads is how many threads, for each processor and at most, may run Go's code beside those that there are processors for.
const (
	roomThreads     = 3
	mostRoomThreads = 12
)

// tuneProcessors lets more threads run Go's code than there are processors, unless who started the daemon has said how many
// (GOMAXPROCS). By Go's own rule a thread that comes back from a system call must wait for another one to stop, also while
// that one itself waits for a processor which the callers have, perhaps with a lock held: the kernel, which knows who waits for whom and runs
// programs and daemon by one rule, is not asked. A request's thread comes back from the kernel with each request.
func tuneProcessors() {
	if os.Getenv("GOMAXPROCS") != "" {
		return
	}
	n := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(n + min(roomThreads*n, mostRoomThreads))
}
