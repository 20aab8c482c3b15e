package cas

import "testing"

// A put of what is being removed waits for the removal, no longer, and what is
// pinned is not removed.
func TestPins(t *testing.T) {
	var p pins
	p.init()
	a, b, c, d := Ref{1}, Ref{2}, Ref{3}, Ref{4}
	before := p.newSet()
	before.add(a)
	before.add(a)
	p.beginCollect()
	before.release() // held when Collect began: stays
	during := p.newSet()
	during.add(b)
	during.release()

	free := p.doom([]victim{{ref: a}, {ref: b}, {ref: c}})
	if len(free) != 1 || free[0].ref != c {
		t.Fatalf("free %v", free)
	}
	put := p.newSet()
	if put.tryAdd(d) != nil || put.tryAdd(a) != nil {
		t.Error("waits for what is not being removed")
	}
	wait := put.tryAdd(c)
	if wait == nil {
		t.Fatal("does not wait for a removal")
	}
	select {
	case <-wait:
		t.Fatal("the removal ends before its end")
	default:
	}
	added := make(chan struct{})
	go func() {
		defer close(added)
		put.add(c)
	}()
	p.endDoom()
	<-wait
	<-added
	if free := p.doom([]victim{{ref: c}, {ref: d}}); len(free) != 0 {
		t.Errorf("free %v", free)
	}
	p.endDoom()
	p.endCollect()

	p.beginCollect() // the next Collect forgets what only the last one kept
	free = p.doom([]victim{{ref: a}, {ref: b}, {ref: c}})
	if len(free) != 1 || free[0].ref != b {
		t.Errorf("free %v", free)
	}
	p.endDoom()
	p.endCollect()
	put.release()
	if len(p.held) != 0 || p.recent != nil {
		t.Errorf("left: %v, %v", p.held, p.recent)
	}
}
