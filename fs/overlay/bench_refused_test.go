package overlay

import (
	"errors"
	"fmt"
	"testing"
)

// BenchmarkRefused is the undo of a task that changed a hundred small files, which is refused since somebody else has changed them
// since; in a tree in which tasks before it, undone by now, have changed them as often as it says.
func BenchmarkRefused(b *testing.B) {
	const files = 100
	for _, before := range []int{0, 50} {
		s := newStand(b, 1)
		s.set = func(o *Options) { o.Notify, o.Events = nil, nil }
		s.reopen()
		s.must(s.mkdir("t", 0o755))
		for i := range files {
			s.must(s.create("t/"+benchName(i), "first", 0o644))
		}
		write := func(s *stand) {
			s.begin("write")
			for i := range files {
				s.must(s.fresh(func() error { return s.rewrite("t/"+benchName(i), fmt.Sprint("by ", s.agent)) }))
			}
		}
		one, other := s.beside("one"), s.beside("other")
		for range before {
			write(other)
			_, err := other.e.Undo("other", MoveOptions{})
			s.must(err)
		}
		write(one)
		write(other)
		b.Run(fmt.Sprint(before, " undone before"), func(b *testing.B) {
			b.ReportAllocs()
			used := cpuTime(b)
			for b.Loop() {
				if _, err := one.e.Undo("one", MoveOptions{}); !errors.Is(err, Conflict) {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(cpuTime(b)-used)/float64(b.N*files), "cpu-ns/file")
		})
	}
}
