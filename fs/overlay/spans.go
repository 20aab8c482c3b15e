package overlay

import (
	"iter"
	"slices"
)

// span is bytes [from, to) of a file.
type span struct{ from, to int64 }

// covered is which bytes of an object's content, as it was at its first touch by a task, are kept.
//
// Its spans are ascending and do not touch one another. They are in leaves of at most leafSpans, none of them empty, so that
// a program that writes to a million places of a file finds each place by two short searches, and moves a few kilobytes to
// put it in.
type covered struct {
	size   int64 // at the first touch: bytes beyond it were not there and need not be kept
	leaves [][]span
}

// leafSpans is how many spans a leaf has at most.
const leafSpans = 256

func endsBefore(s span, at int64) int {
	if s.to < at {
		return -1
	}
	return 1
}

// find is where the first span is that ends at an offset or behind it: a leaf and a place in it, past the last leaf when
// there is none.
func (c *covered) find(at int64) (leaf, i int) {
	leaf, _ = slices.BinarySearchFunc(c.leaves, at, func(l []span, at int64) int { return endsBefore(l[len(l)-1], at) })
	if leaf < len(c.leaves) {
		i, _ = slices.BinarySearchFunc(c.leaves[leaf], at, endsBefore)
	}
	return leaf, i
}

// add covers [from, to).
func (c *covered) add(from, to int64) {
	if from >= to {
		return
	}
	first, i := c.find(from)
	if first == len(c.leaves) {
		if first--; first < 0 {
			c.leaves = [][]span{{{from, to}}}
			return
		}
		i = len(c.leaves[first])
	}
	// The spans from (first, i) to before (last, j) become one with it.
	last, j := first, i
	for {
		if j == len(c.leaves[last]) {
			if last+1 == len(c.leaves) {
				break
			}
			last, j = last+1, 0
		}
		s := c.leaves[last][j]
		if s.from > to {
			break
		}
		from, to = min(from, s.from), max(to, s.to)
		j++
	}
	if last == first {
		c.leaves[first] = slices.Replace(c.leaves[first], i, j, span{from, to})
	} else {
		c.leaves[first] = append(c.leaves[first][:i], span{from, to})
		if c.leaves[last] = c.leaves[last][j:]; len(c.leaves[last]) == 0 {
			last++
		}
		c.leaves = slices.Delete(c.leaves, first+1, last)
	}
	if l := c.leaves[first]; len(l) > leafSpans {
		half := len(l) / 2
		c.leaves = slices.Insert(c.leaves, first+1, slices.Clone(l[half:]))
		c.leaves[first] = l[:half]
	}
}

// all are the spans that end at an offset or behind it, ascending.
func (c *covered) all(at int64) iter.Seq[span] {
	return func(yield func(span) bool) {
		for leaf, i := c.find(at); leaf < len(c.leaves); leaf, i = leaf+1, 0 {
			for _, s := range c.leaves[leaf][i:] {
				if !yield(s) {
					return
				}
			}
		}
	}
}

// gaps are the parts of [from, to), below size, that are not covered.
func (c *covered) gaps(from, to int64) []span {
	to = min(to, c.size)
	var out []span
	for s := range c.all(from) {
		if from >= to || s.from >= to {
			break
		}
		if s.from > from {
			out = append(out, span{from, s.from})
		}
		from = max(from, s.to)
	}
	if from < to {
		out = append(out, span{from, to})
	}
	return out
}

// has says whether all of [from, to), below size, is covered. It allocates nothing.
func (c *covered) has(from, to int64) bool {
	if to = min(to, c.size); from >= to {
		return true
	}
	leaf, i := c.find(from + 1)
	return leaf < len(c.leaves) && c.leaves[leaf][i].from <= from && to <= c.leaves[leaf][i].to
}

// before is how many bytes right before an offset are covered without a gap.
func (c *covered) before(at int64) int64 {
	if leaf, i := c.find(at); leaf < len(c.leaves) && c.leaves[leaf][i].from < at {
		return at - c.leaves[leaf][i].from
	}
	return 0
}

// whole says whether every byte is kept: nothing done to the content can lose any.
func (c *covered) whole() bool { return c != nil && c.has(0, c.size) }
