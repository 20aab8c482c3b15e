package fs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/ttfs/ttfs/fs/overlay"
)

// kernel is what the face tells the kernel: transport.Conn.
type kernel interface {
	// Tell calls a function from which the kernel can be notified of names and of content, and returns when it has.
	Tell(func())
	EntryNotify(parent uint64, name string) fuse.Status
	InodeNotify(node uint64, off, length int64) fuse.Status
	PruneNotify(nodes []uint64) fuse.Status
	RegisterBackingFd(*fuse.BackingMap) (id int32, code syscall.Errno)
	UnregisterBackingFd(id int32) syscall.Errno
}

// notifier tells the kernel what a move has changed, so that nobody sees what was cached before it.
type notifier struct {
	f  *face
	sp *space
}

// Changed tells the kernel, and returns when it knows. The telling is done by a thread of its own: a notification
// waits for the directory's lock, which a request may hold that is being handled, but never one that waits for us.
func (n *notifier) Changed(c overlay.Changes) {
	n.f.server.Tell(func() {
		for _, ent := range c.Entries {
			if ent.Dir != 0 {
				n.said("entry", n.f.server.EntryNotify(n.sp.id(ent.Dir), ent.Name))
			}
		}
		for _, id := range c.Nodes {
			n.said("inode", n.f.server.InodeNotify(n.sp.id(id), 0, 0))
		}
	})
	n.f.replay.show(n.sp, c)
}

// said logs what the kernel says to a notification. That it does not know the name or the inode is well. A goroutine of its own logs,
// for the thread that tells does not have the log's descriptor.
func (n *notifier) said(what string, s fuse.Status) {
	if !s.Ok() && s != fuse.ENOENT && s != fuse.Status(syscall.ENOTDIR) {
		go n.f.log.Warn("the kernel could not be told of a change", "what", what, "status", s)
	}
}
