// Package overlay is the engine of ttfs: what an operation on the workspace means. It captures before-images, applies
// changes, moves the workspace between tasks, and shows how it was. It knows nothing of FUSE and is tested without it.
//
// # Objects and entries
//
// What a task changes is never a path. It is an entry, (directory, name) -> object, or an object's metadata, or its
// content. So a directory with a million files below it is renamed by two entries, and what was written before and
// after the rename belongs to the same objects. An object gets its number (OID) at its first touch; numbers are never
// used twice. An inode is told again by its inode number and birth time (inoKey).
//
// # Images
//
// For every entry, metadata or content that a task touches first, the journal keeps an image: what it was before. While
// the task is undone the same image holds what it was after: undo and redo are one operation, a swap of the images with
// the workspace (move.go).
//
// # Nothing is freed
//
// Removing a name never frees an inode that anybody may want back: the name is moved into the holding area, as
// hold/OID. An object in hold is found there; every other object is found by the one place (directory, name) that its
// record tells, checked against its inode key. A file whose only known name is removed while it has others that are
// not known (hard links, also ones outside the workspace) keeps its link in hold, and the number of links that programs
// see is one less than the inode's.
//
// # Locks
//
//	fork.work               one merge of a fork, or its discarding
//	 forkTable.changing     who makes a fork or takes one out
//	Engine.pruneMu          write: one prune or sweep, and closing; read: a merge
//	Engine.past            write: who gives up history; read: who reads it
//	 Engine.gate           one operation is counted; who holds everything waits for all, who claims something for the older ones
//	  Engine.renames       write: a rename between directories; read: the removal of a directory
//	   node.dir.mu         entries of one directory; a parent before its child, else two by node id
//	     node.mu           content, metadata and open handles of one inode; two by node id
//	      Engine.places    a name of an inode, and the node's place; a lock for each directory
//	       heard.mu        what the kernel keeps of a directory's names: a leaf; under Dir.mu
//	       dirState.times  a directory's times, in a fork, while something is raised into it
//	      Engine.tasks.turn who changes what the beginning of a task depends on
//	       Engine.tasks.mu the tree of tasks, what each task has touched
//	        Engine.objs.mu records of objects
//	          nodes.mu     the table of nodes: places, references
//
// What a move has claimed (gate.go) is its own without a lock: nobody else comes to it. Nothing is told to the kernel under any of them: see Notifier.
//
// # Crash
//
// A change is journaled before it is applied, in one record. After a death between the two, the image equals what is
// there, which is no harm; a record of an object may tell the place that it was about to take, so each record keeps the
// place before as well. A move is journaled before it starts and is completed at the next open. The bytes of the keys
// are in docs/format.md.
package overlay
