// Package transport carries requests from the kernel to a filesystem and its answers back: it mounts, reads, answers,
// notifies and unmounts. What the requests mean is go-fuse's (fuse.ProtocolServer) and the filesystem's.
//
// # Two ways
//
// The classic way is read(2) and write(2) on /dev/fuse. It always works, and carries INIT, FORGET and INTERRUPT in any
// case. The other is FUSE over io_uring (Linux 6.14, switched on by the module parameter enable_uring): a request is
// handed over on the CPU that made it, which is two to three times faster. It is used where the kernel offers it and a
// ring can be made; otherwise the mount is classic, and Why says why.
//
// # Threads of the rings
//
// The kernel has one queue for each possible CPU, and chooses it by the caller's CPU. A queue is served by threads, each
// locked, pinned to the queue's CPU, with a ring of its own and one entry of that queue in it. A request is handled on
// the thread that gets it: handing each over to a goroutine costs five times as much as all the rest.
//
// The one hard rule: a handler may wait for another request, or even reach its own mount, only as long as another thread
// has a free entry in the queue that the awaited request will arrive in. Therefore
//
//   - a thread has one entry. While it handles, no request can be given to it, so nothing ever waits for the task work of a
//     thread that sleeps: that is a deadlock which neither kill -9 nor aborting the connection ends;
//   - when few free threads of a queue are left (crew), one more is started at once, up to maxThreads, and the queue
//     is set going (kicks: the kernel does not give a new entry what is queued). So handlers
//     that wait for each other (an open for the release of another agent's file, a move for the child that shows it, a
//     look at /proc/PID for that process's page fault) are served, and none has to be told apart beforehand. Threads stay
//     until the mount goes: an entry cannot be given back.
//   - one thread has the entries of all CPUs that are not online. It handles nothing itself (asides). The first request in
//     such a queue starts threads of its own for it.
//
// A CPU that a cpuset forbids to the daemon has threads as every other, which run elsewhere: a caller there waits for one to
// wake up, as it does the classic way, and its queue cannot be kicked, so that it goes on with the next request from that
// CPU or when what the handlers wait for has come to the end of its patience. Callers most often share the daemon's cpuset.
// A thread that lost its CPU (taken offline, or to a cpuset) goes back to it when it can.
//
// Rejected: a list of operations that leave their thread. The list is never complete (any handler may meet the engine's
// gate while a move has it), the hand-over is slow, and reports back to a ring must wake its thread by yet another ring
// operation.
//
// A request that may compute for long (Options.Slow) lets its thread off the CPU meanwhile. A thread that is started by a
// handler's goroutine is never a ring's child: the runtime makes threads from one that was never pinned.
//
// # Birth and death
//
// The rings are made, and tried with a no-op, before INIT is answered, because once the answer says io_uring, every request
// waits until each queue has an entry. When a registration fails all the same, the kernel goes back to the classic way by
// itself. Unmounting, aborting and the daemon's death end the entries (ENOTCONN), and with them the threads. Handlers that
// still run are cancelled by an INTERRUPT made up for them.
//
// The daemon's death is the end of the connection only when all its threads can end. One that notifies may not be able to
// (tellers); it is kept from holding more than the device, and who watches the daemon does the rest.
//
// # Locks
//
//	readers.mu      the number of classic readers
//	 slots.mu       all places where requests are handled: a leaf
//	queue.mu        the number of threads of one queue: a leaf
//	tellers.mu      whether there is still somebody to tell: a leaf
//
// None is held over a system call on the device.
//
// Source: fs/fuse/dev.c, fs/fuse/dev_uring.c and include/uapi/linux/fuse.h of Linux 6.18.
package transport
