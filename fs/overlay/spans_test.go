package overlay

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestCovered holds spans against a map of single bytes: few spans, and so many that there are several leaves.
func TestCovered(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		most, steps, longest := int64(60), 20, int64(60)
		if seed%20 == 0 {
			most, steps, longest = 16*leafSpans, 4*leafSpans, 4
		}
		size := rng.Int64N(most)
		c, naive := covered{size: size}, make([]bool, 2*most)
		leaves := 0
		for step := range steps {
			if longest == 4 && step > steps*9/10 {
				longest = most // and they become few again
			}
			from := rng.Int64N(most)
			to := from + rng.Int64N(longest)
			if rng.IntN(2) == 0 || longest == 4 {
				c.add(from, to)
				for i := from; i < to; i++ {
					naive[i] = true
				}
			}
			leaves = max(leaves, len(c.leaves))
			all := slices.Collect(c.all(0))
			for i := 1; i < len(all); i++ {
				if all[i].from <= all[i-1].to {
					t.Fatalf("seed %d: overlapping, touching or unsorted: %v", seed, all)
				}
			}
			for _, l := range c.leaves {
				if len(l) == 0 || len(l) > leafSpans {
					t.Fatalf("seed %d: a leaf of %d spans", seed, len(l))
				}
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
				t.Fatalf("seed %d: gaps of %d to %d in %v of %d bytes: %v, should be %v", seed, from, to, all, size, got, want)
			}
			if has := len(want) == 0; c.has(from, to) != has {
				t.Fatalf("seed %d: has %d to %d in %v of %d bytes: %v", seed, from, to, all, size, !has)
			}
			before := int64(0)
			for from-before > 0 && naive[from-before-1] {
				before++
			}
			if got := c.before(from); got != before {
				t.Fatalf("seed %d: %d bytes before %d in %v, should be %d", seed, got, from, all, before)
			}
			if whole := !slices.Contains(naive[:size], false); c.whole() != whole {
				t.Fatalf("seed %d: whole of %v of %d bytes: %v", seed, all, size, c.whole())
			}
		}
		if longest == most && most > 60 && leaves < 2 {
			t.Errorf("seed %d: only %d leaves", seed, leaves)
		}
	}
}

// TestWidened: what is kept of a file that is overwritten in some pattern, and in how many pieces.
func TestWidened(t *testing.T) {
	t.Parallel()
	const size, unit = 64 << 20, 4 << 10
	for _, c := range []struct {
		name     string
		from, by int64 // writes of by bytes at from, from+by, …
		skip     int64 // with so many bytes between
		writes   int64
		pieces   int     // at most
		kept     float64 // of what is overwritten, at most
	}{
		{"one byte", 12345, 1, 0, 1, 1, unit},
		{"a block", 40960, unit, 0, 1, 1, 1},
		{"every tenth block", 0, unit, 9 * unit, 1000, 1000, 1},
		{"blocks that go on", 0, unit, 0, 10_000, 60, 1.1},
		{"lines that go on", 100, 100, 0, 100_000, 30, 2},
		{"three blocks and no more", 0, unit, 0, 3, 3, 1},
		{"five blocks and no more", 0, unit, 0, 5, 5, 8. / 5},
		{"large writes that go on", 0, 128 << 10, 0, 256, 40, 1.1},
		{"to the end", size - 100*unit, unit, 0, 100, 12, 1},
	} {
		cov, pieces, kept, last := covered{size: size}, 0, int64(0), int64(0)
		for i := range c.writes {
			from := c.from + i*(c.by+c.skip)
			for _, g := range widened(&cov, from, from+c.by, size, unit) {
				if g.to > size {
					t.Fatalf("%s: %v is kept of %d bytes", c.name, g, size)
				}
				pieces, kept = pieces+1, kept+g.to-g.from
				cov.add(g.from, g.to)
			}
			if last = from + c.by; !cov.has(from, last) {
				t.Fatalf("%s: %d to %d is not kept", c.name, from, last)
			}
		}
		if share := float64(kept) / float64(c.writes*c.by); pieces > c.pieces || share > c.kept {
			t.Errorf("%s: %d pieces, %.2f of what is overwritten; should be %d and %.2f", c.name, pieces, share, c.pieces, c.kept)
		}
	}
}
