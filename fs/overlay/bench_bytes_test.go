package overlay

import (
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// bigBench is the size of the file that BenchmarkBytes writes into.
const bigBench = 64 << 20

// BenchmarkBytes is writes into a big file that was there before the task: how often bytes are kept, and what of it costs
// how much. It reports the bytes that the journal grew by for a byte written.
func BenchmarkBytes(b *testing.B) {
	text := []byte(strings.Repeat("A line of text that is like no other line in this file, or is it?\n", 1000))
	places := func(seed uint64, n int) []int64 {
		rng, out := rand.New(rand.NewPCG(seed, 1)), make([]int64, n)
		for i := range out {
			out[i] = rng.Int64N(bigBench/4096) * 4096
		}
		return out
	}
	for _, c := range []struct {
		name  string
		fill  []byte
		agent bool // guarded, and knows the file
		twice bool // what is written to was written to before in the task
		size  int
		at    func(n int) []int64
	}{
		{"random 4K of noise, first", noise(1 << 20), false, false, 4096, func(n int) []int64 { return places(1, n) }},
		{"random 4K of text, first", text, false, false, 4096, func(n int) []int64 { return places(1, n) }},
		{"random 4K, later", text, false, true, 4096, func(n int) []int64 { return places(1, n) }},
		{"random 4K of text, first, guarded", text, true, false, 4096, func(n int) []int64 { return places(1, n) }},
		{"random 4K, later, guarded", text, true, true, 4096, func(n int) []int64 { return places(1, n) }},
		{"sequential 4K of noise", noise(1 << 20), false, false, 4096, func(n int) []int64 { return steps(n, 4096) }},
		{"sequential 4K of text", text, false, false, 4096, func(n int) []int64 { return steps(n, 4096) }},
		{"sequential 128K of noise", noise(1 << 20), false, false, 128 << 10, func(n int) []int64 { return steps(n, 128<<10) }},
		{"sequential 1M of noise", noise(1 << 20), false, false, 1 << 20, func(n int) []int64 { return steps(n, 1<<20) }},
	} {
		b.Run(strings.ReplaceAll(c.name, " ", "_"), func(b *testing.B) {
			s := newStand(b, 1)
			agent := s.agent
			s.agent = "user"
			s.set = func(o *Options) { o.Events, o.Guard = nil, true }
			s.reopen()
			s.e.SetPassthrough(true)
			content := make([]byte, 0, bigBench)
			for len(content) < bigBench {
				content = append(content, c.fill[:min(len(c.fill), bigBench-len(content))]...)
			}
			s.must(s.create("big", string(content), 0o644))
			s.begin("measured")
			if c.agent {
				s.agent = agent
				s.begin("measured")
			}
			h, err := s.e.Open(s.caller(), s.names[dentry{RootNode, "big"}], unix.O_RDWR, false, nil)
			s.must(err)
			defer s.e.Release(h)
			if c.agent {
				for off := int64(0); off < bigBench; off += 1 << 20 {
					_, err := s.e.Read(h, make([]byte, 1<<20), off)
					s.must(err)
				}
			}
			at, data := c.at(b.N), noise(c.size)
			write := func() {
				for _, off := range at {
					_, err := s.e.Write(s.caller(), h, data, off%bigBench, false, false)
					s.must(err)
				}
			}
			if c.twice {
				write()
			}
			b.ReportAllocs()
			grown, start := s.j.Stats().SegmentBytes, cpuTime(b)
			b.ResetTimer()
			write()
			b.StopTimer()
			b.ReportMetric(float64(cpuTime(b)-start)/float64(b.N), "cpu-ns/op")
			b.ReportMetric(float64(s.j.Stats().SegmentBytes-grown)/float64(b.N*c.size), "kept/byte")
		})
	}
}

func steps(n, by int) []int64 {
	out := make([]int64, n)
	for i := range out {
		out[i] = int64(i) * int64(by)
	}
	return out
}
