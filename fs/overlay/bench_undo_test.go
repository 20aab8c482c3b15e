package overlay

import (
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkUndoMany is undo and redo of a thousand files of 4 KiB that became short, beside a copy of their before-images.
func BenchmarkUndoMany(b *testing.B) {
	const files = 1000
	page := string(noise(4096))
	s := newStand(b, 1)
	s.set = func(o *Options) { o.Events = nil }
	s.reopen()
	before, bare := b.TempDir(), b.TempDir()
	s.must(s.mkdir("t", 0o755))
	for i := range files {
		s.must(s.create("t/"+benchName(i), benchName(i)+page, 0o644))
		s.must(os.WriteFile(filepath.Join(before, benchName(i)), []byte(benchName(i)+page), 0o644))
	}
	s.reopen()
	s.begin("measured")
	for i := range files {
		s.must(s.rewrite("t/"+benchName(i), "changed"))
	}
	for _, c := range []struct {
		name string
		do   func()
	}{
		{"undo", s.undo},
		{"redo", s.redo},
		{"cp", func() {
			for i := range files {
				content, err := os.ReadFile(filepath.Join(before, benchName(i)))
				s.must(err)
				s.must(os.WriteFile(filepath.Join(bare, benchName(i)), content, 0o644))
			}
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.ResetTimer()
			used := int64(0)
			for range b.N {
				if c.name == "redo" {
					b.StopTimer()
					s.undo()
					b.StartTimer()
				}
				start := cpuTime(b)
				c.do()
				used += cpuTime(b) - start
				if c.name == "undo" {
					b.StopTimer()
					s.redo()
					b.StartTimer()
				}
			}
			b.ReportMetric(float64(used)/float64(b.N*files), "cpu-ns/file")
		})
	}
}
