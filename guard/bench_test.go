package guard

import (
	"fmt"
	"testing"
)

// crowd is a state of ten agents that know a thousand files each.
func crowd() (*State, []Question) {
	s := New()
	var qs []Question
	for a := range 10 {
		who := Actor{Agent: Agent(fmt.Sprint("agent-", a)), Proc: Process{PID: a + 1, Start: 1}, Task: 1}
		for i := range 1000 {
			f, p := File(a*1000+i+1), Path(fmt.Sprintf("src/package%d/file%d.go", a, i))
			s.Created(Actor{Agent: User}, f, p)
			s.Opened(who, f, p, 4096, ForReading)
			if i%100 == 0 {
				qs = append(qs, Question{Actor: who, Op: Overwrite, File: f, Path: p, From: 0, To: 4096, SizeBytes: 4096})
			}
		}
	}
	return s, qs
}

var benches = []struct {
	name string
	do   func(s *State, q *Question, p *Policy)
}{
	{"Decide", func(s *State, q *Question, p *Policy) { s.Decide(q, p) }},
	{"Opened", func(s *State, q *Question, _ *Policy) { s.Opened(q.Actor, q.File, q.Path, q.SizeBytes, ForReading) }},
	{"Read", func(s *State, q *Question, _ *Policy) { s.Read(q.Actor, q.File, q.Path, s.Now(), 0, 4096) }},
	{"Wrote", func(s *State, q *Question, _ *Policy) { s.Wrote(q.Actor, q.File, q.Path, 0, 4096, 4096) }},
	{"MayOpen", func(s *State, q *Question, _ *Policy) { s.MayOpenForWriting(q.File, q.Path, q.Actor, false) }},
}

func Benchmark(b *testing.B) {
	for _, c := range benches {
		b.Run(c.name, func(b *testing.B) {
			s, qs := crowd()
			p := &Policy{Blind: Contested}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				c.do(s, &qs[i%len(qs)], p)
			}
		})
	}
	b.Run("Create+Remove", func(b *testing.B) {
		s, qs := crowd()
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			s.Created(qs[0].Actor, File(1<<40+i), "src/new.go")
			s.Removed(qs[0].Actor, File(1<<40+i), "src/new.go")
		}
	})
}

// TestNoAllocations: what is allowed costs no garbage.
func TestNoAllocations(t *testing.T) {
	for _, c := range benches {
		s, qs := crowd()
		p := &Policy{Blind: Contested}
		for i := range qs {
			c.do(s, &qs[i], p)
		}
		i := 0
		if n := testing.AllocsPerRun(200, func() { c.do(s, &qs[i%len(qs)], p); i++ }); n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}
