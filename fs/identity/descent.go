package identity

import "time"

// observe takes in what stat says of a process, and of its ancestors where they are new or due.
func (r *Resolver) observe(pid int, st stat, now time.Time) *process {
	r.mu.Lock()
	p := r.noteLocked(pid, st, now)
	linked, registered := p.linked, p.registeredLocked() != nil
	r.mu.Unlock()
	switch {
	case !linked:
		r.link(p, st, now)
	case !registered: // below a registered process, what its ancestors run does not matter
		r.refresh(p, now)
	}
	return p
}

// noteLocked finds or makes a process and takes in what stat says of it.
//
// +checklocks:r.mu
func (r *Resolver) noteLocked(pid int, st stat, now time.Time) *process {
	key := Process{PID: pid, Start: st.start}
	p, ok := r.procs[key]
	if !ok {
		p = &process{key: key, first: now, image: st.image}
		r.procs[key] = p
		if l := r.latest[pid]; l == nil || l.key.Start <= key.Start {
			r.latest[pid] = p
		}
	}
	p.checked = now
	if st.dead {
		return p // a zombie has no image, that is no exec
	}
	p.gone = time.Time{}
	exec := st.image.moved(p.image)
	renamed := st.image.comm != p.image.comm
	untold := st.image.at == [4]uint64{}
	if exec || renamed && (untold || p.program == "") {
		p.images++
		p.loaded = false
	}
	p.image = st.image
	return p
}

// refresh looks again at those ancestors of p at whom it is time to look: they may have called exec.
func (r *Resolver) refresh(p *process, now time.Time) {
	for {
		r.mu.RLock()
		p = p.parent
		for p != nil && (!p.gone.IsZero() || now.Before(due(p.first, p.checked))) {
			p = p.parent
		}
		r.mu.RUnlock()
		if p == nil {
			return
		}
		st, err := r.proc.stat(p.key.PID)
		r.mu.Lock()
		switch {
		case err == nil && st.start == p.key.Start:
			r.noteLocked(p.key.PID, st, now)
		case err == nil || vanished(err):
			p.gone = now
		default:
			p.checked = now
		}
		r.mu.Unlock()
	}
}

// link decides the parent of a process that is new.
func (r *Resolver) link(p *process, st stat, now time.Time) {
	parent := r.ancestor(st.ppid, p, now)
	if parent == nil && st.ppid != 0 {
		// It died between the two reads and was never seen: the orphan has another one by now.
		if again, err := r.proc.stat(p.key.PID); err == nil && again.start == p.key.Start && again.ppid != st.ppid {
			parent = r.ancestor(again.ppid, p, now)
		}
	}
	var leader *process
	if st.session != p.key.PID && st.session != st.ppid {
		r.mu.RLock()
		inChain := false
		for q := parent; q != nil && !inChain; q = q.parent {
			inChain = q.key.PID == st.session
		}
		r.mu.RUnlock()
		if !inChain {
			leader = r.ancestor(st.session, p, now)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.linked {
		return
	}
	// An orphan: whoever took it up stands above the leader of its session, or nobody did.
	if leader != nil && (parent == nil || leader.belowLocked(parent)) {
		parent = leader
	}
	if parent.belowLocked(p) {
		parent = nil
	}
	p.parent, p.linked = parent, true
}

// ancestor is the process that had that pid when the child started: the one of now if it is old enough, else the one
// that was seen under the pid before.
func (r *Resolver) ancestor(pid int, child *process, now time.Time) *process {
	if pid <= 0 || pid == child.key.PID {
		return nil
	}
	if st, err := r.proc.stat(pid); err == nil && st.start <= child.key.Start {
		if q := r.observe(pid, st, now); q != child {
			return q
		}
		return nil
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if q := r.latest[pid]; q != nil && q.key.Start <= child.key.Start {
		return q
	}
	return nil
}
