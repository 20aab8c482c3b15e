package overlay

import (
	"slices"

	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// part is a step of a move, or as much of one as concerns some things; of task 0, the entries of all of them.
type part struct {
	tasktree.Step
	only []thing // nil: everything
}

// weave is a plan's steps in an order in which every swap is exact; without all, but for what move_joint.go does. Of one
// agent's tasks the order is theirs.
func (e *Engine) weave(p *tasktree.Plan, all bool) ([]part, error) {
	out := make([]part, 0, len(p.Steps))
	if len(p.Along) == 0 {
		for _, s := range p.Steps {
			out = append(out, part{Step: s})
		}
		return out, nil
	}
	var failed error
	for _, w := range tasktree.Weave(p.Steps, func(id tasktree.TaskID) []tasktree.Touch[thing] {
		all, err := e.touchesOf(id, all)
		if err != nil && failed == nil {
			failed = err
		}
		return all
	}) {
		out = append(out, part{w.Step, w.Only})
	}
	if !all {
		out = append(out, part{})
	}
	return out, failed
}

// touchesOf are the things of which a task has images, with their place in the sequence of shares.
func (e *Engine) touchesOf(id tasktree.TaskID, all bool) ([]tasktree.Touch[thing], error) {
	im, err := e.readImages(id)
	if err != nil {
		return nil, err
	}
	if !all {
		im.leaveJoint()
	}
	var out []tasktree.Touch[thing]
	for _, t := range im.things() {
		at := tasktree.Touch[thing]{Thing: t}
		v, found, err := e.j.Get(t.key(id))
		if err != nil {
			return nil, storeError("order a move", err)
		}
		if mt := im.metas[t.obj]; t.obj != 0 && isDirMeta(&mt) {
			at.At = mt.at // a share is younger, where entries changed before the directory itself did
		} else if found {
			s, err := decodeShare(v)
			if err != nil {
				return nil, fail("order a move", "", Damaged, err)
			}
			at.At = s.first
		}
		out = append(out, at)
	}
	return out, nil
}

// metaSeq is the number that the image of a directory's metadata gets; 0 for what has a share.
func (e *Engine) metaSeq(st *Stat) (uint64, error) {
	if kindOf(st) != unix.S_IFDIR {
		return 0, nil
	}
	return e.nextSeq()
}

// keepOnly drops all images but those of some things; nil: none is dropped.
func (im *images) keepOnly(things []thing) {
	if things == nil {
		return
	}
	keep := map[thing]bool{}
	for _, t := range things {
		keep[t] = true
	}
	im.leaveOut(slices.DeleteFunc(im.things(), func(t thing) bool { return keep[t] }))
}

// pick is the images of some things.
func (im *images) pick(things []thing) *images {
	out := newImages()
	out.merge(im)
	out.keepOnly(append([]thing{}, things...))
	return out
}

// encode is the record of the move under way. prepared says that the next step is.
func (m *mover) encode(prepared bool) []byte {
	var e enc
	e.s(string(m.plan.Agent))
	e.u(uint64(m.plan.From))
	e.u(uint64(m.plan.To))
	e.u(uint64(m.done))
	e.flag(prepared)
	e.u(uint64(len(m.parts)))
	for _, p := range m.parts {
		e.u(uint64(p.Task))
		flags := uint64(0)
		if p.Redo {
			flags |= partRedo
		}
		if p.only != nil {
			flags |= partOnly
		}
		e.u(flags)
		if p.only != nil {
			e.things(p.only)
		}
	}
	e.u(uint64(len(m.plan.Along)))
	for _, l := range m.plan.Along {
		e.s(string(l.Agent))
		e.u(uint64(l.From))
		e.u(uint64(l.To))
	}
	e.u(uint64(len(m.skip)))
	for _, task := range sortedTasks(m.skip) {
		e.u(uint64(task))
		e.things(m.skip[task])
	}
	e.u(uint64(m.made))
	e.flag(m.backward)
	return e.b
}

// Flags of a step in the record of a move.
const (
	partRedo = 1 << iota
	partOnly
)

func sortedTasks(m map[tasktree.TaskID][]thing) (out []tasktree.TaskID) {
	for id := range m {
		out = append(out, id)
	}
	slices.Sort(out)
	return out
}

func (e *enc) things(all []thing) {
	e.u(uint64(len(all)))
	for _, t := range all {
		e.u(uint64(t.obj))
		if t.obj == 0 {
			e.u(uint64(t.at.dir))
			e.s(t.at.name)
		}
	}
}

func (d *dec) things() []thing {
	out := []thing{}
	for n := d.u(); n > 0 && d.err == nil; n-- {
		t := thing{obj: OID(d.u())}
		if t.obj == 0 {
			t.at = spot{OID(d.u()), d.s()}
		}
		out = append(out, t)
	}
	return out
}

func decodeMover(e *Engine, b []byte) (m *mover, prepared bool, err error) {
	d := dec{b: b}
	m = &mover{e: e, seen: newImages()}
	m.plan.Agent = tasktree.Agent(d.s())
	m.plan.From, m.plan.To = tasktree.TaskID(d.u()), tasktree.TaskID(d.u())
	m.done, prepared = int(d.u()), d.flag()
	for n := d.u(); n > 0 && d.err == nil; n-- {
		p := part{Step: tasktree.Step{Task: tasktree.TaskID(d.u())}}
		flags := d.u()
		p.Redo = flags&partRedo != 0
		if flags&partOnly != 0 {
			p.only = d.things()
		}
		m.parts = append(m.parts, p)
		if p.Task != 0 && (p.only == nil || !slices.Contains(m.plan.Steps, p.Step)) {
			m.plan.Steps = append(m.plan.Steps, p.Step)
		}
	}
	if m.done < 0 || m.done > len(m.parts) {
		d.err = errShort
	}
	if len(d.b) == 0 || d.err != nil { // older records end here
		return m, prepared, d.err
	}
	for n := d.u(); n > 0 && d.err == nil; n-- {
		m.plan.Along = append(m.plan.Along, tasktree.Line{Agent: tasktree.Agent(d.s()), From: tasktree.TaskID(d.u()), To: tasktree.TaskID(d.u())})
	}
	m.skip = map[tasktree.TaskID][]thing{}
	for n := d.u(); n > 0 && d.err == nil; n-- {
		task := tasktree.TaskID(d.u())
		m.skip[task] = d.things()
	}
	m.made, m.backward = tasktree.TaskID(d.u()), d.flag()
	return m, prepared, d.err
}
