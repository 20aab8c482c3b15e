package tasktree

import (
	"cmp"
	"slices"
)

// Touch says that a task has an image of a thing, and when it was made or last swapped, in numbers of one rising sequence.
type Touch[T comparable] struct {
	Thing T
	At    uint64
}

// Part is a step, or as much of one as concerns some things.
type Part[T comparable] struct {
	Step
	// Only are the things that are swapped; nil: all that the task has images of.
	Only []T
}

// Weave puts the steps of a plan of several agents into an order in which every swap is exact. An image holds what a thing
// was before its task touched it first. Two agents work at once, so that the one may be the first at one thing and the
// other at another, and no order of whole tasks is right for both. For one thing there is a right order: who touched it
// last goes first. It is that of taking back and, since a swap counts as a touch, that of doing again. Tasks stay whole, and in
// the order of the plan, as far as that allows; what it does not allow is cut into parts.
//
// Errors: none. Shape: parts of one step are next to one another or not; together they are the step. Steps taken back
// stay before those done again.
func Weave[T comparable](steps []Step, touched func(TaskID) []Touch[T]) []Part[T] {
	split := slices.IndexFunc(steps, func(s Step) bool { return s.Redo })
	if split < 0 {
		split = len(steps)
	}
	return append(weave(steps[:split], touched), weave(steps[split:], touched)...)
}

// loom is the state of a weaving: what is left of each step, and for each thing whose turn it is.
type loom[T comparable] struct {
	left  [][]T
	turns map[T][]int // indices of steps, the next first
}

func weave[T comparable](steps []Step, touched func(TaskID) []Touch[T]) []Part[T] {
	l := loom[T]{left: make([][]T, len(steps)), turns: map[T][]int{}}
	at := map[T]map[int]uint64{}
	for i, s := range steps {
		for _, t := range touched(s.Task) {
			if at[t.Thing] == nil {
				at[t.Thing] = map[int]uint64{}
			}
			at[t.Thing][i] = t.At
			l.left[i] = append(l.left[i], t.Thing)
			l.turns[t.Thing] = append(l.turns[t.Thing], i)
		}
	}
	for thing, turns := range l.turns {
		slices.SortStableFunc(turns, func(a, b int) int { return cmp.Compare(at[thing][b], at[thing][a]) })
	}
	var out []Part[T]
	whole := make([]bool, len(steps))
	open := make([]int, len(steps))
	for i := range steps {
		whole[i], open[i] = true, i
	}
	for len(open) > 0 {
		n := slices.IndexFunc(open, func(i int) bool { return len(l.ready(i)) == len(l.left[i]) })
		if n < 0 {
			n = slices.IndexFunc(open, func(i int) bool { return len(l.ready(i)) > 0 })
		}
		i := open[n]
		part := Part[T]{Step: steps[i]}
		ready := l.ready(i)
		if all := len(ready) == len(l.left[i]); all {
			open = slices.Delete(open, n, n+1)
			if !whole[i] {
				part.Only = ready
			}
		} else {
			whole[i], part.Only = false, ready
		}
		l.take(i, ready)
		out = append(out, part)
	}
	return out
}

// ready are the things of a step whose turn it is.
func (l *loom[T]) ready(i int) []T {
	out := []T{}
	for _, thing := range l.left[i] {
		if l.turns[thing][0] == i {
			out = append(out, thing)
		}
	}
	return out
}

func (l *loom[T]) take(i int, things []T) {
	done := map[T]bool{}
	for _, thing := range things {
		l.turns[thing], done[thing] = l.turns[thing][1:], true
	}
	l.left[i] = slices.DeleteFunc(l.left[i], func(thing T) bool { return done[thing] })
}
