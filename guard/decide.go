package guard

import "slices"

// Op is what is about to happen.
type Op uint8

// The operations. Those up to Unlink may destroy something.
const (
	// TruncateOpen is open(O_TRUNC), and a truncation to nothing.
	TruncateOpen Op = iota + 1
	// Truncate sets the size to Question.From.
	Truncate
	// Punch takes [From, To) out: punch a hole, zero; collapse and insert take To = the size.
	Punch
	// Overwrite writes [From, To) in place, by whatever call.
	Overwrite
	// RenameOver replaces what Path names by another file.
	RenameOver
	// LinkOver replaces what Path names by a link.
	LinkOver
	// Exchange takes both ends away from their paths: the other one is Question.Other.
	Exchange
	// Unlink takes a name away: stale only.
	Unlink
	// Append writes with O_APPEND.
	Append
	// Create makes something where nothing is.
	Create
	// Metadata changes mode, owner, times, attributes.
	Metadata
)

var opNames = [...]string{"", "truncate", "truncate", "punch", "write", "rename over", "link over", "exchange", "unlink", "append", "create", "chmod"}

// String is the word for people.
func (o Op) String() string { return opNames[o] }

// atPath says that the operation finds the file by its path, not by a handle.
func (o Op) atPath() bool {
	switch o {
	case TruncateOpen, RenameOver, LinkOver, Exchange, Unlink:
		return true
	}
	return false
}

// Question asks whether Actor may do Op to the file that Path names: for a rename or a link, what it would replace.
type Question struct {
	Actor     Actor
	Op        Op
	File      File
	Path      Path
	From, To  int64
	SizeBytes int64
	Other     End
}

// BlindRule is --blind.
type BlindRule uint8

// The rules for content that was never read.
const (
	// Allow lets it pass.
	Allow BlindRule = iota
	// Contested refuses if the last writer but the agent is another live agent.
	Contested
	// Deny refuses whenever bytes are destroyed.
	Deny
)

// Policy is what the engine knows and the State does not.
type Policy struct {
	Blind BlindRule
	// Live says whether an agent is alive; nil: those are of which something is kept. It may not call the State.
	Live func(Agent) bool
	// Unguarded lets everything pass: the class of the path, a lock that the actor holds, or the guard is off.
	Unguarded bool
}

// Verdict is the answer. Its zero value is a refusal without a reason; the State never gives it.
type Verdict struct {
	Allow bool
	// Kind is why not: Stale, Partial, Blind or Busy.
	Kind Kind
	// Path is what would have been destroyed.
	Path Path
	// Writers are the others that changed it, oldest first: of Stale since the agent knew it, of Blind and Busy the one.
	Writers []Writer
	// Ranges are of Partial the bytes that would be destroyed unseen.
	Ranges []Span
}

// Err is the verdict as an error of the operation; nil if it is allowed.
func (v Verdict) Err(op string) error {
	if v.Allow {
		return nil
	}
	return &Error{Op: op, Path: string(v.Path), Kind: v.Kind, Writers: v.Writers}
}

var allowed = Verdict{Allow: true}

// Decide says whether the guard lets an operation pass. It changes nothing. It does not allocate when it allows.
func (s *State) Decide(q *Question, p *Policy) Verdict {
	if p.Unguarded || q.Op >= Append || q.Actor.human() {
		return allowed
	}
	v := s.decide(q, p)
	if v.Allow && q.Op == Exchange {
		other := *q
		other.File, other.Path, other.SizeBytes = q.Other.File, q.Other.Path, q.Other.SizeBytes
		v = s.decide(&other, p)
	}
	return v
}

// destroyed is the range of the file that would be lost, and whether the whole file is replaced, even an empty one.
func (q *Question) destroyed() (from, to int64, whole bool) {
	switch q.Op {
	case Truncate:
		return q.From, q.SizeBytes, q.From == 0
	case Punch, Overwrite:
		return q.From, min(q.To, q.SizeBytes), false
	}
	return 0, q.SizeBytes, true
}

func (s *State) decide(q *Question, p *Policy) Verdict {
	from, to, whole := q.destroyed()
	if from >= to && !whole {
		return allowed
	}
	g, m := s.find(q.Actor)
	r := s.files[q.File]
	var k *known
	own := r != nil && r.allBy(q.Actor.Agent)
	if g != nil {
		if k = g.files[q.File]; !k.valid() {
			k = nil
		}
		own = own || k != nil && k.spans.covers(from, to)
		stale, found := s.stale(m, q, own)
		if !found {
			stale, _ = s.stale(g.mind, q, own)
		}
		if stale != nil {
			return Verdict{Kind: Stale, Path: q.Path, Writers: stale}
		}
	}
	if own || q.Op == Unlink || from >= to {
		return allowed
	}
	if k != nil && k.read {
		if q.SizeBytes <= SmallBytes {
			return allowed
		}
		return Verdict{Kind: Partial, Path: q.Path, Ranges: k.spans.missing(from, to)}
	}
	return s.blind(q, r, p)
}

// stale gives who made what a mind knows stale, and whether it knows the file or the path at all. own: all that would be
// destroyed is known to the agent, so that it does not matter how the file came to its path.
func (s *State) stale(m *mind, q *Question, own bool) (ws []Writer, found bool) {
	if m == nil {
		return nil, false
	}
	k := m.files[q.File]
	if k.valid() {
		found = true
		if k.rec.log.foreign(m.me, k.as) {
			return writers(k.rec.log.others(nil, m.me, k.as)), true
		}
		if k.read || own {
			return nil, true
		}
	}
	n := m.names[q.Path]
	if n == nil || !n.known.seen {
		return nil, found
	}
	here := n.place.file != nil && n.place.file.id == q.File
	if here && !n.stale(m.me) || !here && !q.Op.atPath() {
		return nil, found
	}
	return s.replacers(m, n, s.files[q.File], !here), true
}

// replacers are who changed what a path names since the mind knew it, and what is there now.
func (s *State) replacers(m *mind, n *name, r *record, outside bool) []Writer {
	es := n.place.log.others(nil, m.me, n.as)
	if r != nil {
		es = r.log.others(es, m.me, n.as)
	}
	if outside {
		es = append(es, entry{Writer{Agent: Outside}, s.seq})
	}
	return writers(es)
}

// blind decides about content of which the agent knows nothing.
func (s *State) blind(q *Question, r *record, p *Policy) Verdict {
	var last []Writer
	if r != nil {
		if e, ok := r.log.newest(q.Actor.Agent); ok {
			last = []Writer{e.Writer}
		}
	}
	switch {
	case p.Blind == Deny:
	case p.Blind == Contested && len(last) == 1 && s.live(last[0].Agent, p):
	default:
		return allowed
	}
	return Verdict{Kind: Blind, Path: q.Path, Writers: last}
}

func (s *State) live(a Agent, p *Policy) bool {
	if a == User || a == Outside {
		return false
	}
	if p.Live != nil {
		return p.Live(a)
	}
	return s.Knows(a)
}

// StaleEntry is a path that an agent knows and others have changed since.
type StaleEntry struct {
	Path Path
	// File is what the path names now; 0: nothing.
	File File
	// Writers are all who changed it, oldest first.
	Writers []Writer
}

// Agents are the writers' names, each once, sorted.
func (e StaleEntry) Agents() []Agent {
	var out []Agent
	for _, w := range e.Writers {
		out = append(out, w.Agent)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Stale is what others changed of what the agent has read or written, sorted by path: of a parent also what its sub-agents
// changed. Reading a file again takes it off the list.
func (s *State) Stale(a Agent) []StaleEntry {
	g := s.agents[a]
	if g == nil {
		return nil
	}
	var out []StaleEntry
	for _, p := range sortedKeys(g.names) {
		n := g.names[p]
		if !n.known.seen {
			continue
		}
		es := n.place.log.others(nil, a, n.as)
		e := StaleEntry{Path: p}
		if r := n.place.file; r != nil {
			e.File = r.id
			as := n.as
			if n.known.rec == r && n.known.valid() {
				as = n.known.as
			}
			es = r.log.others(es, a, as)
		}
		if e.Writers = writers(es); e.Writers != nil {
			out = append(out, e)
		}
	}
	return out
}
