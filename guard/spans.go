package guard

import "slices"

// spans is a set of bytes: sorted, not empty, with a gap between any two.
type spans []Span

// add puts [from, to) into the set. Of more than maxSpans the smallest other one is forgotten.
func (s *spans) add(from, to int64) {
	if from < 0 {
		from = 0
	}
	if from >= to {
		return
	}
	v := *s
	i := len(v)
	if n := len(v); n == 0 || v[n-1].To < from { // the usual: at the end
		v = append(v, Span{from, to})
	} else {
		i = v.from(from)
		j := i
		for ; j < len(v) && v[j].From <= to; j++ {
			from, to = min(from, v[j].From), max(to, v[j].To)
		}
		if i == j {
			v = slices.Insert(v, i, Span{from, to})
		} else {
			v[i] = Span{from, to}
			v = slices.Delete(v, i+1, j)
		}
	}
	if len(v) > maxSpans {
		v = v.forget(i)
	}
	*s = v
}

// from is the first span that ends at off or later.
func (s spans) from(off int64) int {
	lo, hi := 0, len(s)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if s[mid].To < off {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// forget drops the smallest span but the one at keep.
func (s spans) forget(keep int) spans {
	small := -1
	for i, v := range s {
		if i != keep && (small < 0 || v.To-v.From < s[small].To-s[small].From) {
			small = i
		}
	}
	return slices.Delete(s, small, small+1)
}

// cut takes away all from size on.
func (s *spans) cut(size int64) {
	v := *s
	for len(v) > 0 && v[len(v)-1].From >= size {
		v = v[:len(v)-1]
	}
	if n := len(v); n > 0 && v[n-1].To > size {
		v[n-1].To = size
	}
	*s = v
}

// covers says whether all of [from, to) is in the set.
func (s spans) covers(from, to int64) bool {
	if from >= to {
		return true
	}
	i := s.from(from + 1)
	return i < len(s) && s[i].From <= from && s[i].To >= to
}

// missing is what of [from, to) is not in the set.
func (s spans) missing(from, to int64) []Span {
	var out []Span
	for i := s.from(from); i < len(s) && s[i].From < to; i++ {
		if s[i].From > from {
			out = append(out, Span{from, s[i].From})
		}
		from = max(from, s[i].To)
	}
	if from < to {
		out = append(out, Span{from, to})
	}
	return out
}
