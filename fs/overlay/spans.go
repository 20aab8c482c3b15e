package overlay

import "slices"

// span is bytes [from, to) of a file.
type span struct{ from, to int64 }

// covered is which bytes of an object's content, as it was at its first touch by a task, are kept.
type covered struct {
	size  int64 // at the first touch: bytes beyond it were not there and need not be kept
	spans []span
}

// add covers [from, to).
func (c *covered) add(from, to int64) {
	if from >= to {
		return
	}
	i, _ := slices.BinarySearchFunc(c.spans, from, func(s span, at int64) int {
		if s.to < at {
			return -1
		}
		return 1
	})
	j := i
	for j < len(c.spans) && c.spans[j].from <= to {
		from, to = min(from, c.spans[j].from), max(to, c.spans[j].to)
		j++
	}
	c.spans = slices.Replace(c.spans, i, j, span{from, to})
}

// gaps are the parts of [from, to), below size, that are not covered.
func (c *covered) gaps(from, to int64) []span {
	to = min(to, c.size)
	var out []span
	for _, s := range c.spans {
		if from >= to || s.from >= to {
			break
		}
		if s.to <= from {
			continue
		}
		if s.from > from {
			out = append(out, span{from, s.from})
		}
		from = s.to
	}
	if from < to {
		out = append(out, span{from, to})
	}
	return out
}

// whole says whether every byte is kept: nothing done to the content can lose any.
func (c *covered) whole() bool { return c != nil && len(c.gaps(0, c.size)) == 0 }
