package overlay

import (
	"fmt"
	"testing"
)

// TestLongMove: a move over many tasks writes as much for each of them as one over few, and undo looks at no more of the history
// than it needs.
func TestLongMove(t *testing.T) {
	t.Parallel()
	written := func(tasks int) float64 {
		s := newStand(t, 1)
		s.must(s.create("f", "before", 0o644))
		before := s.snapshot(true)
		for i := range tasks {
			s.begin(fmt.Sprint("task ", i))
			s.must(s.write("f", 0, fmt.Sprint("of task ", i)))
		}
		after, last := s.snapshot(true), s.e.Active(s.agent)
		was := s.j.Stats().SegmentBytes
		_, err := s.e.Switch(s.agent, 1, MoveOptions{})
		s.must(err)
		n := s.j.Stats().SegmentBytes - was
		s.check("at the first", before)
		_, err = s.e.Switch(s.agent, last, MoveOptions{})
		s.must(err)
		s.check("and back", after)
		s.verify()
		return float64(n) / float64(tasks)
	}
	few, many := written(40), written(400)
	t.Logf("%.0f bytes a task for 40, %.0f for 400", few, many)
	if many > 1.2*few {
		t.Errorf("a move writes %.0f bytes a task over 40 tasks, and %.0f over 400", few, many)
	}
}

// TestFarOfMove: what is recorded of how far a move has come counts, and nothing that cannot be so is taken for it.
func TestFarOfMove(t *testing.T) {
	m := &mover{num: 7, parts: make([]part, 3)}
	for i := range m.parts {
		m.parts[i].Task = 1
	}
	i := interrupted{num: 7, rec: m.encode(false)}
	for far, want := range map[string]string{"": "0 false", "\x02\x01": "2 true", "\x03\x00": "3 false", "\x03\x01": "", "\x04\x00": "", "\x02": "", "\xff": "", "\x01\x01\x00": ""} {
		if far != "" {
			i.far = []byte(far)
		} else {
			i.far = nil
		}
		m, prepared, err := i.mover(nil)
		if got := fmt.Sprint(m.done, prepared); (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("%x: %s, %v, want %q", far, got, err, want)
		}
	}
}
