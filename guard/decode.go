package guard

import (
	"encoding/binary"
	"math"
)

// Import takes the place of all that is known, as Export gave it. Errors: Format (an unknown version), Corrupt; then
// nothing has changed. Windows of rewriting are closed by it.
func (s *State) Import(b []byte) error {
	if len(b) > 0 && b[0] != version {
		return &Error{Op: "import", Path: "knowledge", Kind: Format}
	}
	fresh := New()
	d := reader{s: fresh}
	if len(b) == 0 {
		d.bad = true
	} else {
		d.left = b[1:]
		d.state()
	}
	if d.bad || len(d.left) > 0 {
		return &Error{Op: "import", Path: "knowledge", Kind: Corrupt}
	}
	*s = *fresh
	return nil
}

// reader takes apart. Once bad it gives zeros, and no loop goes on.
type reader struct {
	s    *State
	left []byte
	bad  bool
}

// must says that what was read makes sense.
func (d *reader) must(ok bool) bool {
	d.bad = d.bad || !ok
	return !d.bad
}

func (d *reader) number() uint64 {
	n, size := binary.Uvarint(d.left)
	if !d.must(size > 0) {
		return 0
	}
	d.left = d.left[size:]
	return n
}

// at is a number of the sequence, not above what the state has reached.
func (d *reader) at() Seq {
	n := Seq(d.number())
	d.must(n <= d.s.seq)
	return n
}

// times calls f as often as a count says, while all is well. Each takes at least one byte.
func (d *reader) times(limit int, f func()) {
	n := d.number()
	d.must(n <= uint64(limit) && n <= uint64(len(d.left)))
	for ; n > 0 && !d.bad; n-- {
		f()
	}
}

func (d *reader) text() string {
	n := d.number()
	if !d.must(n <= uint64(len(d.left))) {
		return ""
	}
	t := string(d.left[:n])
	d.left = d.left[n:]
	return t
}

func (d *reader) state() {
	s := d.s
	s.seq = Seq(d.number())
	d.times(math.MaxInt, d.record)
	d.times(math.MaxInt, d.place)
	d.times(maxAgents, d.agent)
	for _, r := range s.files {
		d.must(r.refs > 0)
	}
	for _, pl := range s.places {
		d.must(pl.refs > 0)
	}
}

func (d *reader) record() {
	f := File(d.number())
	if !d.must(d.s.files[f] == nil) {
		return
	}
	r := d.s.record(f)
	r.born, r.clean = d.at(), d.at()
	d.ledger(&r.log)
}

func (d *reader) place() {
	p := Path(d.text())
	if !d.must(p != "" && d.s.places[p] == nil) {
		return
	}
	pl := &place{path: p}
	switch d.number() {
	case 0:
	case 1:
		if r := d.s.files[File(d.number())]; d.must(r != nil) {
			d.s.settle(pl, r)
		}
	default:
		d.bad = true
	}
	d.ledger(&pl.log)
	d.s.places[p] = pl
}

func (d *reader) ledger(l *ledger) {
	d.times(maxWriters, func() {
		w := Writer{Agent(d.text()), Task(d.number())}
		before, at := len(l.entries), d.at()
		l.add(w, at)
		d.must(at > 0 && len(l.entries) == before+1)
	})
}

func (d *reader) agent() {
	a := Actor{Agent: Agent(d.text())}
	if !d.must(!a.human() && d.s.agents[a.Agent] == nil) {
		return
	}
	g, _ := d.s.enlist(a)
	d.mind(g.mind)
	d.times(maxProcesses, func() {
		a.Proc = Process{int(d.number()), d.number()}
		if d.must(a.Proc.PID > 0 && g.procs[a.Proc] == nil) {
			_, m := d.s.enlist(a)
			d.mind(m)
		}
	})
}

func (d *reader) mind(m *mind) {
	d.times(m.limit, func() {
		f := File(d.number())
		if d.must(d.s.files[f] != nil && m.files[f] == nil) {
			d.known(m, d.s.know(m, f))
		}
	})
}

func (d *reader) known(m *mind, k *known) {
	k.as = d.at()
	flags := d.number()
	k.seen, k.read = flags&flagSeen != 0, flags&flagRead != 0
	d.must(flags <= flagSeen|flagRead && (k.seen || !k.read))
	var end int64
	d.times(maxSpans, func() {
		gap, length := d.number(), d.number()
		room := uint64(math.MaxInt64 - end)
		if d.must(gap <= room && length > 0 && length <= room-gap && (gap > 0 || len(k.spans) == 0)) {
			from := end + int64(gap)
			end = from + int64(length)
			k.spans = append(k.spans, Span{from, end})
		}
	})
	d.times(m.limit, func() {
		p, as := Path(d.text()), d.at()
		pl := d.s.places[p]
		if d.must(pl != nil && m.names[p] == nil && len(m.names) < m.limit) {
			pl.refs++
			n := &name{place: pl, known: k, as: as}
			m.names[p] = n
			k.names = append(k.names, n)
		}
	})
}
