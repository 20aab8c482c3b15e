package overlay

import (
	"errors"
	"fmt"
	"testing"
)

// BenchmarkMoves is undo, redo and refused undo of a hundred small files, without a kernel; in a workspace that has a
// history of other things as well.
func BenchmarkMoves(b *testing.B) {
	for _, c := range []struct {
		name string
		move func(s *stand) error
	}{
		{"UndoRedo100", func(s *stand) error {
			_, err := s.e.Undo(s.agent, MoveOptions{})
			if err == nil {
				_, err = s.e.Redo(s.agent, MoveOptions{})
			}
			return err
		}},
		{"Refused100", func(s *stand) error {
			if _, err := s.e.Undo(s.agent, MoveOptions{}); !errors.Is(err, Conflict) {
				return fmt.Errorf("got %v, want a conflict", err)
			}
			return nil
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := newStand(b, 1)
			s.set = func(o *Options) { o.Events = nil }
			s.reopen()
			for i := range 5000 {
				s.must(s.create(benchName(i), "first", 0o644))
			}
			s.reopen() // the history is in the index then
			s.begin("measured")
			for i := range 100 {
				s.must(s.rewrite(benchName(i*50), "second"))
			}
			if c.name == "Refused100" {
				s.must(s.as("other", func() (err error) {
					for i := range 100 {
						err = errors.Join(err, s.rewrite(benchName(i*50), "third"))
					}
					return err
				}))
			}
			b.ReportAllocs()
			start := cpuTime(b)
			n := 0
			for b.Loop() {
				if err := c.move(s); err != nil {
					b.Fatal(err)
				}
				n++
			}
			b.ReportMetric(float64(cpuTime(b)-start)/float64(n), "cpu-ns/op")
		})
	}
}
