package cas

import "sync"

// pins keeps Collect away from content that is being put.
//
// A Put that finds its content in the store writes nothing, and a PutReader
// writes its chunks long before the list that names them: in both cases a
// Collect at work would remove what is about to be needed. So:
//
//  1. a Put pins each ref before it looks for it, and lets go at its end;
//  2. while a Collect runs, refs stay pinned until it ends (recent), those
//     that were held at its beginning included;
//  3. Collect removes in groups: doom marks the unpinned ones of a group under
//     mu, the removal is committed without mu, doomed ends;
//  4. a Put that meets a doomed ref waits for the end of its group, finds the
//     content gone and writes it again.
//
// Rejected: one lock around look-and-write and around remove. It would be held
// while pebble stalls a write, and a PutReader would hold it while its reader
// blocks.
type pins struct {
	mu     sync.Mutex
	held   map[Ref]int      // +checklocks:mu (Puts under way, counted)
	recent map[Ref]struct{} // +checklocks:mu (nil unless a Collect runs)
	doomed map[Ref]struct{} // +checklocks:mu (the group being removed)
	gone   chan struct{}    // +checklocks:mu (closed when the group is removed)
}

func (p *pins) init() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = map[Ref]int{}
}

// pinSet is what one Put holds.
type pinSet struct {
	pins *pins
	refs map[Ref]struct{}
}

func (p *pins) newSet() *pinSet { return &pinSet{pins: p, refs: map[Ref]struct{}{}} }

// add pins ref, after waiting for its removal where that is under way.
func (ps *pinSet) add(ref Ref) {
	for {
		gone := ps.tryAdd(ref)
		if gone == nil {
			return
		}
		<-gone
	}
}

func (ps *pinSet) tryAdd(ref Ref) (wait <-chan struct{}) {
	p := ps.pins
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.doomed[ref]; ok {
		return p.gone
	}
	if p.recent != nil {
		p.recent[ref] = struct{}{}
	}
	if _, ok := ps.refs[ref]; !ok {
		ps.refs[ref] = struct{}{}
		p.held[ref]++
	}
	return nil
}

// release lets go of all of the set.
func (ps *pinSet) release() {
	p := ps.pins
	p.mu.Lock()
	defer p.mu.Unlock()
	for ref := range ps.refs {
		if p.held[ref]--; p.held[ref] == 0 {
			delete(p.held, ref)
		}
	}
	ps.refs = nil
}

// beginCollect: from now on what is pinned stays so until endCollect.
func (p *pins) beginCollect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recent = make(map[Ref]struct{}, len(p.held))
	for ref := range p.held {
		p.recent[ref] = struct{}{}
	}
}

func (p *pins) endCollect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recent = nil
}

// doom returns those of group that may be removed; endDoom must follow once
// they are.
func (p *pins) doom(group []victim) (free []victim) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doomed = make(map[Ref]struct{}, len(group))
	p.gone = make(chan struct{})
	for _, v := range group {
		if _, ok := p.recent[v.ref]; ok {
			continue
		}
		p.doomed[v.ref] = struct{}{}
		free = append(free, v)
	}
	return free
}

func (p *pins) endDoom() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doomed = nil
	close(p.gone)
}
