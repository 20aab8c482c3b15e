package overlay

import (
	"fmt"
	"testing"

	"github.com/ttfs/ttfs/tasktree"
)

// BenchmarkManyTasks is undo and redo of one changed file, and the way to 0 and back, in a timeline of ten thousand tasks
// that changed fifty files in turn.
func BenchmarkManyTasks(b *testing.B) {
	const tasks, files = 10_000, 50
	s := newStand(b, 1)
	s.set = func(o *Options) { o.Events = nil }
	s.reopen()
	for i := range files {
		s.must(s.create("f"+benchName(i), "before", 0o644))
	}
	for i := range tasks {
		s.begin(fmt.Sprint("task ", i))
		s.must(s.rewrite("f"+benchName(i%files), fmt.Sprint("of task ", i)))
	}
	last := s.e.Active(s.agent)
	to := func(id tasktree.TaskID) {
		_, err := s.e.Switch(s.agent, id, MoveOptions{})
		s.must(err)
	}
	for _, c := range []struct {
		name string
		do   func()
	}{
		{"undo and redo", func() { s.undo(); s.redo() }},
		{"0 and back", func() {
			to(0)
			to(last)
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			start := cpuTime(b)
			for range b.N {
				c.do()
			}
			b.ReportMetric(float64(cpuTime(b)-start)/float64(b.N), "cpu-ns/op")
		})
	}
}
