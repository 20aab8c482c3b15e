package overlay

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestCovered holds spans against a map of single bytes.
func TestCovered(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		size := rng.Int64N(60)
		c, naive := covered{size: size}, make([]bool, 80)
		for range 20 {
			from, to := rng.Int64N(80), rng.Int64N(80)
			if rng.IntN(2) == 0 {
				c.add(from, to)
				for i := from; i < to; i++ {
					naive[i] = true
				}
			}
			if !slices.IsSortedFunc(c.spans, func(a, b span) int { return int(a.from - b.to) }) {
				t.Fatalf("seed %d: overlapping or unsorted: %v", seed, c.spans)
			}
			var want, got []int64
			for i := from; i < min(to, size); i++ {
				if !naive[i] {
					want = append(want, i)
				}
			}
			for _, g := range c.gaps(from, to) {
				for i := g.from; i < g.to; i++ {
					got = append(got, i)
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: gaps of %d to %d in %v of %d bytes: %v, should be %v", seed, from, to, c.spans, size, got, want)
			}
			if whole := !slices.Contains(naive[:size], false); c.whole() != whole {
				t.Fatalf("seed %d: whole of %v of %d bytes: %v", seed, c.spans, size, c.whole())
			}
		}
	}
}
