package overlay

import (
	"hash/maphash"
	"sync"

	"github.com/ttfs/ttfs/tasktree"
)

// ownerTable has, of what tasks under way have touched, the task that was the last to. What is not in it may have been touched
// by anybody. It is asked and changed for each change of everybody's, so it is many small tables; their locks are leaves.
type ownerTable struct {
	shards [64]ownerShard
}

type ownerShard struct {
	mu sync.Mutex
	of map[thing]tasktree.TaskID // +checklocks:mu
}

var ownerSeed = maphash.MakeSeed()

func (o *ownerTable) shard(t thing) *ownerShard {
	return &o.shards[maphash.Comparable(ownerSeed, t)%uint64(len(o.shards))]
}

// of is the task that was the last to touch a thing; 0: none is known. What is claimed changes its owner no more while it is.
func (o *ownerTable) of(t thing) tasktree.TaskID {
	s := o.shard(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[t]
}

// set makes a task the owner; 0: nobody is.
func (o *ownerTable) set(t thing, id tasktree.TaskID) {
	s := o.shard(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case id == 0:
		delete(s.of, t)
	case s.of == nil:
		s.of = map[thing]tasktree.TaskID{t: id}
	default:
		s.of[t] = id
	}
}

// leave makes a task the owner no more; another one stays it.
func (o *ownerTable) leave(t thing, id tasktree.TaskID) {
	s := o.shard(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[t] == id {
		delete(s.of, t)
	}
}

// forget takes out all that tasks own which are not under way any more.
func (o *ownerTable) forget(ended []*run) {
	for _, r := range ended {
		r.mu.Lock()
		all := r.shared
		r.shared = nil
		r.mu.Unlock()
		for t := range all {
			o.leave(t, r.id)
		}
	}
}

// owns says whether a run was the last to touch a thing, and whether it may have a share in it already.
func (e *Engine) owns(r *run, t thing) (own, shared bool) {
	if r.id != 0 && e.owners.of(t) == r.id {
		return true, true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, had := r.shared[t]
	return false, had || !r.whole
}

// own makes a run the owner of things, and nobody else; nil: they have no owner.
func (e *Engine) own(r *run, things []thing) {
	var id tasktree.TaskID
	if r != nil {
		id = r.id
		r.shares(things...)
	}
	for _, t := range things {
		e.owners.set(t, id)
	}
}

// shares says that a run has a share in things, be it the last to have touched them or not.
func (r *run) shares(things ...thing) {
	if len(things) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shared == nil {
		r.shared = map[thing]struct{}{}
	}
	for _, t := range things {
		r.shared[t] = struct{}{}
	}
}
