// Package treecmp takes a picture of a directory tree that holds all that a
// path is, and says where two pictures differ.
//
// It is the judge of "comes back exactly": type, mode, owner, size, times,
// content, data extents, extended attributes with the ACLs, symlink target,
// device number and hard-link group of every path, whatever bytes its name has.
// Left out on purpose: inode and change-time (nobody can restore them), access
// time, the size of directories (a filesystem's own affair), and `.tt` at the
// top, which is the filesystem's and not the workspace's.
//
// Invariants: a picture never changes after Take returned it; taking one changes
// nothing in the tree but access times; it opens only regular files, so it
// never blocks on a fifo.
//
// Lock order: none. Bytes on disk: none.
package treecmp
