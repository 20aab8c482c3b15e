package identity

import "time"

// seen is the verdict on a thread, and how long it may be used without a look at /proc.
type seen struct {
	p *process
	// start is the thread's own start time.
	start uint64
	due   time.Time
	gen   uint64
	who   Who
}

// freshFor is how long a verdict is used without a look.
const freshFor = time.Second

// due is when to look again at what was first seen and last looked at then. A young process is looked at often, because
// a child between fork and exec still looks like its parent and opens files already (redirections, the script itself).
func due(first, last time.Time) time.Time {
	return last.Add(min(freshFor, last.Sub(first)/4))
}

// Resolve says on whose behalf a thread acts. It costs a map look-up when the thread was looked at within the last
// second, else a read of stat; at first sight also its ancestors' and, unless one of them is registered, environ and
// cmdline, for which it waits EnvTimeout at most. It never fails: who cannot be looked at is the user, Known false.
func (r *Resolver) Resolve(tid uint32) Who {
	if tid == 0 {
		return Who{Agent: User, Root: true}
	}
	now := r.now()
	r.mu.RLock()
	s, ok := r.tids[tid]
	if ok {
		s.who.RegisteredIn = s.p.enteredLocked(s.who.Agent)
	}
	fresh := ok && s.gen == r.gen && now.Before(s.due)
	r.mu.RUnlock()
	if fresh {
		return s.who
	}
	p, start, err := r.find(tid, s, now)
	if err != nil {
		if ok && !vanished(err) {
			return s.who // no reason to believe that anything changed
		}
		return Who{Agent: User, Root: true}
	}
	r.load(p)
	return r.verdict(tid, start, p, now)
}

// find looks a thread's process up in /proc; s is what was known of the thread.
func (r *Resolver) find(tid uint32, s seen, now time.Time) (*process, uint64, error) {
	st, err := r.proc.stat(int(tid))
	if err != nil {
		return nil, 0, err
	}
	start := st.start
	var pid int
	if s.p != nil && s.start == start {
		pid = s.p.key.PID
	} else if pid, err = r.proc.tgid(int(tid)); err != nil {
		return nil, 0, err
	}
	if pid != int(tid) {
		if st, err = r.proc.stat(pid); err != nil {
			return nil, 0, err
		}
	}
	return r.observe(pid, st, now), start, nil
}

// verdict decides and remembers.
func (r *Resolver) verdict(tid uint32, start uint64, p *process, now time.Time) Who {
	r.mu.Lock()
	defer r.mu.Unlock()
	who := r.decideLocked(p)
	until := due(p.first, now)
	registered := p.registeredLocked() != nil
	r.livesLocked(who.Agent, !registered && p.envLocked() != "")
	if registered {
		until = now.Add(freshFor) // an exec cannot change it
	}
	r.boundThreadsLocked(now)
	r.tids[tid] = seen{p: p, start: start, due: until, gen: r.gen, who: who}
	if len(r.procs) > r.sweepAt && r.background.CompareAndSwap(false, true) {
		go func() {
			defer r.background.Store(false)
			r.Sweep()
		}()
	}
	who.RegisteredIn = p.enteredLocked(who.Agent)
	return who
}

// maxThreads bounds the threads whose verdicts are remembered: a process may start and end threads without a sweep's coming.
const maxThreads = 16384

// boundThreadsLocked makes room for a verdict: those go whose time is over and, when that is too few, any. Each that goes costs a
// look at stat when its thread comes again, and nothing else.
//
// +checklocks:r.mu
func (r *Resolver) boundThreadsLocked(now time.Time) {
	if len(r.tids) < maxThreads {
		return
	}
	for tid, s := range r.tids {
		if !now.Before(s.due) {
			delete(r.tids, tid)
		}
	}
	for tid := range r.tids {
		if len(r.tids) <= maxThreads/2 {
			return
		}
		delete(r.tids, tid)
	}
}

// decideLocked applies the rules of the package comment to what is known.
//
// +checklocksread:r.mu
func (r *Resolver) decideLocked(p *process) Who {
	who := Who{Agent: User, Root: true, Proc: p.key, Known: true}
	if q := p.registeredLocked(); q != nil {
		who.Agent, who.Root = q.agentLocked(), q == p
		return who
	}
	if a := p.envLocked(); a != "" {
		who.Agent = a
		return who
	}
	if q := p.programLocked(); q != nil {
		who.Agent = q.programAgent()
		who.Root = q == p
	}
	return who
}

// load has environ and cmdline read of all in the chain of whom they are not known yet, unless a registration makes
// them needless. It waits for them once, EnvTimeout in all; what comes later counts from then on.
func (r *Resolver) load(p *process) {
	var waits []*process
	var done []chan struct{}
	r.mu.Lock()
	if p.registeredLocked() == nil {
		for q := p; q != nil; q = q.parent {
			r.startReadLocked(q)
			if q.reading != nil && !q.waited {
				waits, done = append(waits, q), append(done, q.reading)
			}
		}
	}
	r.mu.Unlock()
	if len(done) == 0 {
		return
	}
	timer := time.NewTimer(r.envTimeout)
	defer timer.Stop()
	for _, ch := range done {
		select {
		case <-ch:
			continue
		case <-timer.C:
		}
		r.mu.Lock()
		for _, q := range waits {
			q.waited = q.reading != nil
		}
		r.mu.Unlock()
		r.log.Warn("a process does not let its environment be read in time", "pid", p.key.PID)
		return
	}
}

// startReadLocked starts the one read of a program image.
//
// +checklocks:r.mu
func (r *Resolver) startReadLocked(p *process) {
	if p.loaded || p.reading != nil || !p.gone.IsZero() {
		return
	}
	select {
	case r.reads <- struct{}{}:
	default:
		return // too many are stuck already: the next look tries again
	}
	done := make(chan struct{})
	p.reading, p.waited = done, false
	comm, images := p.image.comm, p.images
	go func() {
		defer func() { <-r.reads }()
		env, envErr := r.proc.envAgent(p.key.PID)
		args, _ := r.proc.args(p.key.PID)
		name := program(r.known, comm, args)
		r.mu.Lock()
		defer r.mu.Unlock()
		defer close(done)
		p.reading = nil
		if p.images != images {
			return // an exec came between: what was read may be of either image
		}
		p.loaded = true
		if p.env != env || p.envUnread != (envErr != nil) || p.program != name {
			p.env, p.envUnread, p.program = env, envErr != nil, name
			r.gen++
		}
	}()
}
