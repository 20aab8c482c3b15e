package overlay

import (
	"fmt"
	"testing"
)

// scanCounter counts what is read of the journal.
type scanCounter struct {
	Journal
	scans int
}

func (c *scanCounter) Scan(prefix []byte, fn func(key, value []byte) error) error {
	c.scans++
	return c.Journal.Scan(prefix, fn)
}

// TestCountOfManyTasks: to count the paths of every task of a long history costs as much for each task however many there are.
// It read the images of all that came after it, which took ten minutes for 10,000 tasks.
func TestCountOfManyTasks(t *testing.T) {
	s := newStand(t, 1)
	counter := &scanCounter{}
	s.close()
	s.set = func(o *Options) { counter.Journal, o.Journal = o.Journal, counter }
	s.open()
	cost := func(tasks int) int {
		for i := range tasks {
			s.begin("one of many")
			if err := s.create(fmt.Sprintf("f%d.%d", tasks, i), "x", 0o644); err != nil {
				t.Fatal(err)
			}
		}
		counter.scans = 0
		for _, k := range s.e.Tasks() {
			if n := s.e.FileCount(k); n != 1 {
				t.Fatalf("task %d changed %d paths", k.ID, n)
			}
		}
		return counter.scans
	}
	few, many := cost(2*countWay), cost(8*countWay)
	if each := 4 * 10 * countWay; many > few*2+each {
		t.Errorf("%d scans for %d tasks, %d for %d more", few, 2*countWay, many, 8*countWay)
	}
	if again := cost(0); again > few {
		t.Errorf("%d scans when they had been counted", again)
	}
}
