package overlay

import (
	"maps"

	"github.com/ttfs/ttfs/tasktree"
)

// claimed is images that a move is to make, with those directories of which it changes the times alone.
type claimed struct {
	*images
	times map[OID]bool
}

// claimImages claims, beside the agents that own has, all that making images of the workspace can change, and waits for moves
// that meet it. When it returns, no operation and no move that met any of it is under way.
func (e *Engine) claimImages(own *claim, all ...claimed) error {
	return e.claimRead(own, func() ([]claimed, error) { return all, nil })
}

// claimRead is claimImages for images that operations under way may still add to; they are read again when none is.
func (e *Engine) claimRead(own *claim, read func() ([]claimed, error)) error {
	for {
		k, err := e.gatherClaim(read)
		if err != nil {
			return err
		}
		for {
			if before := e.gate.extend(own, k.claim()); before != nil {
				<-before
				break // what was gathered may be otherwise now
			}
			e.gate.drain()
			// Who is at the entries can change no more, nor can the directories on the way move. Before, both could.
			now, err := e.gatherClaim(read)
			if err != nil {
				return err
			}
			if now.within(k) {
				return nil
			}
			now.add(k)
			k = now
		}
	}
}

// claimPlan is claimImages for the tasks of a plan.
func (e *Engine) claimPlan(own *claim, p tasktree.Plan) error {
	return e.claimRead(own, func() ([]claimed, error) {
		all := make([]claimed, 0, len(p.Steps))
		for _, s := range p.Steps {
			im, err := e.readImages(s.Task)
			if err != nil {
				return nil, err
			}
			times, err := e.timesOf(s.Task, im)
			if err != nil {
				return nil, err
			}
			all = append(all, claimed{im, times})
		}
		return all, nil
	})
}

// timesOf are the directories of which a task has an image only because their entries changed: it has no share in them, and of
// what they are, nothing is the task's but the times. A task without any shares is older than they are.
func (e *Engine) timesOf(id tasktree.TaskID, im *images) (map[OID]bool, error) {
	var out map[OID]bool
	for o, m := range im.metas {
		if !isDirMeta(&m) {
			continue
		}
		if _, has, err := e.j.Get(thing{obj: o}.key(id)); err != nil {
			return nil, storeError("look for shares", err)
		} else if !has {
			if out == nil {
				out = map[OID]bool{}
			}
			out[o] = true
		}
	}
	if out == nil {
		return nil, nil
	}
	for _, t := range im.things() {
		if _, has, err := e.j.Get(t.key(id)); has || err != nil {
			return out, storeError("look for shares", err)
		}
	}
	return nil, nil
}

// claiming gathers a claim.
type claiming struct {
	e      *Engine
	chains map[OID]struct{} // those whose directories above are gathered
	seen   map[OID]object   // that were read
	spots  map[claimedSpot]struct{}
	nodes  map[inoKey]struct{}
	times  map[inoKey]struct{}
	deep   map[inoKey]struct{}
	chain  map[inoKey]struct{}
	names  map[claimedSpot]struct{}
}

// gatherClaim is what making images would change now.
func (e *Engine) gatherClaim(read func() ([]claimed, error)) (*claiming, error) {
	all, err := read()
	if err != nil {
		return nil, err
	}
	k := &claiming{e: e, chains: map[OID]struct{}{}, seen: map[OID]object{}, spots: map[claimedSpot]struct{}{}, nodes: map[inoKey]struct{}{},
		times: map[inoKey]struct{}{}, deep: map[inoKey]struct{}{}, chain: map[inoKey]struct{}{}, names: map[claimedSpot]struct{}{}}
	for _, im := range all {
		if err := k.images(im); err != nil {
			return nil, err
		}
	}
	return k, k.occupants(all)
}

// claim is a claim of what was gathered.
func (k *claiming) claim() *claim {
	c := newClaim()
	c.moves = true
	c.spots, c.nodes, c.times, c.deep, c.chain, c.names = k.spots, k.nodes, k.times, k.deep, k.chain, k.names
	return c
}

// within says whether another has gathered all of it.
func (k *claiming) within(o *claiming) bool {
	return subset(k.spots, o.spots) && subset(k.nodes, o.nodes) && subset(k.times, o.times) && subset(k.deep, o.deep) &&
		subset(k.chain, o.chain) && subset(k.names, o.names)
}

func subset[K comparable, V any](a, b map[K]V) bool {
	for k := range a {
		if _, has := b[k]; !has {
			return false
		}
	}
	return true
}

// add adds what another has gathered.
func (k *claiming) add(o *claiming) {
	maps.Copy(k.spots, o.spots)
	maps.Copy(k.nodes, o.nodes)
	maps.Copy(k.times, o.times)
	maps.Copy(k.deep, o.deep)
	maps.Copy(k.chain, o.chain)
	maps.Copy(k.names, o.names)
}

func (k *claiming) images(im claimed) error {
	for at, id := range im.entries {
		dir, found, err := k.read(at.dir)
		if err != nil {
			return err
		}
		if found {
			k.spots[claimedSpot{dir.key, at.name}] = struct{}{}
		}
		if id != 0 {
			if err := k.object(id, k.deep); err != nil {
				return err
			}
		}
	}
	for id := range im.metas {
		into := k.nodes
		if im.times[id] {
			into = k.times
		}
		if err := k.object(id, into); err != nil {
			return err
		}
		if err := k.name(id); err != nil {
			return err
		}
	}
	for id := range im.contents {
		if err := k.object(id, k.nodes); err != nil {
			return err
		}
		if err := k.name(id); err != nil {
			return err
		}
	}
	return k.ways(im.images)
}

// name adds the entry at which an object is.
func (k *claiming) name(id OID) error {
	o, found, err := k.read(id)
	if err != nil || !found || o.at.dir == 0 {
		return err
	}
	dir, found, err := k.read(o.at.dir)
	if found {
		k.names[claimedSpot{dir.key, o.at.name}] = struct{}{}
	}
	return err
}

// read is getObject, once for each object.
func (k *claiming) read(id OID) (object, bool, error) {
	if o, has := k.seen[id]; has {
		return o, true, nil
	}
	o, found, err := k.e.getObject(id)
	if found && k.seen != nil {
		k.seen[id] = o
	}
	return o, found, err
}

func (k *claiming) object(id OID, into map[inoKey]struct{}) error {
	o, found, err := k.read(id)
	if found {
		into[o.key] = struct{}{}
	}
	return err
}

// ways adds the directories on the way to everything.
func (k *claiming) ways(im *images) error {
	for at, id := range im.entries {
		if err := k.way(at.dir); err != nil {
			return err
		}
		if err := k.wayTo(id); err != nil {
			return err
		}
	}
	for id := range im.metas {
		if err := k.wayTo(id); err != nil {
			return err
		}
	}
	for id := range im.contents {
		if err := k.wayTo(id); err != nil {
			return err
		}
	}
	return nil
}

// wayTo adds the directories on the way to an object.
func (k *claiming) wayTo(id OID) error {
	if id == 0 || id == rootOID {
		return nil
	}
	o, found, err := k.read(id)
	if err != nil || !found {
		return err
	}
	if err := k.way(o.at.dir); err != nil {
		return err
	}
	return k.way(o.was.dir)
}

// way adds a directory and those above it.
func (k *claiming) way(dir OID) error {
	for depth := 0; dir != 0 && dir != rootOID && depth < maxDepth; depth++ {
		if _, seen := k.chains[dir]; seen {
			return nil
		}
		k.chains[dir] = struct{}{}
		o, found, err := k.read(dir)
		if err != nil || !found {
			return err
		}
		k.chain[o.key] = struct{}{}
		if o.was.dir != 0 {
			if err := k.way(o.was.dir); err != nil {
				return err
			}
		}
		dir = o.at.dir
	}
	return nil
}

// occupants adds what is at the entries now.
func (k *claiming) occupants(all []claimed) error {
	for _, im := range all {
		for at := range im.entries {
			fd, done, err := k.e.openDir(at.dir, 0)
			if err != nil {
				continue // the move says so
			}
			var st Stat
			err = statAt(fd, at.name, &st)
			done()
			if err == nil {
				k.deep[keyOf(&st)] = struct{}{}
			} else if !absent(err) {
				return fail("move", at.name, IO, err)
			}
		}
	}
	return nil
}
