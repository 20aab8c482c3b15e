package overlay

// Moves go on beside one another unless they meet.
//
// A move claims its agents first, all at once; while it waits for them it holds nothing. Then nobody else's move changes a
// task of its own, and its plan stays what it is. It gathers what it is going to change and claims that, all at once too; if
// another move's claim meets it, it lets go of whatever paths it had, and waits with nothing but its agents. Then it gathers
// anew. So who waits for agents has nothing, who waits for paths has agents alone, and who has paths waits for no claim: there
// is no circle. Who has put a claim into the list waits for the operations that began before it, with whatever else he has; an
// operation waits for a claim only when it is not counted, and so for nobody who waits for it. When two meet while both still
// gather, the one that comes first to the list has it, and goes on.
//
// Claims of paths meet when
//
//	both change one entry, or one depends on an entry that the other changes (names)
//	both change one inode; the times of a directory, which change with every entry, do not count when they are all that either
//	changes of it
//	one makes an inode come or go that the other changes, or that is on the other's way: what the other changes is below it
//
// Why a move's refusal is right: what a plan conflicts with is a task of somebody else that is not undone and has a share in a
// thing of the plan: in an entry, in an object that it changes or that goes, in the entry at which such an object is, or in
// anything below a directory that goes. If that task is being undone, or done again, by another move at this moment, then that
// move has an image of the same thing, and has claimed it: the entry itself; the object, whether its content changes or it
// comes and goes; or, of what is below a directory, that directory as one on its way. So both claims meet. Conflicts are looked
// for when the paths are claimed, and whoever claims them second sees all of the first one's move or, if that was refused or
// taken back, nothing of it. So the results are those of the one order or the other: of A's undo that B's task bars and B's
// undo of that task, either A is refused and B's is undone, or B's is undone and then A's.

// crosses says whether two claims of moves have something in common that only one can have.
func (c *claim) crosses(o *claim) bool {
	return common(c.spots, o.spots) || common(c.spots, o.names) || common(c.names, o.spots) ||
		common(c.nodes, o.nodes) || common(c.nodes, o.times) || common(c.times, o.nodes) ||
		c.goes(o) || o.goes(c)
}

// goes says whether something that comes or goes by a claim is the other's, or on its way.
func (c *claim) goes(o *claim) bool {
	return common(c.deep, o.deep) || common(c.deep, o.nodes) || common(c.deep, o.times) || common(c.deep, o.chain)
}

// common says whether two sets have anything in common.
func common[K comparable](a, b map[K]struct{}) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	for k := range a {
		if _, has := b[k]; has {
			return true
		}
	}
	return false
}

// extend claims paths for a move that has claimed its agents, in the place of those that it had. If it meets another move's it
// has none, and what tells of the end of the other one's claim is returned.
func (g *gate) extend(own, paths *claim) (before <-chan struct{}) {
	g.changing.Lock()
	defer g.changing.Unlock()
	for _, o := range g.list() {
		if o != own.paths && o.moves && o.crosses(paths) {
			if own.paths != nil {
				g.replace(own.paths, nil)
				own.paths = nil
			}
			return o.done
		}
	}
	g.replace(own.paths, paths)
	own.paths = paths
	return nil
}
