package overlay

import "github.com/ttfs/ttfs/tasktree"

// view is the workspace as it would be after a plan: what is on disk, with the images of the plan's tasks over it.
// It is right until the next change is recorded. One with an epoch is the workspace as it
// was then, and stays right whatever changes: what is on disk is read first, and then it is looked whether it has an image
// by now. Of a view only what is asked for is read.
type view struct {
	e        *Engine
	foot     *foot           // notes what is read; nil: nobody asks
	epoch    epoch           // 0: what is on disk now
	over     tasktree.TaskID // the run of a fork of a past task, whose images lie over the epoch's; 0: none
	entries  map[spot]OID
	byDir    map[OID]map[string]OID
	metas    map[OID]meta
	contents map[OID][]*content // to be put over the live bytes, in this order
	names    map[OID][]spot     // where the entries say that an object is
	dirs     *fdCache           // of what a fork was made of: its directories, which stay right as it does; else nil
}

// newView reads the images of a plan. An empty plan is the live tree.
func (e *Engine) newView(ft *foot, p tasktree.Plan) (*view, error) {
	parts, err := e.weave(&p, true)
	if err != nil {
		return nil, err
	}
	return e.viewOf(ft, 0, parts...)
}

// viewOf is the workspace at an epoch, 0: now, with the images of parts over it.
func (e *Engine) viewOf(ft *foot, at epoch, parts ...part) (*view, error) {
	v := &view{e: e, foot: ft, epoch: at, entries: map[spot]OID{}, byDir: map[OID]map[string]OID{}, metas: map[OID]meta{}, contents: map[OID][]*content{}, names: map[OID][]spot{}}
	for i := range parts {
		im, err := e.readImages(parts[i].Task)
		if err != nil {
			return nil, err
		}
		im.keepOnly(parts[i].only)
		v.lay(im)
	}
	v.index()
	return v, nil
}

// lay puts images over the view; index is to be called when all are.
func (v *view) lay(im *images) {
	for at, id := range im.entries {
		v.entries[at] = id
	}
	for id, m := range im.metas {
		v.metas[id] = m
	}
	for id, c := range im.contents {
		v.contents[id] = append(v.contents[id], c)
	}
}

func (v *view) index() {
	for _, at := range sortedSpots(v.entries) {
		id := v.entries[at]
		if v.byDir[at.dir] == nil {
			v.byDir[at.dir] = map[string]OID{}
		}
		v.byDir[at.dir][at.name] = id
		if id != 0 {
			v.names[id] = append(v.names[id], at)
		}
	}
}

// viewAt is the workspace as it was at the end of a task of an agent.
func (e *Engine) viewAt(ft *foot, a tasktree.Agent, id tasktree.TaskID) (*view, error) {
	p, err := e.planView(a, id)
	if err != nil {
		return nil, err
	}
	return e.newView(ft, p)
}

// planView is the way to what the workspace was at the end of a task of an agent.
func (e *Engine) planView(a tasktree.Agent, id tasktree.TaskID) (tasktree.Plan, error) {
	e.tasks.mu.Lock()
	defer e.tasks.mu.Unlock()
	p, err := e.tasks.tree.PlanView(a, id)
	return p, treeError("view", err)
}

// pathOf is where a directory is in the view; false when it is not in its tree.
func (v *view) pathOf(id OID, depth int) (string, bool) {
	if id == rootOID {
		return "", true
	}
	if depth > maxDepth {
		return "", false
	}
	var at spot
	if names := v.names[id]; len(names) > 0 {
		at = names[0]
	} else {
		o, found, err := v.e.getObject(id)
		if err != nil || !found || o.at.dir == 0 || v.e.inHold(id, o.key) {
			return "", false
		}
		if other, overridden := v.entries[o.at]; overridden && other != id {
			return "", false
		}
		at = o.at
	}
	up, inTree := v.pathOf(at.dir, depth+1)
	if !inTree {
		return "", false
	}
	return joinPath(up, at.name), true
}

// pathsOf is every place of an object in the view that is known: a file may have several names.
func (v *view) pathsOf(id OID) []string {
	if id == rootOID {
		return []string{""}
	}
	spots := v.names[id]
	if o, found, err := v.e.getObject(id); err == nil && found {
		for _, at := range []spot{o.at, o.was} {
			if _, told := v.entries[at]; !told && at.dir != 0 && v.e.isAt(at, o.key) {
				spots = append(spots[:len(spots):len(spots)], at)
			}
		}
	}
	var paths []string
	for _, at := range spots {
		if up, inTree := v.pathOf(at.dir, 0); inTree {
			paths = append(paths, joinPath(up, at.name))
		}
	}
	return paths
}

// isAt says whether an inode has a name.
func (e *Engine) isAt(at spot, k inoKey) bool {
	fd, done, err := e.openDir(at.dir, 0)
	if err != nil {
		return false
	}
	defer done()
	var st Stat
	return statAt(fd, at.name, &st) == nil && keyOf(&st) == k
}
