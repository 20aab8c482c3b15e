package guard

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// version is the first byte of an exported state. What follows, all numbers unsigned varints, strings as length and bytes:
//
//	state   seq  n record…  n place…  n agent…
//	record  file  born  clean  ledger                        ascending by file
//	place   path  0 | 1 file  ledger                         ascending by path
//	ledger  n (agent task at)…
//	agent   name  mind  n (pid start mind)…                  least recently used first, processes too
//	mind    n (file as flags spans names)…                   least recently used first
//	flags   1 seen, 2 read
//	spans   n (gap length)…                                  gap: from the end of the one before
//	names   n (path as)…
const version = 1

// The flags of knowledge.
const (
	flagSeen = 1 << iota
	flagRead
)

// Export is the state as bytes, for Import: the same state gives the same bytes.
func (s *State) Export() []byte {
	w := writer{version}
	w.number(s.seq)
	w.count(len(s.files))
	for _, f := range sortedKeys(s.files) {
		r := s.files[f]
		w.number(Seq(f), r.born, r.clean)
		w.ledger(&r.log)
	}
	w.count(len(s.places))
	for _, p := range sortedKeys(s.places) {
		pl := s.places[p]
		w.text(string(p))
		if pl.file == nil {
			w.number(0)
		} else {
			w.number(1, Seq(pl.file.id))
		}
		w.ledger(&pl.log)
	}
	w.count(len(s.agents))
	for _, a := range byUse(s.agents, func(g *agent) uint64 { return g.used }) {
		w.agent(s.agents[a])
	}
	return w
}

// byUse orders the keys, least recently used first.
func byUse[K comparable, V any](all map[K]V, use func(V) uint64) []K {
	keys := make([]K, 0, len(all))
	for k := range all {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b K) int { return cmp.Compare(use(all[a]), use(all[b])) })
	return keys
}

// writer appends.
type writer []byte

func (w *writer) number(ns ...Seq) {
	for _, n := range ns {
		*w = binary.AppendUvarint(*w, uint64(n))
	}
}

func (w *writer) count(n int) { w.number(Seq(n)) }

func (w *writer) text(t string) {
	w.count(len(t))
	*w = append(*w, t...)
}

func (w *writer) ledger(l *ledger) {
	w.count(len(l.entries))
	for _, e := range l.entries {
		w.text(string(e.Agent))
		w.number(Seq(e.Task), e.at)
	}
}

func (w *writer) agent(g *agent) {
	w.text(string(g.me))
	w.mind(g.mind)
	w.count(len(g.procs))
	for _, p := range byUse(g.procs, func(m *mind) uint64 { return m.used }) {
		w.number(Seq(p.PID), Seq(p.Start))
		w.mind(g.procs[p])
	}
}

func (w *writer) mind(m *mind) {
	w.count(len(m.files))
	for k := m.oldest; k != nil; k = k.newer {
		var flags Seq
		if k.seen {
			flags |= flagSeen
		}
		if k.read {
			flags |= flagRead
		}
		w.number(Seq(k.rec.id), k.as, flags)
		w.count(len(k.spans))
		var end int64
		for _, v := range k.spans {
			w.number(Seq(v.From-end), Seq(v.To-v.From))
			end = v.To
		}
		w.count(len(k.names))
		for _, n := range k.names {
			w.text(string(n.place.path))
			w.number(n.as)
		}
	}
}
