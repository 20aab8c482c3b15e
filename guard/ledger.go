package guard

import "slices"

// entry is one writer in a ledger.
type entry struct {
	Writer
	at Seq // the last change of this agent in this task
}

// ledger is who changed something, and when last.
type ledger struct {
	last    Seq
	entries []entry
}

func (l *ledger) add(w Writer, at Seq) {
	l.last = max(l.last, at)
	for i := range l.entries {
		if e := &l.entries[i]; e.Writer == w {
			e.at = max(e.at, at)
			return
		}
	}
	if len(l.entries) == maxWriters {
		l.drop()
	}
	l.entries = append(l.entries, entry{w, at})
}

// drop makes room for one. An agent's older task goes first; else the agent that wrote least recently. In both cases
// whoever is stale by what goes is stale by what stays.
func (l *ledger) drop() {
	oldest, again := 0, -1
	for i, e := range l.entries {
		if e.at < l.entries[oldest].at {
			oldest = i
		}
		if (again < 0 || e.at < l.entries[again].at) && l.newerOf(e) {
			again = i
		}
	}
	if again >= 0 {
		oldest = again
	}
	l.entries = slices.Delete(l.entries, oldest, oldest+1)
}

// newerOf says whether the agent of e has a newer entry.
func (l *ledger) newerOf(e entry) bool {
	for _, o := range l.entries {
		if o.Agent == e.Agent && o.at > e.at {
			return true
		}
	}
	return false
}

func (l *ledger) merge(o *ledger) {
	for _, e := range o.entries {
		l.add(e.Writer, e.at)
	}
}

// foreign says whether anybody but me made a change after as.
func (l *ledger) foreign(me Agent, as Seq) bool {
	if l.last <= as {
		return false
	}
	for i := range l.entries {
		if e := &l.entries[i]; e.at > as && e.Agent != me {
			return true
		}
	}
	return false
}

// others puts the entries of everybody but me after as into out.
func (l *ledger) others(out []entry, me Agent, as Seq) []entry {
	for _, e := range l.entries {
		if e.at > as && e.Agent != me {
			out = append(out, e)
		}
	}
	return out
}

// newest is the last writer but me.
func (l *ledger) newest(me Agent) (entry, bool) {
	var best entry
	for _, e := range l.entries {
		if e.Agent != me && e.at > best.at {
			best = e
		}
	}
	return best, best.at > 0
}

// writers orders entries by time, each writer once.
func writers(es []entry) []Writer {
	slices.SortStableFunc(es, func(a, b entry) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return 0
	})
	var out []Writer
	for i := len(es) - 1; i >= 0; i-- { // of one writer the last entry counts
		if !slices.Contains(out, es[i].Writer) {
			out = append(out, es[i].Writer)
		}
	}
	slices.Reverse(out)
	return out
}
