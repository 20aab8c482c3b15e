package overlay

import (
	"github.com/ttfs/ttfs/tasktree"
)

// countLimit is the number of touches of an active task up to which its changed paths are counted exactly.
const countLimit = 1000

// countWay is how many tasks may have come since for a task's paths to be counted exactly: to know what was there after it,
// the images of all of them are read.
const countWay = 16

// FileCount is the number of paths that a task changed. Of a task that was left it is counted once and kept; of an active
// one that touched much, and of one far back that was never counted, it is the number of touches.
func (e *Engine) FileCount(k tasktree.Task) int {
	if k.Sealed && k.Files > 0 {
		return k.Files
	}
	if !k.Sealed {
		if n := e.touches(k.ID); n > countLimit {
			return n
		}
	}
	e.tasks.mu.Lock()
	near := e.tasks.tree.Near(k.ID, countWay)
	e.tasks.mu.Unlock()
	if !near {
		n := e.touchedBy(k)
		if k.Sealed && n > 0 {
			e.keepCount(k.ID, n)
		}
		return n
	}
	all, err := e.Files(k.ID)
	if err != nil {
		return k.Files // fsck says what is wrong with it
	}
	if k.Sealed && len(all) > 0 {
		e.keepCount(k.ID, len(all))
	}
	return len(all)
}

// touchedBy is how many things a task's own images are of, without the directories in which names came or went.
func (e *Engine) touchedBy(k tasktree.Task) int {
	im, err := e.readImages(k.ID)
	if err != nil {
		return k.Files
	}
	objects := map[OID]bool{}
	for id := range im.contents {
		objects[id] = true
	}
	for id := range im.metas {
		objects[id] = true
	}
	for at, id := range im.entries {
		delete(objects, id)
		delete(objects, at.dir) // whose times moved
	}
	return len(im.entries) + len(objects)
}

// touches is how many things the run of a task has touched.
func (e *Engine) touches(id tasktree.TaskID) int {
	e.tasks.mu.Lock()
	r := e.tasks.runs[id]
	e.tasks.mu.Unlock()
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.shared)
}

// keepCount writes the count into the task. Losing it costs counting again.
func (e *Engine) keepCount(id tasktree.TaskID, n int) {
	_, err := e.updateTask(id, func(k *tasktree.Task) { k.Files = n })
	if err != nil || e.opt.ReadOnly {
		return
	}
	if err := e.recordTask(id); err != nil {
		e.log.Debug("the count of a task's files is not kept", "task", id, "err", err)
	}
}
