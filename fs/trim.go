package fs

import (
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

const (
	// trimBatch is how many inodes the kernel is asked to drop at once.
	trimBatch = 2048
	// trimWait is how long the forgets of a batch may take to come before the next is asked for.
	trimWait = 20 * time.Millisecond
	// trimRounds bounds the batches of one trim.
	trimRounds = 256
)

// Crowded has the kernel drop inodes that it does not use; at once and by a goroutine of its own, for who is served must not
// wait: to drop an inode, the kernel may have to write its pages back first.
func (n *notifier) Crowded() {
	if n.sp.trimming.CompareAndSwap(false, true) {
		go n.f.trim(n.sp)
	}
}

// Crowded is that of the fork's space.
func (n *forkNotifier) Crowded() {
	if sp := n.f.fork(n.name); sp != nil {
		(&notifier{f: n.f, sp: sp}).Crowded()
	}
}

// trim has the kernel drop what it does not use of a space, until there is little enough or nothing more comes of it.
func (f *face) trim(sp *space) {
	defer sp.trimming.Store(false)
	views := f.views.of(sp)
	idle := 0
	for round := 0; round < trimRounds && idle < 3; round++ {
		spare := sp.e.Spare(trimBatch)
		if len(spare) == 0 {
			break
		}
		before := sp.e.Nodes()
		for _, v := range views {
			ids := make([]uint64, len(spare))
			for i, id := range spare {
				ids[i] = v<<viewShift | uint64(id)
			}
			var s fuse.Status
			f.server.Tell(func() { s = f.server.PruneNotify(ids) })
			switch s {
			case fuse.OK:
			case fuse.ENOSYS: // before Linux 6.18
				sp.e.Spared(true)
				return
			default: // it is being unmounted
				return
			}
		}
		for end := time.Now().Add(trimWait); sp.e.Nodes() > before-len(spare)/2 && time.Now().Before(end); {
			time.Sleep(time.Millisecond) // the pause of the poll: forgets come by themselves
		}
		if idle++; sp.e.Nodes() < before {
			idle = 0
		}
	}
	sp.e.Spared(false)
}

// of are the numbers of the views of a space, its own tree's first.
func (t *viewTable) of(sp *space) []uint64 {
	numbers := []uint64{sp.view}
	if all := t.all.Load(); all != nil {
		for i, v := range *all {
			if n := uint64(i + 1); v.sp == sp && n != sp.view {
				numbers = append(numbers, n)
			}
		}
	}
	return numbers
}
