// Package fs is the FUSE face of the engine: it decodes the kernel's requests once, finds out on whose behalf they come,
// asks fs/overlay, and encodes the answer. Below `.tt` it serves fs/control's tree.
//
// # Nodes
//
// A node id is the engine's own with the number of a view above it (see view: 0 is the workspace), or, from virtualBase on,
// that of a name below `.tt`. Ids are never used twice, so a generation is told only of a directory that came back. Every request goes to the engine of the
// space that its node is in.
//
// # What the kernel caches
//
// Entries, attributes and targets of symbolic links, most for ten seconds (keep.go): everything that the mount itself changes
// is told to the kernel at once (moves, by notifications), what is changed around the mount shows after that. Listings, until the directory
// changes (overlay.Keep). Data is not cached: files are passed through to
// the page cache of the backing file, or read and written directly; without passthrough the kernel caches what was read
// until the next open.
//
// # Watchers
//
// A notification of the kernel makes no inotify event, so a child of the daemon shows moves to whoever watches: it makes
// the system calls of the move on the mount, and they are answered without effect (replay.go). Its requests are told by
// its pid. The daemon itself never reaches its own mount.
//
// # Locks
//
//	replay.turn    the move being shown; held while the child makes its calls
//	 replay.mu     the child
//	 shower.mu     whether the child lives, and so whether its pid is its own
//	backings.mu    ids under which the kernel knows backing files
//	virtuals.mu    nodes below .tt
//	views.mu       views being opened; finding one takes no lock
//	handles.mu     open files
//
// But for replay.turn, none is held while the engine is called. Notifications leave from one goroutine, which holds no
// lock; a handler may wait for it, since it never waits for a handler.
package fs
