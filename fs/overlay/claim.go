package overlay

import "github.com/ttfs/ttfs/tasktree"

// claimImages adds to a move's claim all that making images of the workspace can change. When it returns, no operation
// that met any of it is under way. Preconditions: past is held for writing.
func (e *Engine) claimImages(c *claim, all []*images) error {
	k := &claiming{e: e, chains: map[OID][]inoKey{}, spots: map[claimedSpot]struct{}{}, nodes: map[inoKey]struct{}{}, deep: map[inoKey]struct{}{}, chain: map[inoKey]struct{}{}}
	for _, im := range all {
		if err := k.images(im); err != nil {
			return err
		}
	}
	e.widen(c, k)
	for {
		// Who is at the entries can change no more. The directories on the way can have been moved before they were claimed.
		if err := k.occupants(all); err != nil {
			return err
		}
		before := len(k.chain)
		k.chains = map[OID][]inoKey{}
		if err := k.ways(all); err != nil {
			return err
		}
		e.widen(c, k)
		if len(k.chain) == before {
			return nil
		}
	}
}

// claimPlan is claimImages for the tasks of a plan.
func (e *Engine) claimPlan(c *claim, p tasktree.Plan) error {
	all := make([]*images, 0, len(p.Steps))
	for _, s := range p.Steps {
		im, err := e.readImages(s.Task)
		if err != nil {
			return err
		}
		all = append(all, im)
	}
	return e.claimImages(c, all)
}

// widen puts what was found into the claim, and waits for the operations under way.
func (e *Engine) widen(c *claim, k *claiming) {
	e.gate.Lock()
	defer e.gate.Unlock()
	c.spots, c.nodes, c.deep, c.chain = k.spots, k.nodes, k.deep, k.chain
	// What the claim has from now on is its own: the maps are read under the gate.
	k.spots, k.nodes, k.deep, k.chain = clone(k.spots), clone(k.nodes), clone(k.deep), clone(k.chain)
}

func clone[K comparable](m map[K]struct{}) map[K]struct{} {
	out := make(map[K]struct{}, len(m))
	for k := range m {
		out[k] = struct{}{}
	}
	return out
}

// claiming gathers a claim.
type claiming struct {
	e      *Engine
	chains map[OID][]inoKey // the directories above one, itself included
	spots  map[claimedSpot]struct{}
	nodes  map[inoKey]struct{}
	deep   map[inoKey]struct{}
	chain  map[inoKey]struct{}
}

func (k *claiming) images(im *images) error {
	for at, id := range im.entries {
		dir, found, err := k.e.getObject(at.dir)
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
		if err := k.object(id, k.nodes); err != nil {
			return err
		}
	}
	for id := range im.contents {
		if err := k.object(id, k.nodes); err != nil {
			return err
		}
	}
	return k.ways([]*images{im})
}

func (k *claiming) object(id OID, into map[inoKey]struct{}) error {
	o, found, err := k.e.getObject(id)
	if found {
		into[o.key] = struct{}{}
	}
	return err
}

// ways adds the directories on the way to everything.
func (k *claiming) ways(all []*images) error {
	for _, im := range all {
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
	}
	return nil
}

// wayTo adds the directories on the way to an object.
func (k *claiming) wayTo(id OID) error {
	if id == 0 || id == rootOID {
		return nil
	}
	o, found, err := k.e.getObject(id)
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
		k.chains[dir] = nil
		o, found, err := k.e.getObject(dir)
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
func (k *claiming) occupants(all []*images) error {
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
