package overlay

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/ttfs/ttfs/journal"
	"github.com/ttfs/ttfs/tasktree"
)

// Repair makes an engine of a damaged store when it is opened. What is sound is kept as it is; what cannot be had is dropped,
// by the file, and the task that it belonged to is marked incomplete; the live tree is not touched, but for a move that was
// under way, which is ended as ever. Journal and blobs have been repaired by themselves before (journal.Repair, cas.Repair).
// A death in between leaves a store to be repaired again.
type Repair struct {
	// Say hears of each thing that is done, as a sentence.
	Say func(string)
	// Lost are the parts of the journal's keys that are gone.
	Lost []journal.Lost
}

// repairing is a repair under way.
type repairing struct {
	e       *Engine
	b       journal.Batch
	tasks   map[tasktree.TaskID]*tasktree.Task
	changed map[tasktree.TaskID]bool
	// inodes are those of the objects as the keys of inodes tell them.
	inodes map[OID]inoKey
	top    OID    // the highest object that is named anywhere
	copies copyID // the highest copy
	shares uint64 // the highest number of the sequence
}

func (r *repairing) say(format string, args ...any) { r.e.opt.Repair.Say(fmt.Sprintf(format, args...)) }

// repair mends the records. Preconditions: nothing of them is loaded yet.
func (e *Engine) repair() error {
	r := &repairing{e: e, tasks: map[tasktree.TaskID]*tasktree.Task{}, changed: map[tasktree.TaskID]bool{}, inodes: map[OID]inoKey{}}
	for _, step := range []func() error{r.readTasks, r.lostImages, r.mendTree, r.mendActive, r.readInodes, r.mendObjects, r.dropMalformed, r.findAstray, r.mendImages, r.mendForks, r.mendCounters} {
		if err := step(); err != nil {
			return storeError("repair", err)
		}
	}
	for id := range r.changed {
		k := r.tasks[id]
		if !k.Pruned {
			k.Incomplete = true
		}
		r.b.Put(key(kTask, uint64(id)), encodeTask(k))
	}
	return storeError("repair", e.j.CommitFreeing(&r.b))
}

// incomplete marks a task; one that is not there has nothing to be marked.
func (r *repairing) incomplete(id tasktree.TaskID) {
	if r.tasks[id] != nil {
		r.changed[id] = true
	}
}

func (r *repairing) readTasks() error {
	return r.e.j.Scan([]byte{kTask}, func(k, v []byte) error {
		id := tasktree.TaskID(keyNum(k, 0))
		task, err := decodeTask(id, v)
		if err != nil || len(k) != 9 || id == 0 || task.Agent == "" {
			r.say("the record of task %d cannot be read: it is dropped", id)
			r.b.Delete(bytes.Clone(k))
			return nil
		}
		r.tasks[id] = &task
		return nil
	})
}

// lostImages marks the tasks of which images may be among what the journal has lost.
func (r *repairing) lostImages() error {
	for _, l := range r.e.opt.Repair.Lost {
		r.say("the journal has lost what was between the keys %q and %q: %v", clipKey(l.From), clipKey(l.To), l.Why)
		for id := range r.tasks {
			for _, letter := range []byte{kEntry, kMeta, kContent, kPiece} {
				from := key(letter, uint64(id))
				if bytes.Compare(l.From, append(slices.Clone(from), bytes.Repeat([]byte{0xff}, 16)...)) < 0 && (len(l.To) == 0 || bytes.Compare(from, l.To) < 0) {
					r.say("task %d is incomplete: images of it may be among that", id)
					r.incomplete(id)
					break
				}
			}
		}
	}
	return nil
}

func clipKey(k []byte) string { return string(k[:min(len(k), 32)]) }

// mendTree puts tasks that are gone back, without images, where others need them: the way through them is closed.
func (r *repairing) mendTree() error {
	ids := make([]tasktree.TaskID, 0, len(r.tasks))
	for id := range r.tasks {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		k := r.tasks[id]
		p := r.tasks[k.Parent]
		if k.Parent == 0 || p != nil && p.Agent == k.Agent && k.Parent < id {
			continue
		}
		if p != nil || k.Parent >= id {
			r.say("task %d names a parent that is not its agent's: it begins a timeline of its own", id)
			k.Parent = 0
			r.changed[id] = true
			continue
		}
		r.say("task %d, after which task %d began, is gone: one cannot go back beyond it", k.Parent, id)
		r.tasks[k.Parent] = &tasktree.Task{ID: k.Parent, Agent: k.Agent, Title: "lost", Sealed: true, Pruned: true, Incomplete: true, Started: k.Started, Ended: k.Started}
		r.changed[k.Parent] = true
	}
	return nil
}

// mendActive makes each agent's active task one that is there, and where redo goes.
func (r *repairing) mendActive() error {
	active := map[tasktree.Agent]tasktree.TaskID{}
	err := r.e.j.Scan([]byte{kActive}, func(k, v []byte) error {
		d := dec{b: v}
		id := tasktree.TaskID(d.u())
		a := tasktree.Agent(k[1:])
		if t := r.tasks[id]; d.err != nil || id != 0 && (t == nil || t.Agent != a) {
			return nil
		}
		active[a] = id
		return nil
	})
	if err != nil {
		return err
	}
	newest := map[tasktree.Agent]tasktree.TaskID{}
	for id, k := range r.tasks {
		newest[k.Agent] = max(newest[k.Agent], id)
	}
	for a, id := range newest {
		if _, has := active[a]; has {
			continue
		}
		r.say("which task of %s is active is not known any more: the newest, %d, is taken, and all of %s's tasks are incomplete", a, id, a)
		r.b.Put(append([]byte{kActive}, a...), encodeNumber(uint64(id)))
		for other, k := range r.tasks {
			if k.Agent == a {
				k.Sealed = true
				r.incomplete(other)
			}
		}
	}
	err = r.e.j.Scan([]byte{kActive}, func(k, _ []byte) error {
		if _, has := active[tasktree.Agent(k[1:])]; !has && newest[tasktree.Agent(k[1:])] == 0 {
			r.say("%s has an active task and no tasks: that is dropped", k[1:])
			r.b.Delete(bytes.Clone(k))
		}
		return nil
	})
	if err != nil {
		return err
	}
	return r.e.j.Scan([]byte{kLast}, func(k, v []byte) error {
		d := dec{b: v}
		child := r.tasks[tasktree.TaskID(d.u())]
		if d.err == nil && len(k) >= 9 && child != nil && child.Parent == tasktree.TaskID(keyNum(k, 0)) && child.Agent == tasktree.Agent(k[9:]) {
			return nil
		}
		r.say("where redo goes from task %d is not known any more", keyNum(k, 0))
		r.b.Delete(bytes.Clone(k))
		return nil
	})
}

// mendCounters sees to it that no number is given twice.
func (r *repairing) mendCounters() error {
	names, err := r.e.listHold()
	if err != nil {
		return err
	}
	for _, name := range names {
		id, err := strconv.ParseUint(name[min(1, len(name)):], 16, 64)
		switch {
		case err != nil:
		case name == holdName(OID(id)):
			r.top = max(r.top, OID(id))
		case name == copyName(copyID(id)):
			r.copies = max(r.copies, copyID(id))
		}
	}
	err = r.e.j.Scan([]byte{kShare}, func(k, v []byte) error {
		s, err := decodeShare(v)
		if _, _, ok := parseShareKey(k); err != nil || !ok {
			r.say("a share cannot be read: it is dropped, so that a conflict about it is not seen")
			r.b.Delete(bytes.Clone(k))
			return nil
		}
		r.shares = max(r.shares, s.first, s.last)
		return nil
	})
	if err != nil {
		return err
	}
	for _, c := range []struct {
		name byte
		what string
		used uint64
	}{{'o', "objects", uint64(cmp.Or(r.top, rootOID))}, {'c', "copies", uint64(r.copies)}, {'q', "changes", r.shares}} {
		v, found, err := r.e.j.Get([]byte{kCounter, c.name})
		if err != nil {
			return err
		}
		d := dec{b: v}
		if next := d.u(); (!found && c.used <= 1) || found && d.err == nil && next > c.used {
			continue
		}
		r.say("the counter of %s is behind: it goes on from %d", c.what, c.used+1)
		r.b.Put([]byte{kCounter, c.name}, encodeNumber(c.used+1))
	}
	return nil
}

// endMoves goes on with the moves that were under way and, where one can be neither ended nor taken back, forgets it.
func (e *Engine) endMoves() error {
	all, err := interruptedMoves(e.j)
	if err != nil {
		return err
	}
	for _, m := range all {
		if err := e.endMove(m); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) endMove(i interrupted) error {
	failed := e.recoverMove(i)
	if failed == nil {
		e.opt.Repair.Say("a move that was interrupted is ended")
		return nil
	}
	e.opt.Repair.Say(fmt.Sprintf("a move that was interrupted can be neither ended nor taken back (%v): the files stay as they are now, and its tasks are incomplete", failed))
	var b journal.Batch
	v, found, err := e.j.Get(moveKey(i.num)) // as far as it has come by now
	if err != nil || !found {
		return storeError("repair", err)
	}
	m, _, err := decodeMover(e, v)
	m.num = i.num
	e.tasks.mu.Lock()
	newImages().drop(&b, []byte{kNew}, m.scratch())
	newImages().drop(&b, nil, m.scratch())
	for _, k := range e.tasks.tree.All() {
		if err == nil && !m.plan.Takes(k.ID) {
			continue
		}
		newImages().drop(&b, []byte{kNew}, k.ID)
		if k, err := e.tasks.tree.Update(k.ID, func(k *tasktree.Task) { k.Incomplete = true }); err == nil {
			b.Put(key(kTask, uint64(k.ID)), encodeTask(&k))
		}
	}
	e.tasks.mu.Unlock()
	forgetMove(&b, i.num)
	return storeError("repair", e.j.CommitFreeing(&b))
}

// Leftovers tells of what a death left over, which is no damage: a move under way, and what is in hold and needed by nobody.
// Preconditions: the engine was opened for reading only, so that nothing goes on that would look like it.
func (e *Engine) Leftovers(report func(string)) error {
	moves, err := interruptedMoves(e.j)
	if err != nil {
		return err
	}
	for range moves {
		report("a move was interrupted: the next mount ends it")
	}
	names, err := e.listHold()
	if err != nil {
		return err
	}
	refs, err := e.references(true)
	if err != nil {
		return nil // an image that cannot be read, of which Verify tells
	}
	for _, name := range names {
		id, err := strconv.ParseUint(name[1:], 16, 64)
		switch {
		case err == nil && name == holdName(OID(id)) && refs.objects[OID(id)], err == nil && name == copyName(copyID(id)) && refs.copies[copyID(id)]:
		default:
			report(fmt.Sprintf("hold/%s is needed by nobody: `ttfs prune` gives it back, and so does the next mount", name))
		}
	}
	return nil
}
