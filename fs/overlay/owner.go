package overlay

import "github.com/ttfs/ttfs/tasktree"

// Most conflicts are with what somebody is at just now, and most moves that are not refused are of what nobody else has touched
// since. Both show by the runs of the tasks under way, in memory, without a look at all tasks that ever had a share in a thing.

// mostOwners is the number of tasks under way above which the shares are looked at, which takes as long as to ask so many runs.
const mostOwners = 100

// owners are the runs of all tasks under way; none when these are too many to be asked. What is claimed changes its owner no more while it is.
type owners struct {
	e    *Engine
	runs []*run
}

func (e *Engine) owners() owners {
	e.tasks.mu.Lock()
	defer e.tasks.mu.Unlock()
	o := owners{e: e}
	if len(e.tasks.runs) > mostOwners {
		return o
	}
	for _, r := range e.tasks.runs {
		o.runs = append(o.runs, r)
	}
	return o
}

// of is the task under way that was the last to touch a thing; 0: none is known.
func (o owners) of(t thing) tasktree.TaskID {
	for _, r := range o.runs {
		if own, _ := r.owns(t); own {
			return r.id
		}
	}
	return 0
}

// later is a stranger's task that touched a thing later than the step's own, as laterShare, if that can be told by the owner.
func (o owners) later(others strangers, t thing, mine share) (who tasktree.TaskID, told bool, err error) {
	id := o.of(t)
	k, has := o.e.Task(id)
	if !has || others.spared(&k) {
		return 0, false, nil
	}
	v, found, err := o.e.j.Get(t.key(id))
	if err != nil || !found {
		return 0, false, storeError("look for conflicts", err)
	}
	s, err := decodeShare(v)
	if err != nil {
		return 0, false, fail("look for conflicts", "", Damaged, err)
	}
	if others.later(&k, s, mine) && !others.idles(id, t) {
		return id, true, nil
	}
	return 0, false, nil
}

// alone says that nobody has touched a thing since the step's own task did, which touched it once: mine is its share in it.
func (o owners) alone(others strangers, t thing, mine share) bool {
	return mine.first == mine.last && o.of(t) == others.own.ID
}
