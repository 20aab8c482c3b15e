package overlay

import (
	"encoding/binary"
	"slices"

	"github.com/ttfs/ttfs/journal"
	"github.com/ttfs/ttfs/tasktree"
)

// deadShares are the keys of a task's shares, but for those that still tell another agent's task that is kept of a later
// change: without them its undo would take that change along unseen.
func (e *Engine) deadShares(id tasktree.TaskID, im *images) ([][]byte, error) {
	k, _ := e.Task(id)
	undone := e.StatusOf(id) == tasktree.Undone
	if !undone && e.keptBeside(k) {
		return nil, nil
	}
	var out [][]byte
	for _, t := range im.things() {
		out = append(out, t.key(id))
	}
	return out, nil
}

// keptBeside says whether a task of another agent is kept that began before this one ended.
func (e *Engine) keptBeside(k tasktree.Task) bool {
	return slices.ContainsFunc(e.Tasks(), func(o tasktree.Task) bool {
		return o.Agent != k.Agent && !o.Pruned && o.Started.Before(k.Active())
	})
}

// prunedThings are the things of which pruned tasks still have a share. The journal is asked only where there can be some.
func (e *Engine) prunedThings() (map[tasktree.TaskID][]thing, error) {
	some := false
	e.pruned.Range(func(_, _ any) bool { some = true; return false })
	if !some {
		return nil, nil
	}
	out := map[tasktree.TaskID][]thing{}
	err := e.j.Scan([]byte{kShare}, func(k, _ []byte) error {
		t, id, ok := parseShareKey(k)
		if ok && e.isPruned(id) {
			out[id] = append(out[id], t)
		}
		return nil
	})
	return out, storeError("look for conflicts", err)
}

func parseShareKey(k []byte) (t thing, id tasktree.TaskID, ok bool) {
	if len(k) < 18 {
		return t, 0, false
	}
	id = tasktree.TaskID(binary.BigEndian.Uint64(k[len(k)-8:]))
	num := OID(binary.BigEndian.Uint64(k[2:]))
	switch {
	case k[1] == 'o' && len(k) == 18:
		t.obj = num
	case k[1] == 'e' && len(k) >= 19 && k[len(k)-9] == '/':
		t.at = spot{num, string(k[10 : len(k)-9])}
	default:
		return t, 0, false
	}
	return t, id, true
}

// sweepShares drops the shares of pruned tasks that no kept task's conflicts need any more.
func (e *Engine) sweepShares() error {
	all, err := e.prunedThings()
	if err != nil {
		return err
	}
	var b journal.Batch
	for id, things := range all {
		k, _ := e.Task(id)
		if e.StatusOf(id) != tasktree.Undone && e.keptBeside(k) {
			continue
		}
		for _, t := range things {
			b.Delete(t.key(id))
		}
	}
	return storeError("sweep", e.j.CommitFreeing(&b))
}
