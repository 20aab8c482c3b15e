package guard

import (
	"fmt"
	"slices"
	"strings"
)

// model is the guard told naively: the list of all that happened, and nothing else. What an actor knows is found by going
// through all of it from the beginning at each question. It knows no bounds and no directories.
type model struct{ events []event }

type event struct {
	what     string // content, bind (what a path names), read
	who      Actor
	file     File
	path     Path
	from, to int64
	size     int64 // of content: afterwards
	start    int   // of read: how many events were there
	fresh    bool  // of content: the file was created
	moved    Path  // of bind: the file had this path before
}

func (m *model) put(e event) {
	if m != nil {
		m.events = append(m.events, e)
	}
}

func (m *model) now() int {
	if m == nil {
		return 0
	}
	return len(m.events)
}

func (m *model) opened(a Actor, f File, p Path, size int64) {
	if size <= SmallBytes {
		m.put(event{what: "read", who: a, file: f, path: p, to: size, start: m.now()})
	}
}

func (m *model) read(a Actor, f File, p Path, start int, from, to int64) {
	if from < to {
		m.put(event{what: "read", who: a, file: f, path: p, from: from, to: to, start: start})
	}
}

func (m *model) wrote(a Actor, f File, p Path, from, to, size int64) {
	m.put(event{what: "content", who: a, file: f, path: p, from: from, to: to, size: size})
}

func (m *model) created(a Actor, f File, p Path) {
	m.put(event{what: "bind", who: a, file: f, path: p})
	m.put(event{what: "content", who: a, file: f, path: p, fresh: true})
}

func (m *model) removed(a Actor, _ File, p Path) { m.put(event{what: "bind", who: a, path: p}) }

func (m *model) renamed(a Actor, f File, from, to Path) {
	m.put(event{what: "bind", who: a, file: f, path: to, moved: from})
	m.put(event{what: "bind", who: a, path: from})
}

func (m *model) linked(a Actor, f File, p Path) {
	m.put(event{what: "bind", who: a, file: f, path: p})
}

func (m *model) exchanged(a Actor, f File, p Path, g File, q Path) {
	m.put(event{what: "bind", who: a, file: f, path: q})
	m.put(event{what: "bind", who: a, file: g, path: p})
}

// view is what an agent, or one of its processes, knows after so many events. Of a file and a path it knows the number of
// the event as of which it knows them.
type view struct {
	m     *model
	me    Agent
	files map[File]*knows
	paths map[Path]*lineage
}

type knows struct {
	as    int
	read  bool
	bytes map[int64]bool // by block
}

type lineage struct {
	as   int
	file File
}

// others are the events by others from the number on that changed the content of f, or what p names.
func (v *view) others(as int, upto int, f File, p Path) []int {
	var out []int
	for i := as; i < upto; i++ {
		e := v.m.events[i]
		if e.who.Agent == v.me {
			continue
		}
		if e.what == "content" && f != 0 && e.file == f || e.what == "bind" && p != "" && e.path == p {
			out = append(out, i)
		}
	}
	return out
}

// at is what others changed at a path: what it names, or the file that it named at that time.
func (v *view) at(as, upto int, p Path) []int {
	var out []int
	for i := as; i < upto; i++ {
		e := v.m.events[i]
		if e.who.Agent != v.me && (e.what == "bind" && e.path == p || e.what == "content" && v.m.names(p, i) == e.file) {
			out = append(out, i)
		}
	}
	return out
}

// displaced is at, without what happened to the file that the path names now.
func (v *view) displaced(as, upto int, p Path) []int {
	last := 0
	for i := range v.m.events[:upto] {
		if e := v.m.events[i]; e.what == "bind" && e.path == p {
			last = i + 1
		}
	}
	return v.at(as, max(as, last), p)
}

// views goes through everything.
func (m *model) views(a Actor) (agent, proc *view) {
	agent = &view{m, a.Agent, map[File]*knows{}, map[Path]*lineage{}}
	proc = &view{m, a.Agent, map[File]*knows{}, map[Path]*lineage{}}
	for i, e := range m.events {
		switch {
		case e.who.Agent == a.Agent:
			agent.own(i, e, nil)
			if a.Proc.PID != 0 && e.who.Proc == a.Proc {
				proc.own(i, e, agent)
			}
		case e.what == "bind" && e.moved != "":
			if l := agent.paths[e.moved]; l != nil && l.file == e.file && agent.files[e.file] != nil {
				as := i + 1
				if l := agent.paths[e.path]; l != nil {
					as = l.as
				}
				agent.paths[e.path] = &lineage{as, e.file}
			}
		}
	}
	return agent, proc
}

// own takes in what the view's own actor did as event i. above is what the agent knows, for a process.
func (v *view) own(i int, e event, above *view) {
	k, first := v.files[e.file], i+1
	switch e.what {
	case "read":
		v.reading(i, e)
	case "content":
		if k == nil {
			if above != nil {
				first = above.files[e.file].as
			}
			k = &knows{as: first, bytes: map[int64]bool{}}
			v.files[e.file] = k
		}
		if len(v.others(k.as, i, e.file, "")) == 0 {
			k.as = first
			for b := range k.bytes {
				if b*block >= e.size {
					delete(k.bytes, b)
				}
			}
			k.mark(e.from, e.to)
		}
		v.nameBelow(e, i+1, above)
	case "bind":
		if l := v.paths[e.path]; e.file == 0 && l != nil {
			v.name(e.path, l.file, i+1)
		}
		if e.file != 0 && (k != nil || v.paths[e.path] != nil) {
			v.nameBelow(e, i+1, above)
		}
	}
}

func (v *view) reading(i int, e event) {
	k := v.files[e.file]
	newer := k == nil || e.start > k.as && len(v.others(k.as, e.start, e.file, "")) > 0
	switch {
	case newer:
		k = &knows{as: e.start, bytes: map[int64]bool{}}
		v.files[e.file] = k
	case e.start < k.as && len(v.others(e.start, k.as, e.file, "")) > 0:
		return // older than what is known
	}
	k.read = true
	k.mark(e.from, e.to)
	if v.m.names(e.path, i) == e.file {
		as := e.start
		if l := v.paths[e.path]; l != nil {
			as = max(as, l.as)
		}
		v.paths[e.path] = &lineage{as, e.file}
	}
}

func (k *knows) mark(from, to int64) {
	for b := from / block; b*block < to; b++ {
		k.bytes[b] = true
	}
}

// names is what the path names after so many events.
func (m *model) names(p Path, upto int) File {
	for i := upto - 1; i >= 0; i-- {
		if e := m.events[i]; e.what == "bind" && e.path == p {
			return e.file
		}
	}
	return 0
}

func (v *view) nameBelow(e event, as int, above *view) {
	if v.m.names(e.path, as) != e.file {
		return
	}
	if above != nil && v.paths[e.path] == nil && above.paths[e.path] != nil {
		as = above.paths[e.path].as
	}
	v.name(e.path, e.file, as)
}

// name binds a path by an own change: what was stale stays so, and what was not is not.
func (v *view) name(p Path, f File, as int) {
	if l := v.paths[p]; l != nil {
		k := v.files[l.file]
		if len(v.displaced(l.as, as-1, p)) > 0 || k != nil && v.m.names(p, as-1) == l.file && len(v.others(k.as, as-1, l.file, "")) > 0 {
			as = l.as
		}
		as = max(as, l.as)
	}
	v.paths[p] = &lineage{as, f}
}

// decide is section 5.2, in its order.
func (m *model) decide(q Question, pol Policy) string {
	a := q.Actor
	if a.User || pol.Unguarded || q.Op >= Append {
		return "ok"
	}
	said := m.decideOne(q, pol)
	if q.Op == Exchange && said == "ok" {
		q.File, q.Path, q.SizeBytes = q.Other.File, q.Other.Path, q.Other.SizeBytes
		said = m.decideOne(q, pol)
	}
	return said
}

func (m *model) decideOne(q Question, pol Policy) string {
	lost, whole := map[int64]bool{}, false
	for b := int64(0); b*block < q.SizeBytes; b++ {
		at := b * block
		switch q.Op {
		case Truncate:
			lost[b] = at >= q.From
		case Punch, Overwrite:
			lost[b] = at >= q.From && at < q.To
		default:
			lost[b] = true
		}
		if !lost[b] {
			delete(lost, b)
		}
	}
	whole = q.Op != Punch && q.Op != Overwrite && (q.Op != Truncate || q.From == 0)
	if len(lost) == 0 && !whole {
		return "ok"
	}
	agent, proc := m.views(q.Actor)
	all := m.all(q.Actor.Agent, q.File)
	k := agent.files[q.File]
	if k != nil {
		covered := true
		for b := range lost {
			covered = covered && k.bytes[b]
		}
		all = all || covered
	}
	if ws, found := proc.stale(q, all); len(ws) > 0 {
		return m.say("stale", ws)
	} else if !found {
		if ws, _ := agent.stale(q, all); len(ws) > 0 {
			return m.say("stale", ws)
		}
	}
	switch {
	case all || q.Op == Unlink || len(lost) == 0:
		return "ok"
	case k != nil && k.read && q.SizeBytes <= SmallBytes:
		return "ok"
	case k != nil && k.read:
		return "partial" + unseen(lost, k.bytes)
	}
	return m.blind(q, agent, pol)
}

// all says whether all of the file is the agent's own since it was empty.
func (m *model) all(a Agent, f File) bool {
	for i := len(m.events) - 1; i >= 0; i-- {
		e := m.events[i]
		if e.what != "content" || e.file != f {
			continue
		}
		if e.who.Agent != a {
			return false
		}
		if e.fresh || e.size == 0 {
			return true
		}
	}
	return false
}

func (v *view) stale(q Question, all bool) (ws []int, found bool) {
	now := len(v.m.events)
	if k := v.files[q.File]; k != nil {
		if ws := v.others(k.as, now, q.File, ""); len(ws) > 0 || k.read || all {
			return ws, true
		}
		found = true
	}
	l := v.paths[q.Path]
	if l == nil || v.files[l.file] == nil || len(v.displaced(l.as, now, q.Path)) == 0 {
		return nil, found
	}
	return v.at(l.as, now, q.Path), true
}

func (m *model) blind(q Question, v *view, pol Policy) string {
	last := v.others(0, len(m.events), q.File, "")
	if len(last) > 0 {
		last = last[len(last)-1:]
	}
	if pol.Blind == Deny || pol.Blind == Contested && len(last) == 1 && m.events[last[0]].who.Agent != User {
		return m.say("blind", last)
	}
	return "ok"
}

// say lists the writers of events, each by its last one, in that order.
func (m *model) say(word string, events []int) string {
	var names []string
	for _, i := range events {
		w := m.events[i].who
		name := string(w.Agent)
		if w.Task != 0 {
			name += fmt.Sprintf("/%d", w.Task)
		}
		names = slices.DeleteFunc(names, func(o string) bool { return o == name })
		names = append(names, name)
	}
	return strings.Join(append([]string{word}, names...), " ")
}

func unseen(lost, seen map[int64]bool) string {
	var out string
	for b := int64(0); b < 64; b++ {
		if !lost[b] || seen[b] {
			continue
		}
		from := b
		for lost[b] && !seen[b] {
			b++
		}
		out += fmt.Sprintf(" %d-%d", from, b)
	}
	return out
}
